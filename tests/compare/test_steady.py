"""Steady state, outliers and merged machines, through the whole path."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.compare.inference import _ordinary
from bakeoff.compare.pairs import Series
from bakeoff.model import Result
from bakeoff.stats.strata import summarise

from .simulate import Arm, Noise, Simulation, experiment
from .test_audit import cautions, one
from .test_engine import result_of, row

STILL = Noise(prompt=0.1, ar=0.0, eps=0.01, start=0.005, slow=0.0, trend=0.0, outliers=0.0)


class Stepped(Simulation):
    """flash's TTFT is multiplied from some round on, or in single rounds; or the first requests of every block are."""

    steps: dict[int, float] = {}  # noqa: RUF012 - set by the test
    warm: tuple[int, float] = (0, 1.0)
    base_too: bool = False

    def _columns(self, cell: Any, arm: Any, ttft: Any, tpot: Any, tokens: int) -> dict[str, Any]:
        number = max((b.block.round for b in self.blocks), default=0)
        ours = sum(1 for b in self.blocks if b.block.round == number and b.block.kind == "measure")
        number += ours == len(self.arms)
        if arm is self.arms["flash"] or self.base_too:
            ttft = ttft * self.steps.get(number, 1.0)
        if self.warm[0]:
            ttft = ttft.copy()
            ttft[: self.warm[0]] *= self.warm[1]
        return super()._columns(cell, arm, ttft, tpot, tokens)


def measured(rounds: int = 14, **fields: Any) -> Result:
    simulation = Stepped(experiment(aa_pairs=0), {"flash": Arm(ttft_s=0.055)}, noise=STILL, seed=3)
    for name, value in fields.items():
        setattr(simulation, name, value)
    simulation.run(rounds)
    return result_of(simulation)


def test_a_steady_run_is_silent() -> None:
    codes = {c.code for c in measured().warnings}
    assert not codes & {"pair-shift", "level-shift", "block-warm-up", "outlier-pairs"}


def test_a_difference_that_changes_its_level_is_told() -> None:
    found = one(measured(20, steps=dict.fromkeys(range(14, 20), 1.3)), "pair-shift")
    assert "no steady state" in found.message
    assert "round 15" in found.message
    assert found.metrics == ("ttft_s",)
    settled = one(measured(20, steps=dict.fromkeys(range(5), 1.3)), "pair-shift")
    assert "changes at round 6" in settled.message


def test_an_outlier_counts_and_the_verdict_without_it_is_told() -> None:
    result = measured(14, steps={6: 1.9})
    found = one(result, "outlier-pairs")
    assert found.message.startswith("round 7 (+")
    assert row(result, "ttft_s").pairs == 14
    assert found.severity == "warning"
    assert "without it the verdict would be 'slower'" in found.message
    assert row(result, "ttft_s").outcome != "slower"


def test_an_outlier_that_changes_nothing_is_a_note() -> None:
    found = one(measured(14, steps={6: 0.94}), "outlier-pairs")
    assert found.severity == "note"
    assert "the verdict is the same without" in found.message


def test_an_outlier_is_not_blamed_for_the_pairs_that_leaving_it_out_would_cost() -> None:
    """Five pairs have no interval at this level, whatever they say; six like the other five decide."""
    result = measured(6, steps={3: 1.3})
    assert row(result, "tpot_s").gate
    found = one(result, "outlier-pairs")
    assert "inconclusive" not in found.message
    assert "without it the verdict would be 'slower'" in found.message
    same = one(measured(6, steps={3: 1.05}), "outlier-pairs")
    assert same.message.endswith("and the verdict is the same without")


@given(values=st.lists(st.floats(-1, 1), min_size=8, max_size=20), place=st.integers(0, 7), machines=st.booleans())
def test_without_an_outlier_mean_and_spread_are_those_of_the_rest(
    values: list[float], place: int, machines: bool
) -> None:
    logs = np.array(values)
    strata = np.arange(logs.size) % 2 if machines else None
    series = Series(keys=tuple(range(logs.size)), logs=logs, base=logs, other=logs, per_round=logs, rounds=logs.size,
                    waiting=0, undefined=0, strata=strata)  # fmt: skip
    filled = _ordinary(series, [place])
    kept = np.arange(logs.size) != place
    rest = summarise(logs[kept], None if strata is None else strata[kept])
    found = summarise(filled, strata)
    assert found.mean == pytest.approx(rest.mean, abs=1e-12)
    assert found.sd == pytest.approx(rest.sd, abs=1e-9)
    assert found.n == summarise(logs, strata).n


def test_a_steady_drift_is_told_once_and_never_as_a_warm_up() -> None:
    sliding = measured(20, steps={i: 1 + 0.03 * i for i in range(20)})
    assert "ttft_s" in one(sliding, "drift").metrics
    assert not cautions(sliding, "level-shift")
    assert not cautions(sliding, "pair-shift")
    alike = measured(20, steps={i: 1 + 0.03 * i for i in range(20)}, base_too=True)
    assert not cautions(alike, "drift")
    found = cautions(alike, "level-shift")
    assert {c.variant for c in found} == {"base", "flash"}
    assert all("over its blocks: it changes steadily, by +6" in c.message for c in found)


def test_cold_requests_at_the_front_of_blocks() -> None:
    result = measured(10, warm=(4, 2.0))
    found = cautions(result, "block-warm-up")
    assert {c.variant for c in found} == {"base", "flash"}
    assert all("the first 4 requests of a block are slower by +9" in c.message for c in found)
    assert {c.severity for c in found} == {"warning"}


def test_a_level_that_both_arms_share_is_a_note_and_cancels() -> None:
    result = measured(16, steps=dict.fromkeys(range(5), 1.5), base_too=True)
    found = cautions(result, "level-shift")
    assert {c.severity for c in found} == {"note"}
    assert {c.variant for c in found} == {"base", "flash"}
    assert row(result, "ttft_s").outcome == "slower"
    assert not cautions(result, "pair-shift")


def test_machines_that_disagree_are_told() -> None:
    from bakeoff.compare import compare_blocks

    simulation = Stepped(experiment(aa_pairs=0), {"flash": Arm(ttft_s=0.055)}, noise=STILL, seed=4)
    simulation.steps = dict.fromkeys(range(10, 20), 1.3)
    simulation.run(20)
    strata = {i: int(i >= 10) for i in range(20)}
    result = compare_blocks(
        simulation.experiment, simulation.blocks, simulation.starts, run="r", state="complete", strata=strata
    )
    assert one(result, "machines").severity == "note"
    assert "+9.8 %, +43 %" in one(result, "machines-differ").message
    found = row(result, "ttft_s")
    assert found.ratio.point == pytest.approx(np.sqrt(1.1 * 1.43), rel=0.01)
    assert found.spread is not None
    assert found.spread < 0.02  # what machines differ by is no noise
    assert found.method.startswith("median over paired prompts of log ratios, per pair of blocks, mean over 2 machines")
    assert not cautions(result, "pair-shift")
    assert not cautions(result, "drift")
