"""The load that each arm bears, from simulated rounds with a known edge."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.compare.edge import Held, held_rate
from bakeoff.compare.edge_peak import Climb
from bakeoff.model import BlockData, BlockSize, Edge, Experiment, Interval, Load, Result, Search

from .simulate import Arm, Simulation, experiment, workload
from .test_engine import result_of

LEVELS = (4.0, 5.0, 6.3, 8.0, 10.0)


# one round ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_between_two_levels_the_share_is_linear_in_the_logarithm_of_the_rate() -> None:
    held = held_rate((4, 8, 16), (1.0, 1.0, 0.8), (100, 100, 100), 0.9)
    assert held.level == pytest.approx(math.sqrt(8 * 16))
    assert held.beyond == ""
    assert held_rate((4, 8), (0.9, 0.5), (9, 9), 0.9).level == pytest.approx(4)


def test_edges_outside_the_levels_are_known_as_such() -> None:
    assert held_rate((4, 8), (0.5, 0.2), (9, 9), 0.9) == Held(4, "below")
    assert held_rate((4, 8), (1.0, 0.95), (9, 9), 0.9) == Held(8, "above")


def test_one_unlucky_block_at_a_low_rate_hides_nothing() -> None:
    unlucky = held_rate((4, 5, 6, 8), (0.88, 1.0, 1.0, 0.2), (100, 100, 100, 100), 0.9)
    assert 6 < unlucky.level < 8


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 500)), min_size=2, max_size=6), st.floats(0.5, 0.999))
def test_an_edge_lies_among_the_levels(measured: list[tuple[float, int]], wanted: float) -> None:
    levels = [2.0**i for i in range(len(measured))]
    held = held_rate(levels, [share for share, _ in measured], [count for _, count in measured], wanted)
    assert levels[0] <= held.level <= levels[-1]
    if all(share >= wanted for share, _ in measured):
        assert held.beyond == "above"
    if all(share < wanted for share, _ in measured):
        assert held.beyond == "below"


# whole runs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Loaded(Simulation):
    """TTFT grows with the rate: as ttft_s at half the capacity, and ten times as much at the capacity."""

    capacity: dict[str, float]

    def _columns(self, cell, arm, ttft, tpot, tokens):  # type: ignore[no-untyped-def]
        name = next(name for name, known in self.arms.items() if known is arm)
        load = cell.level / self.capacity[name]
        factor = 10 ** max(0.0, 2 * (load - 0.5)) * np.exp(self.rng.normal(0, 0.1, ttft.size))
        return super()._columns(cell, arm, arm.ttft_s * factor, tpot, tokens)


def searched(kind: str = "find", levels: tuple[float, ...] = LEVELS) -> Experiment:
    chat = workload(
        load=Load(
            kind="open" if kind == "find" else "closed",
            levels=levels,
            search=Search(kind=kind, attainment=0.9, high=levels[-1]),  # type: ignore[arg-type]
        ),
        block=BlockSize(requests=60),
        slo={"ttft_s": 0.2},
    )
    return experiment(workloads=(chat,), gates=("ttft_s",))


def run(base: float, flash: float, rounds: int = 8, asked: Experiment | None = None) -> Result:
    simulation = Loaded(asked or searched(), {"base": Arm(ttft_s=0.05), "flash": Arm(ttft_s=0.05)})
    simulation.capacity = {"base": base, "flash": flash}
    return result_of(simulation.run(rounds))


def edge(result: Result) -> Edge:
    (found,) = result.edges
    return found


def truth(capacity: float) -> float:
    """Rate at which nine in ten requests meet 0.2 s: 0.05 · 10^(2·(x − 0.5)) · e^(1.28·0.1) = 0.2."""
    return capacity * (0.5 + math.log10(4 / math.exp(1.2816 * 0.1)) / 2)


def test_the_arm_with_more_capacity_holds_more() -> None:
    found = edge(run(base=7.0, flash=9.0))
    assert found.kind == "rate held"
    assert (found.axis, found.attainment, found.levels) == ("rate", 0.9, LEVELS)
    assert found.outcome == "faster"
    assert found.base.point == pytest.approx(truth(7.0), rel=0.08)
    assert found.value.point == pytest.approx(truth(9.0), rel=0.08)
    assert found.ratio.low is not None
    assert found.ratio.high is not None
    assert found.ratio.low < 9 / 7 * 1.05
    assert found.ratio.high > 9 / 7 * 0.95
    assert (found.rounds, found.reason) == (8, None)


def test_the_same_arm_twice_is_no_difference() -> None:
    assert edge(run(base=8.0, flash=8.0)).outcome in ("equivalent", "inconclusive")


def test_beyond_the_levels_only_what_is_known_is_said() -> None:
    above = edge(run(base=7.0, flash=30.0))
    assert above.outcome == "faster"
    assert above.ratio.high is None
    assert above.value.high is None
    assert "flash held even the highest level in 8 of 8 rounds" in (above.reason or "")
    both = edge(run(base=30.0, flash=30.0))
    assert both.outcome == "inconclusive"
    assert (both.ratio.low, both.ratio.high) == (None, None)
    below = edge(run(base=7.0, flash=2.0))
    assert below.outcome == "slower"
    assert below.ratio.low is None
    assert "flash did not hold even the lowest level in 8 of 8 rounds" in (below.reason or "")


def test_rounds_of_one_start_are_one_replicate() -> None:
    asked = searched()
    found = edge(run(7.0, 9.0, rounds=8, asked=msgspec.structs.replace(asked, start_every=4)))
    assert found.rounds == 8
    waiting = edge(run(7.0, 9.0, rounds=7, asked=msgspec.structs.replace(asked, start_every=4)))
    assert waiting.rounds == 4
    assert waiting.reason is not None


def test_a_round_without_one_of_its_levels_is_left_out() -> None:
    simulation = Loaded(searched(), {"base": Arm(ttft_s=0.05), "flash": Arm(ttft_s=0.05)})
    simulation.capacity = {"base": 7.0, "flash": 9.0}
    simulation.run(6)
    lost = next(i for i, b in enumerate(simulation.blocks) if b.block.round == 3 and b.block.cell == "chat/r8")
    del simulation.blocks[lost]
    assert edge(result_of(simulation)).rounds == 5


def test_probe_blocks_are_not_compared() -> None:
    simulation = Loaded(searched(), {"base": Arm(ttft_s=0.05), "flash": Arm(ttft_s=0.05)})
    simulation.capacity = {"base": 7.0, "flash": 9.0}
    simulation.run(6)
    before = edge(result_of(simulation))
    probes = [
        BlockData(block=msgspec.structs.replace(b.block, id=b.block.id + 1000, kind="probe"), columns=b.columns)
        for b in simulation.blocks[:10]
    ]
    simulation.blocks += probes
    assert edge(result_of(simulation)) == before


def test_a_sweep_compares_the_peaks() -> None:
    asked = searched("sweep", (1.0, 2.0, 4.0))
    found = edge(run(base=7.0, flash=7.0, asked=asked))
    assert found.kind == "peak throughput"
    assert (found.axis, found.attainment) == ("concurrency", None)
    assert found.outcome in ("equivalent", "inconclusive")


def test_loads_that_were_not_searched_have_no_edge() -> None:
    assert result_of(Simulation(experiment()).run(6)).edges == ()


def test_what_makes_goodput_invalid_makes_the_edge_invalid() -> None:
    simulation = Loaded(searched(), {"base": Arm(ttft_s=0.05), "flash": Arm(ttft_s=0.05, cached_tokens=64.0)})
    simulation.capacity = {"base": 7.0, "flash": 9.0}
    found = edge(result_of(simulation.run(6)))
    assert found.outcome == "invalid"
    assert "prefix cache" in (found.reason or "")


def test_the_arms_change_places_where_one_is_cheaper_alone_and_the_other_bears_more() -> None:
    levels = (3.0, 3.6, 4.3, 5.2, 6.2)
    simulation = Loaded(searched(levels=levels), {"base": Arm(ttft_s=0.05), "flash": Arm(ttft_s=0.08)})
    simulation.capacity = {"base": 7.0, "flash": 12.5}
    result = result_of(simulation.run(8))
    (crossing,) = [c for c in result.crossings if c.metric == "ttft_s"]
    assert crossing.status == "crosses"
    assert crossing.better_below is False
    # 0.05 · 10^(2·(x/7 − 0.5)) = 0.08, flash still below half of its capacity
    truth = 7 * (0.5 + math.log10(0.08 / 0.05) / 2)
    assert crossing.at.low is not None
    assert crossing.at.high is not None
    assert crossing.at.low < truth * 1.05
    assert crossing.at.high > truth * 0.95
    assert edge(result).outcome == "faster"


def test_arms_that_differ_alike_at_every_level_do_not_cross() -> None:
    result = run(base=7.0, flash=12.0)
    (crossing,) = [c for c in result.crossings if c.metric == "ttft_s"]
    assert crossing.status == "none"
    assert crossing.better_below is True


def rated(rates: dict[str, tuple[float, ...]], levels: tuple[float, ...]) -> Edge:
    """A sweep whose throughput at each level is told [requests/s], within a percent from round to round."""
    asked = searched("sweep", levels)
    simulation = Simulation(asked, {"base": Arm(), "flash": Arm()}).run(8)
    for i, data in enumerate(simulation.blocks):
        block = data.block
        at = [cell.key for cell in asked.cells()].index(block.cell)
        noise = 1 + 0.01 * ((block.round * 7 + at) % 3 - 1)
        width = int(len(data) / (rates[block.variant][at] * noise) * 1e9)
        ends = np.linspace(block.started_ns + 1, block.started_ns + width, len(data)).astype(np.int64)
        # each answer comes at once, a tenth of a second after it was asked for
        asked_ns, came = ("scheduled_ns", "sent_ns"), ("first_byte_ns", "first_token_ns", "last_token_ns", "end_ns")
        stamps = dict.fromkeys(asked_ns, ends - 100_000_000) | dict.fromkeys(came, ends)
        columns = {**data.columns, **{name: stamp for name, stamp in stamps.items() if name in data.columns}}
        window = (block.started_ns, block.started_ns + width)
        simulation.blocks[i] = BlockData(block=msgspec.structs.replace(block, window_ns=window), columns=columns)
    return edge(result_of(simulation))


def test_a_peak_that_was_not_reached_leaves_its_bound_open() -> None:
    levels = (1.0, 2.0, 4.0, 8.0)
    flat, rising = (10.0, 20.0, 30.0, 30.5), (10.0, 20.0, 40.0, 80.0)
    found = rated({"base": flat, "flash": rising}, levels)
    assert found.base.high is not None
    assert found.value.high is None
    assert (found.ratio.low is None, found.ratio.high is None) == (False, True)
    assert found.reason == "flash is still rising at 8, the highest level: raise `high`"
    found = rated({"base": rising, "flash": rising}, levels)
    assert (found.ratio.low, found.ratio.high, found.outcome) == (None, None, "inconclusive")
    found = rated({"base": flat, "flash": flat}, levels)
    assert found.reason is None or "rising" not in found.reason
    assert found.ratio.low is not None
    assert found.ratio.high is not None


def slotted(slots: int, requests: int, levels: tuple[float, ...], rounds: int = 8, *, share: float = 0.0) -> Edge:
    """A sweep of two servers with so many slots, whose answers all take 0.1 s within a tenth of a percent, the
    last `share` of it after the first token. A window ends with the last request sent, as that of a closed loop does:
    when all but `level` of them are done."""
    asked = searched("sweep", levels)
    simulation, at = Simulation(asked, {"base": Arm(), "flash": Arm()}).run(rounds), 0.1
    for i, data in enumerate(simulation.blocks):
        block, level = data.block, int(data.block.cell.rpartition("/c")[2])
        waves = np.arange(requests) // min(slots, level) + 1
        took = waves * at * 1e9 * (1 + 0.001 * simulation.rng.normal(0, 1, 1))
        ends = (block.started_ns + took + 1000 * np.arange(requests)).astype(np.int64)
        columns = {name: column[:1].repeat(requests) for name, column in data.columns.items()}
        begins = (ends - share * at * 1e9).astype(np.int64)
        columns |= {"first_token_ns": begins, "last_token_ns": ends, "end_ns": ends, "prompt_id": np.arange(requests)}
        window = (block.started_ns, int(ends[requests - level - 1]))
        simulation.blocks[i] = BlockData(block=msgspec.structs.replace(block, window_ns=window), columns=columns)
    return edge(result_of(simulation))


@pytest.mark.parametrize("requests", [40, 48, 60, 64])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_windows_that_end_inside_a_bunch_are_no_rise(requests: int, share: float) -> None:
    """Six slots give nothing beyond 8 at a time, though 24 completions fill their window and 32 do not."""
    found = slotted(6, requests, (2.0, 4.0, 8.0, 16.0), share=share)
    assert "ris" not in (found.reason or "")
    assert found.ratio.high is not None
    assert found.value.high is not None


def test_a_server_that_does_rise_is_seen_to() -> None:
    found = slotted(64, 60, (2.0, 4.0, 8.0, 16.0))
    assert (found.reason or "").startswith(
        "base is still rising at 16, the highest level: raise `high`; flash is still"
    )


def test_a_rise_that_few_rounds_show_is_not_sure() -> None:
    found = slotted(64, 60, (2.0, 4.0, 8.0, 16.0), rounds=3)
    assert "flash may still rise: 8 → 16 at a time adds +" in (found.reason or "")
    assert "not surely over 5 %" in (found.reason or "")
    assert found.value.high is None


def test_below_the_upper_end_of_the_search_the_remedy_is_another() -> None:
    gain = Interval(point=0.3, low=0.2, high=0.4)
    assert Climb(4, 8, gain, "at a time").sentence("flash", 16.0).endswith("the highest level: measure higher levels")


def test_the_comparison_counts_a_step_as_the_search_does() -> None:
    from bakeoff.compare import edge_peak as compared
    from bakeoff.measure import search

    assert compared.RISE == search.RISE
