"""One look at a number of pairs fixed beforehand, through the whole path."""

from typing import Any

import msgspec
import numpy as np
import pytest

from bakeoff.compare import compare_blocks, stop_reason
from bakeoff.compare.inference import claims
from bakeoff.compare.pairs import Series
from bakeoff.compare.targets import Target, all_targets
from bakeoff.model import BlockSize, Budget, Experiment, Load, Variant

from .simulate import Arm, Noise, Simulation, experiment, workload
from .test_audit import cautions, one
from .test_engine import result_of, row


def fixed(pairs: int = 10, **changes: object) -> Experiment:
    return experiment(method="fixed", budget=Budget(min_pairs=pairs, max_pairs=pairs), **changes)


def test_one_look_decides_with_holm_over_the_gates() -> None:
    result = result_of(Simulation(fixed(), {"flash": Arm(tpot_s=0.022)}).run(10))
    found = row(result, "tpot_s")
    assert found.outcome == "slower"
    assert "fixed n, paired t interval, 95 % over all 2 gates by Holm" in found.method
    assert found.p_value is not None
    assert found.p_value < 1e-6
    assert row(result, "ttft_s").outcome == "equivalent"
    assert row(result, "e2e_latency_s").method.endswith("exploration, BH")


def test_it_is_narrower_than_an_interval_that_may_be_watched() -> None:
    simulation = Simulation(fixed(), {"flash": Arm(tpot_s=0.022)}).run(10)
    once = row(result_of(simulation), "tpot_s").ratio
    simulation.experiment = msgspec.structs.replace(simulation.experiment, method="anytime")
    watched = row(result_of(simulation), "tpot_s").ratio
    assert watched.low is not None
    assert once.low is not None
    assert watched.low < once.low
    assert once.point == watched.point


def test_nothing_is_said_while_it_measures() -> None:
    asked = fixed()
    simulation = Simulation(asked, {"flash": Arm(tpot_s=0.03)}).run(10)
    running = compare_blocks(asked, simulation.blocks, simulation.starts, run="r", state="running")
    assert {r.outcome for r in running.comparisons} == {"inconclusive"}
    assert row(running, "tpot_s").reason == "looked at once, when all 10 pairs are there"
    assert stop_reason(asked, result_of(simulation), 10) is None


def test_fewer_pairs_than_were_fixed_are_told() -> None:
    asked = fixed(20)
    found = one(result_of(Simulation(asked).run(8)), "fixed-n-short")
    assert found.message.startswith("8 pairs of the 20 ")
    assert not cautions(result_of(Simulation(asked).run(20)), "fixed-n-short")


@pytest.mark.parametrize(("state", "remedy"), [("complete", "larger budget"), ("interrupted", "--resume")])
def test_the_remedy_for_fewer_pairs_is_one_that_works(state: Any, remedy: str) -> None:
    """A run that stopped at its budget is complete: it cannot be gone on with."""
    simulation = Simulation(fixed(20)).run(8)
    result = compare_blocks(simulation.experiment, simulation.blocks, simulation.starts, run="", state=state)
    found = one(result, "fixed-n-short")
    assert remedy in found.remedy
    assert ("--resume" in found.remedy) == (state == "interrupted")


def test_tails_are_pooled_where_blocks_are_too_small_and_refused_where_all_are() -> None:
    asked = fixed(gates=("ttft_s.p95", "tpot_s"), workloads=(workload(block=BlockSize(requests=40)),))
    simulation = Simulation(asked, {"flash": Arm(ttft_s=0.1)}, noise=Noise()).run(10)
    result = result_of(simulation)
    p95, p99 = row(result, "ttft_s", "p95"), [r for r in result.comparisons if r.statistic == "p99"]
    assert p95.outcome == "slower"
    assert p95.pairs == 10
    assert "p95 of all pairs together" in p95.method
    assert "pair-bootstrap error" in p95.method
    assert p95.ratio.point == pytest.approx(2, rel=0.2)
    assert p95.value.point == pytest.approx(2 * (p95.base.point or 0), rel=0.2)
    assert p95.minimum_detectable is not None
    assert p99 == []  # 400 requests in all
    assert one(result, "tails").message.startswith("p99 not reported")
    simulation.experiment = msgspec.structs.replace(asked, method="anytime")
    watched = row(result_of(simulation), "ttft_s", "p95")
    assert watched.ratio.point is None
    assert "at least 200 requests in every block, and the smallest has 40" in (watched.reason or "")


def test_tails_of_large_blocks_go_by_ranks() -> None:
    asked = fixed(gates=("ttft_s.p95",), workloads=(workload(block=BlockSize(requests=200)),))
    result = result_of(Simulation(asked, {"flash": Arm(ttft_s=0.06)}).run(10))
    found = row(result, "ttft_s", "p95")
    assert found.outcome == "slower"
    assert "Hodges–Lehmann with Wilcoxon interval" in found.method


def test_one_small_block_refuses_the_quantile_rather_than_leaving_it_out() -> None:
    asked = experiment(gates=("ttft_s.p95",), workloads=(workload(block=BlockSize(requests=200)),))
    simulation = Simulation(asked).run(7)
    assert row(result_of(simulation), "ttft_s", "p95").ratio.low is not None
    short = {name: column[:199] for name, column in simulation.blocks[3].columns.items()}
    simulation.blocks[3] = type(simulation.blocks[3])(block=simulation.blocks[3].block, columns=short)
    assert "the smallest has 199" in (row(result_of(simulation), "ttft_s", "p95").reason or "")


def series(logs: np.ndarray[Any, np.dtype[np.float64]]) -> Series:
    values = np.asarray(logs, dtype=np.float64)
    ones = np.ones_like(values)
    return Series(
        keys=tuple(range(values.size)),
        logs=values,
        base=ones,
        other=ones,
        per_round=values,
        rounds=values.size,
        waiting=0,
        undefined=0,
    )


def null_cells(asked: Experiment, rng: np.random.Generator, n: int) -> list[tuple[Target, Series]]:
    return [(t, series(rng.normal(0, 0.04, n))) for t in all_targets(asked) if t.gate]


def test_family_wise_error_over_sixteen_null_cells() -> None:
    """In both methods an interval that excludes 0 in any of 16 gates of an A/A counts as a false difference."""
    cells = workload(load=Load(kind="closed", levels=tuple(float(i) for i in range(1, 17))))
    rng = np.random.default_rng(3)
    for method in ("anytime", "fixed"):
        asked = experiment(workloads=(cells,), gates=("ttft_s",), method=method)
        wrong = 0
        for _ in range(300):
            found = claims(asked, null_cells(asked, rng, 12))
            wrong += any((c.interval.low or -1) > 0 or (c.interval.high or 1) < 0 for c in found)
        assert wrong / 300 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)


def test_equivalence_at_the_margin_is_rare() -> None:
    asked = fixed(gates=("ttft_s",))
    (target,) = [t for t in all_targets(asked) if t.gate]
    rng = np.random.default_rng(4)
    said = [
        claims(asked, [(target, series(rng.normal(np.log1p(0.03), 0.02, 16)))])[0].judged.outcome for _ in range(500)
    ]
    assert said.count("equivalent") / 500 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 500)
    assert said.count("slower") / 500 <= 0.025 + 2 * np.sqrt(0.025 * 0.975 / 500)


def test_an_equivalence_by_two_tests_shows_its_interval() -> None:
    asked = fixed(gates=("ttft_s",))
    (target,) = [t for t in all_targets(asked) if t.gate]
    rng = np.random.default_rng(5)
    from bakeoff.compare.reasons import reason_of

    texts = []
    for _ in range(60):
        one_series = series(rng.normal(0.004, 0.045, 16))
        (claim,) = claims(asked, [(target, one_series)])
        if claim.judged.outcome == "equivalent":
            texts.append(reason_of(asked, target, one_series, claim))
    assert any(text and text.startswith("by two one-sided tests, whose interval is [") for text in texts)


def test_margins_of_single_metrics() -> None:
    asked = experiment(margins={"tpot_s": 0.15})
    result = result_of(Simulation(asked, {"flash": Arm(tpot_s=0.022, ttft_s=0.055)}).run(8))
    assert (row(result, "tpot_s").outcome, row(result, "tpot_s").margin) == ("equivalent", 0.15)
    assert row(result, "tpot_s").detectable
    assert (row(result, "ttft_s").outcome, row(result, "ttft_s").margin) == ("slower", 0.03)


def test_undecided_gates_say_how_long_they_need() -> None:
    result = result_of(Simulation(experiment(), {"flash": Arm(tpot_s=0.0206)}, noise=Noise(eps=0.05)).run(8))
    found = row(result, "tpot_s")
    assert found.pairs_needed is not None
    assert found.seconds_needed is not None
    assert found.seconds_needed / found.pairs_needed > 1
    assert found.spread is not None
    assert found.spread > 0


def test_probe_blocks_and_unknown_cells_are_never_compared() -> None:
    simulation = Simulation(experiment(), {"flash": Arm(tpot_s=0.022)}).run(8)
    before = result_of(simulation)
    extra = []
    for data in simulation.blocks[:4]:
        for change in ({"kind": "probe"}, {"cell": "gone/c1"}):
            block = msgspec.structs.replace(data.block, id=data.block.id + 1000, **change)
            columns = {**data.columns, "last_token_ns": data.columns["last_token_ns"] + 10**12}
            extra.append(type(data)(block=block, columns=columns))
    simulation.blocks += extra
    assert result_of(simulation) == before


@pytest.mark.parametrize("kind", ["closed", "open", "replay"])
def test_every_kind_of_load_is_compared(kind: str) -> None:
    asked = experiment(workloads=(workload(load=Load(kind=kind, levels=(2.0,))),))  # type: ignore[arg-type]  # a literal
    result = result_of(Simulation(asked, {"flash": Arm(tpot_s=0.022)}).run(8))
    name = {"closed": "concurrency", "open": "rate", "replay": "replay"}[kind]
    assert {tuple(r.load) for r in result.comparisons} == {(name,)}
    assert row(result, "tpot_s").outcome == "slower"


def test_several_candidates_share_the_error() -> None:
    names = ("base", "flash", "fixed")
    asked = fixed(variants=tuple(Variant(name=n, engine="openai") for n in names), gates=("tpot_s",))
    result = result_of(Simulation(asked, {"flash": Arm(tpot_s=0.022)}).run(10))
    assert "over all 2 gates by Holm" in row(result, "tpot_s").method
    assert row(result, "tpot_s").outcome == "slower"
    assert row(result, "tpot_s", candidate="fixed").outcome == "equivalent"
