"""The calibration suite in its small form: what the method promises, on few repetitions.

Seeded, with Monte Carlo tolerances: it finds a method that errs twice as often as it may, not one that errs a little
too often. The full form is `python -m benchmarks.calibration`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.simulation import suite
from tests.simulation.baselines import Peeking, RoundsAsReplicates
from tests.simulation.checks import MEAN, Check, Demand, FixedCheck, Line, WatchedCheck
from tests.simulation.counting import share
from tests.simulation.crossing_checks import CrossingCheck
from tests.simulation.noise import SCENARIOS
from tests.simulation.suite import asked, one_cell, run
from tests.simulation.world import World

pytestmark = pytest.mark.slow

MARGIN = math.log(1.03)
FALSE = (Demand(kind="false difference", limit=0.05), Demand(kind="false difference", row=MEAN, limit=0.05))


def held(check: Check, repetitions: int) -> list[Line]:
    lines = run(check, repetitions)
    missed = [f"{line.case}: {line.what} {line.measured}, wanted {line.target}" for line in lines if line.ok is False]
    assert not missed
    return lines


def test_fixed_n_calls_no_difference_where_there_is_none() -> None:
    """Every scenario by itself with a wide tolerance, all together with a narrow one."""
    found: list[Sequence[float]] = []
    for scenario in SCENARIOS:
        check = FixedCheck(
            group="small", case=scenario, world=one_cell("fixed", 8, 40, scenario), rounds=8, demands=FALSE
        )
        seen = [check.trial(number) for number in range(60)]
        assert all(share(column).value <= 0.05 + 4 * 0.028 for column in zip(*seen, strict=True)), scenario
        found += seen
    assert all(share(column).at_most(0.05) for column in zip(*found, strict=True))


def test_fixed_n_intervals_hold_the_truth_and_find_it() -> None:
    effect = math.log(1.05)
    held(
        FixedCheck(
            group="small",
            case="+drift",
            world=one_cell("fixed", 10, 200, "+drift", effect),
            rounds=10,
            demands=(Demand(kind="coverage"), Demand(kind="found", row=MEAN, limit=0.92)),
            truth=effect,
        ),
        60,
    )


def test_fixed_n_at_the_margin_is_not_called_equivalent() -> None:
    held(
        FixedCheck(
            group="small",
            case="+outliers",
            world=one_cell("fixed", 20, 100, "+outliers", MARGIN),
            rounds=20,
            demands=(Demand(kind="equivalent", limit=0.05),),
            truth=MARGIN,
        ),
        60,
    )


def test_sixteen_null_gates_err_together_no_more_than_one() -> None:
    held(
        FixedCheck(
            group="small",
            case="16 cells",
            world=World(experiment=asked("fixed", 8, 20, levels=16), weather=SCENARIOS["+drift"]),
            rounds=8,
            demands=(Demand(kind="any gate", row=None, limit=0.05),),
        ),
        20,
    )


def test_watching_calls_no_difference_at_any_look_where_peeking_does() -> None:
    world = one_cell("anytime", 24, 60, "+drift")
    held(WatchedCheck(group="small", case="A/A", world=world, rounds=24, demands=FALSE), 30)
    peeking = Peeking(group="small", case="A/A", world=world, rounds=24)
    seen = share(peeking.trial(number)[0] for number in range(100))
    assert seen.value > 0.08  # else the world would be too kind to show what looking again and again does


def test_watching_ends_soon_at_a_clear_difference() -> None:
    effect = math.log(1.20)
    check = WatchedCheck(
        group="small",
        case="+20 %",
        world=one_cell("anytime", 20, 200, "+drift", effect),
        rounds=20,
        demands=(Demand(kind="miss", limit=0.05),),
        times=("slower",),
        truth=effect,
        to_the_end=False,
    )
    held(check, 20)
    assert all(check.trial(number)[1] <= 8 for number in range(5))


def test_starts_are_the_replicates() -> None:
    weather = replace(SCENARIOS["+drift"], start=0.04)
    world = World(experiment=asked("fixed", 24, 100, start_every=4), weather=weather)
    held(FixedCheck(group="small", case="starts", world=world, rounds=24, demands=FALSE), 60)
    naive = RoundsAsReplicates(group="small", case="starts", world=world, rounds=24)
    assert share(naive.trial(number)[0] for number in range(150)).value > 0.10


def test_crossings_are_where_they_are_said_to_be() -> None:
    effect = {f"chat/c{2**i}": 0.15 * (i - 0.5) for i in range(3)}
    check = CrossingCheck(
        group="small",
        case="at 1.41",
        world=World(experiment=asked("fixed", 8, 40, levels=3), weather=SCENARIOS["+drift"], effect=effect),
        rounds=8,
        place=2**0.5,
    )
    lines = held(check, 40)
    assert float(lines[1].measured.split()[0]) > 50  # told in most of them


def test_every_part_of_the_full_form_runs() -> None:
    for part in suite.PARTS.values():
        check = next(iter(part()))
        shrunk = replace(check, rounds=min(check.rounds, 6))  # type: ignore[type-var]  # all checks are dataclasses
        assert run(shrunk, 1)
