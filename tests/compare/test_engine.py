import dataclasses

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.compare import compare_blocks, decided, look, stop_reason
from bakeoff.errors import UsageError
from bakeoff.metrics import METRICS
from bakeoff.model import Comparison, Experiment, Load, Result, Variant

from .simulate import Arm, Noise, Simulation, experiment, workload


def result_of(simulation: Simulation, **options: object) -> Result:
    return compare_blocks(
        simulation.experiment,
        simulation.blocks,
        simulation.starts,
        run="r",
        state="complete",
        **options,  # type: ignore[arg-type]  # keywords of compare_blocks
    )


def row(result: Result, metric: str, statistic: str | None = None, candidate: str = "flash") -> Comparison:
    wanted = statistic or METRICS[metric].statistics[0]
    rows = [
        r
        for r in (*result.comparisons, *result.resources)
        if (r.candidate, r.metric, r.statistic) == (candidate, metric, wanted)
    ]
    assert len(rows) == 1
    return rows[0]


def test_ten_per_cent_slower_is_slower_in_few_pairs() -> None:
    noise = Noise(eps=0.05, ar=0.03, start=0.01, slow=0.005, trend=0.0, outliers=0.01)
    for seed in range(3):
        simulation = Simulation(experiment(), {"flash": Arm(tpot_s=0.022)}, noise=noise, seed=seed).run(5)
        tpot = None
        for rounds in range(6, 15):
            tpot = row(result_of(simulation.run(1)), "tpot_s")
            assert tpot.pairs == rounds
            if tpot.outcome == "slower":
                break
        assert tpot is not None
        assert tpot.outcome == "slower"
        assert tpot.ratio.low is not None
        assert tpot.ratio.high is not None
        assert tpot.ratio.low < 1.1 < tpot.ratio.high


def test_base_against_itself_shows_no_difference() -> None:
    """Eight runs of twenty rounds under the full noise, looked at again and again."""
    wrong = 0
    asked = experiment(aa_pairs=0)
    for seed in range(8):
        simulation = Simulation(asked, noise=Noise(), seed=100 + seed).run(20)
        found = False
        for rounds in (8, 12, 16, 20):
            blocks = [b for b in simulation.blocks if b.block.round < rounds]
            result = compare_blocks(asked, blocks, (), run="r", state="running")
            found |= any(
                r.detectable or r.outcome not in ("inconclusive", "equivalent") for r in result.comparisons if r.gate
            )
        wrong += found
    assert wrong <= 1


def test_faster_and_higher_throughput() -> None:
    result = result_of(Simulation(experiment(), {"flash": Arm(ttft_s=0.04, tpot_s=0.012)}).run(8))
    for metric in ("ttft_s", "tpot_s", "e2e_latency_s", "itl_s", "request_throughput_rps", "token_throughput_tps"):
        assert row(result, metric).outcome == "faster", metric
    assert row(result, "token_throughput_tps").ratio.point == pytest.approx(1.65, abs=0.03)
    base = row(result, "tpot_s").base
    assert base.point == pytest.approx(0.02, rel=0.05)
    assert base.low is not None
    assert base.low < 0.02


def test_levels_of_gates_and_exploration() -> None:
    result = result_of(Simulation(experiment(), {"flash": Arm(tpot_s=0.022)}).run(8))
    gate, explored = row(result, "tpot_s"), row(result, "tpot_s", "mean")
    assert gate.gate
    assert "over all 2 gates together" in gate.method
    assert not explored.gate
    assert explored.method.endswith("exploration, BH")
    assert gate.minimum_detectable is not None
    assert 0 < gate.minimum_detectable < 0.1


def test_more_gates_make_wider_intervals() -> None:
    simulation = Simulation(experiment(), {"flash": Arm(tpot_s=0.022)}).run(8)
    few = row(result_of(simulation), "tpot_s").ratio
    simulation.experiment = msgspec.structs.replace(
        simulation.experiment, gates=("ttft_s", "tpot_s", "e2e_latency_s", "itl_s")
    )
    many = row(result_of(simulation), "tpot_s").ratio
    assert few.low is not None
    assert many.low is not None
    assert many.low < few.low
    assert many.point == few.point


def test_exploration_that_chance_explains_is_not_called_a_difference() -> None:
    """Rows that exclude no change on their own (p just below 5 %) fall to the correction for many rows."""
    from bakeoff.compare.rows import Draft, finish
    from bakeoff.compare.targets import all_targets
    from bakeoff.model import Interval, Ratio

    asked = experiment()
    simulation = Simulation(asked).run(6)
    from bakeoff.compare.pairs import Grid

    series = Grid(asked, simulation.blocks).series("base", "flash", "chat/c1", METRICS["ttft_s"], "p50")
    targets = [t for t in all_targets(asked) if not t.gate][:8]

    def draft(index: int, p: float) -> Draft:
        target = targets[index]
        comparison = Comparison(
            candidate="flash",
            metric=target.metric.name,
            statistic=target.statistic,
            unit="s",
            better="lower",
            base=Interval(point=1.0),
            value=Interval(point=1.1),
            ratio=Ratio(point=1.1),
            outcome="slower" if index else "probably slower",
            margin=0.03,
            pairs=6,
        )
        return Draft(target=target, series=series, comparison=comparison, p_value=p)

    drafts = [draft(0, 0.04), draft(1, 0.045), *(draft(i, 0.9) for i in range(2, 7)), draft(7, 1e-6)]
    rows = finish(asked, drafts, {})
    assert [r.outcome for r in rows[:2]] == ["inconclusive", "inconclusive"]
    assert (rows[0].reason or "").startswith(
        "6 pairs cannot carry a claim among 8 explored rows, whatever they show; 7 "
    )
    more = [dataclasses.replace(d, comparison=msgspec.structs.replace(d.comparison, pairs=7)) for d in drafts]
    assert "correction for 8 explored rows" in (finish(asked, more, {})[0].reason or "")
    assert rows[7].outcome == "slower"


def test_unknown_gate_is_an_error() -> None:
    with pytest.raises(UsageError):
        result_of(Simulation(experiment(gates=("speed",))))


def test_no_data_yet() -> None:
    result = result_of(Simulation(experiment()))
    assert [r.metric for r in result.comparisons] == ["ttft_s", "tpot_s"]
    assert {r.outcome for r in result.comparisons} == {"inconclusive"}
    assert {r.reason for r in result.comparisons} == {"no complete pair yet"}
    assert result.rounds == 0
    assert not decided(result)
    assert look(experiment(), result, 0).stop is None


@pytest.mark.parametrize(("rounds", "reason"), [(1, "one pair"), (4, "too few")])
def test_too_few_pairs_say_so(rounds: int, reason: str) -> None:
    found = row(result_of(Simulation(experiment(), {"flash": Arm(tpot_s=0.03)}).run(rounds)), "tpot_s")
    assert found.outcome == "inconclusive"
    assert found.ratio.point == pytest.approx(1.5, rel=0.03)
    assert (found.ratio.low, found.ratio.high) == (None, None)
    assert reason in (found.reason or "")
    if rounds > 1:
        assert found.pairs_needed is not None
        assert 1 <= found.pairs_needed <= 3


def test_tail_gate_without_enough_requests_stays_open() -> None:
    found = row(result_of(Simulation(experiment(gates=("ttft_s.p99",))).run(6)), "ttft_s", "p99")
    assert found.gate
    assert found.outcome == "inconclusive"
    assert (found.reason or "").startswith("p99 needs at least 1000 requests in every block, and the smallest has 16")


def test_resources_by_start() -> None:
    arms = {"base": Arm(peak_bytes=540_000_000), "flash": Arm(peak_bytes=290_000_000, start_s=3.0)}
    result = result_of(Simulation(experiment(), arms).run(8))
    memory, cold = row(result, "peak_memory_bytes"), row(result, "cold_start_s")
    assert memory.outcome == "better"
    assert memory.ratio.point == pytest.approx(29 / 54, rel=0.01)
    assert memory.workload is None
    assert memory.pairs == 8
    assert cold.outcome == "slower"
    assert cold.base.point == pytest.approx(2.1, rel=0.05)
    assert [r for r in result.resources if r.metric == "peak_gpu_bytes"] == []


def test_one_start_per_arm_has_no_interval() -> None:
    result = result_of(Simulation(experiment(start_every=0), {"flash": Arm(peak_bytes=100_000_000)}).run(6))
    memory = row(result, "peak_memory_bytes")
    assert (memory.outcome, memory.reason) == ("inconclusive", "one start per arm")
    assert memory.ratio.low is None
    assert [c.severity for c in result.warnings if c.code == "one-start"] == ["warning"]


def test_start_groups_in_the_result() -> None:
    simulation = Simulation(experiment(start_every=2), {"flash": Arm(tpot_s=0.03)}).run(13)
    result = result_of(simulation)
    found = row(result, "tpot_s")
    assert found.outcome == "slower"
    assert found.pairs == 12
    assert "averaged over the 2 rounds of a start" in found.method
    assert [c.code for c in result.warnings if c.code == "unfinished-group"] == ["unfinished-group"]
    assert stop_reason(simulation.experiment, result, 13) is None
    assert stop_reason(simulation.experiment, result, 14) is not None


def test_stop_waits_for_the_least_number_of_pairs_and_every_gate() -> None:
    asked = experiment()
    result = result_of(Simulation(asked, {"flash": Arm(tpot_s=0.03)}).run(8))
    assert decided(result)
    assert stop_reason(asked, result, 5) is None
    assert stop_reason(asked, result, 8) == "both gates are decided after 8 rounds"
    rows = tuple(msgspec.structs.replace(r, outcome="invalid") if r.gate else r for r in result.comparisons)
    assert stop_reason(asked, msgspec.structs.replace(result, comparisons=rows), 8) is None


def test_look_tells_what_is_missing() -> None:
    asked = experiment()
    result = result_of(Simulation(asked, {"flash": Arm(tpot_s=0.03)}).run(4))
    found = look(asked, result, 4)
    assert found.stop is None
    assert found.more_rounds is not None
    assert found.estimate[0].startswith("chat/c1 TTFT ")
    assert "TPOT +" in found.estimate[1]


def test_ttfo_appears_only_where_it_differs() -> None:
    plain = result_of(Simulation(experiment()).run(3))
    assert not any(r.metric == "ttfo_s" for r in plain.comparisons)
    thinks = Arm(columns={"first_output_ns": lambda columns: columns["first_token_ns"] + 10**8})
    result = result_of(Simulation(experiment(), {"flash": thinks}).run(8))
    assert row(result, "ttfo_s").outcome == "slower"
    assert row(result, "ttft_s").outcome == "equivalent"


def test_several_candidates_and_cells() -> None:
    asked = experiment(
        variants=tuple(Variant(name=n, engine="openai") for n in ("base", "flash", "fixed")),
        workloads=(workload(load=Load(kind="closed", levels=(1, 4))),),
    )
    result = result_of(Simulation(asked, {"flash": Arm(tpot_s=0.03), "fixed": Arm(tpot_s=0.015)}).run(9))
    gates = {(r.candidate, r.load["concurrency"], r.metric): r.outcome for r in result.comparisons if r.gate}
    assert len(gates) == 8
    assert gates["flash", 1, "tpot_s"] == gates["flash", 4, "tpot_s"] == "slower"
    assert gates["fixed", 1, "tpot_s"] == gates["fixed", 4, "tpot_s"] == "faster"


def test_quality_is_never_called_fine() -> None:
    simulation = Simulation(experiment()).run(2)
    assert [q.status for q in result_of(simulation).quality] == ["not measured"]
    noted = result_of(simulation, quality_note="both come from one quantised file").quality[0]
    assert (noted.status, noted.reason) == ("not comparable", "both come from one quantised file")


def test_result_survives_json_and_recomputes() -> None:
    simulation = Simulation(experiment(), {"flash": Arm(fail=0.3)}).run(4)
    first = result_of(simulation)
    again = msgspec.json.decode(msgspec.json.encode(first), type=Result)
    assert again == first == result_of(simulation)


def swapped(asked: Experiment) -> Experiment:
    return msgspec.structs.replace(asked, variants=tuple(reversed(asked.variants)))


@settings(max_examples=10, deadline=None)
@given(st.floats(0.8, 1.25), st.integers(0, 1000))
def test_swapping_the_arms_inverts_every_row(factor: float, seed: int) -> None:
    asked = experiment(aa_pairs=0)
    simulation = Simulation(asked, {"flash": Arm(tpot_s=0.02 * factor, ttft_s=0.05 / factor)}, seed=seed).run(7)
    there = result_of(simulation)
    simulation.experiment = swapped(asked)
    back = result_of(simulation)
    other = {"faster": "slower", "slower": "faster"}
    other |= {f"probably {a}": f"probably {b}" for a, b in other.items()}
    for r in there.comparisons:
        mirrored = row(back, r.metric, r.statistic, candidate="base")
        assert r.ratio.point is not None
        assert mirrored.ratio.point == pytest.approx(1 / r.ratio.point)
        assert mirrored.outcome == other.get(r.outcome, r.outcome)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 6))
def test_units_do_not_matter(power: int) -> None:
    """Times stretched by a common factor leave ratios and outcomes as they are."""
    simulation = Simulation(experiment(), {"flash": Arm(tpot_s=0.022)}).run(6)
    stretched = Simulation(
        experiment(),
        {"base": Arm(ttft_s=0.05 * 2**power, tpot_s=0.02 * 2**power)}
        | {"flash": Arm(ttft_s=0.05 * 2**power, tpot_s=0.022 * 2**power)},
    ).run(6)
    a, b = row(result_of(simulation), "tpot_s"), row(result_of(stretched), "tpot_s")
    assert np.isclose(a.ratio.point or 0, b.ratio.point or 1, rtol=1e-4)
    assert a.outcome == b.outcome
