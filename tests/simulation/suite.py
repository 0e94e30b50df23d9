"""The calibration suite: every promise under every noise scenario, in both modes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing import get_context

from bakeoff.model import BlockSize, Budget, Experiment, Load, Method
from tests.compare.simulate import experiment, workload

from .baselines import Peeking, RoundsAsReplicates, WelchOnRequests
from .checks import MEAN, TYPICAL, Check, Demand, FixedCheck, Line, WatchedCheck
from .crossing_checks import CrossingCheck
from .noise import SCENARIOS
from .world import World

_MARGIN = math.log1p(0.03)
_P95, _P99 = ("chat/c1", "ttft_s", "p95"), ("chat/c1", "ttft_s", "p99")


def asked(method: Method, rounds: int, requests: int, *, levels: int = 1, start_every: int = 1) -> Experiment:
    """One gate a cell, answers of one token. levels: cells, at concurrencies 1, 2, 4, …"""
    load = Load(kind="closed", levels=tuple(2.0**i for i in range(levels)))
    return experiment(
        workloads=(workload(output_tokens=1, block=BlockSize(requests=requests), load=load),),
        gates=("ttft_s",),
        method=method,
        start_every=start_every,
        budget=Budget(min_pairs=6, max_pairs=rounds, seconds=None),
    )


def one_cell(method: Method, rounds: int, requests: int, scenario: str, effect: float = 0.0) -> World:
    return World(experiment=asked(method, rounds, requests), weather=SCENARIOS[scenario], effect=effect)


def fixed_null() -> Iterator[Check]:
    """Base against base, 10 pairs of 60 requests, one look."""
    for scenario in SCENARIOS:
        world = one_cell("fixed", 10, 60, scenario)
        yield FixedCheck(
            group="fixed n, A/A, 10 × 60",
            case=scenario,
            world=world,
            rounds=10,
            demands=(
                Demand(kind="false difference", limit=0.05),
                Demand(kind="false difference", row=MEAN, limit=0.05),
                Demand(kind="false difference", row=_P95, limit=0.05),
                Demand(kind="any explored", row=None, limit=0.05),
                Demand(kind="invalid"),
            ),
        )
        yield WelchOnRequests(group="fixed n, A/A, 10 × 60", case=scenario, world=world, rounds=10)


def fixed_coverage() -> Iterator[Check]:
    effect = math.log(1.10)
    demands = (Demand(kind="coverage"), Demand(kind="coverage", row=MEAN), Demand(kind="coverage", row=_P95))
    for scenario in SCENARIOS:
        yield FixedCheck(
            group="fixed n, +10 %, 10 × 60",
            case=scenario,
            world=one_cell("fixed", 10, 60, scenario, effect),
            rounds=10,
            demands=demands,
            truth=effect,
        )


def power() -> Iterator[Check]:
    """The table of the method: 200 requests a block."""
    table = (
        ("+drift", 0.05, MEAN, (0.56, 0.92, 1.0, 1.0)),
        ("+drift", 0.02, MEAN, (0.13, 0.27, 0.58, 0.84)),
        ("+outliers", 0.05, TYPICAL, (0.52, 0.89, 1.0, 1.0)),
    )
    for scenario, change, row, wanted in table:
        for pairs, limit in zip((5, 10, 20, 40), wanted, strict=True):
            effect = math.log1p(change)
            yield FixedCheck(
                group=f"fixed n, power, +{100 * change:g} %, n × 200",
                case=f"{scenario}, {pairs} pairs",
                world=one_cell("fixed", pairs, 200, scenario, effect),
                rounds=pairs,
                demands=(
                    Demand(kind="found", row=row, limit=limit - 0.005),  # the table is rounded to whole per cents
                    Demand(kind="coverage", row=row),
                    Demand(kind="invalid", row=row),
                ),
                truth=effect,
                repetitions=1000,
            )


def tails() -> Iterator[Check]:
    for change, limit in ((0.0, None), (0.05, 0.45), (0.10, 0.88)):
        effect = math.log1p(change)
        demand = (
            Demand(kind="found", row=_P99, limit=limit)
            if limit
            else Demand(kind="false difference", row=_P99, limit=0.05)
        )
        yield FixedCheck(
            group="fixed n, p99, 20 × 1,000",
            case=f"+outliers, +{100 * change:g} %",
            world=one_cell("fixed", 20, 1000, "+outliers", effect),
            rounds=20,
            demands=(demand, Demand(kind="coverage", row=_P99)),
            truth=effect,
            repetitions=500,
        )


def fixed_equivalence() -> Iterator[Check]:
    for scenario in ("iid", "+drift", "+outliers"):
        yield FixedCheck(
            group="fixed n, true difference = margin, 40 × 200",
            case=scenario,
            world=one_cell("fixed", 40, 200, scenario, _MARGIN),
            rounds=40,
            demands=(Demand(kind="equivalent", limit=0.05), Demand(kind="coverage")),
            truth=_MARGIN,
            repetitions=1000,
        )
    yield FixedCheck(
        group="fixed n, no difference, 40 × 200",
        case="+drift",
        world=one_cell("fixed", 40, 200, "+drift"),
        rounds=40,
        demands=(Demand(kind="equivalent"),),
        repetitions=500,
    )


def watched_null() -> Iterator[Check]:
    for scenario in SCENARIOS:
        world = one_cell("anytime", 40, 200, scenario)
        yield WatchedCheck(
            group="anytime, A/A, ≤ 40 × 200",
            case=scenario,
            world=world,
            rounds=40,
            demands=(
                Demand(kind="false difference", limit=0.05),
                Demand(kind="false difference", row=MEAN, limit=0.05),
                Demand(kind="invalid"),
            ),
            times=("stop",),
        )
        yield Peeking(group="anytime, A/A, ≤ 40 × 200", case=scenario, world=world, rounds=40)


def watched_effects() -> Iterator[Check]:
    """+5 %: to the end, for the coverage. Larger ones end where the stop rule ends them."""
    for change, to_the_end in ((0.05, True), (0.10, False), (0.20, False)):
        effect = math.log1p(change)
        yield WatchedCheck(
            group=f"anytime, +{100 * change:g} %, ≤ 40 × 200",
            case="+drift",
            world=one_cell("anytime", 40, 200, "+drift", effect),
            rounds=40,
            demands=(Demand(kind="miss", limit=0.05), Demand(kind="invalid")),
            times=("excludes 0", "slower"),
            truth=effect,
            to_the_end=to_the_end,
        )


def watched_equivalence() -> Iterator[Check]:
    for scenario in ("iid", "+drift"):
        yield WatchedCheck(
            group="anytime, true difference = margin, ≤ 40 × 200",
            case=scenario,
            world=one_cell("anytime", 40, 200, scenario, _MARGIN),
            rounds=40,
            demands=(Demand(kind="equivalent", limit=0.05), Demand(kind="miss", limit=0.05)),
            truth=_MARGIN,
        )


def families() -> Iterator[Check]:
    demands = (Demand(kind="any gate", row=None, limit=0.05), Demand(kind="any explored", row=None, limit=0.05))
    for scenario in ("+drift", "+outliers"):
        yield FixedCheck(
            group="fixed n, 16 null cells, 10 × 60",
            case=scenario,
            world=World(experiment=asked("fixed", 10, 60, levels=16), weather=SCENARIOS[scenario]),
            rounds=10,
            demands=demands,
            repetitions=500,
        )
    yield WatchedCheck(
        group="anytime, 16 null cells, ≤ 20 × 60",
        case="+drift",
        world=World(experiment=asked("anytime", 20, 60, levels=16), weather=SCENARIOS["+drift"]),
        rounds=20,
        demands=(demands[0],),
        repetitions=400,
    )


def start_groups() -> Iterator[Check]:
    """Four rounds a start, the luck of a start 2 %."""
    weather = replace(SCENARIOS["+drift"], start=0.02)
    demands = (Demand(kind="false difference", limit=0.05), Demand(kind="false difference", row=MEAN, limit=0.05))
    world = World(experiment=asked("fixed", 40, 200, start_every=4), weather=weather)
    group = "fixed n, A/A, 4 rounds a start, 10 starts × 4 × 200"
    yield FixedCheck(group=group, case="start 2 %", world=world, rounds=40, demands=demands, repetitions=1000)
    yield RoundsAsReplicates(group=group, case="start 2 %", world=world, rounds=40, repetitions=1000)
    yield WatchedCheck(
        group="anytime, A/A, 4 rounds a start, ≤ 10 starts × 4 × 200",
        case="start 2 %",
        world=replace(world, experiment=asked("anytime", 40, 200, start_every=4)),
        rounds=40,
        every=4,
        demands=demands,
    )


def crossovers() -> Iterator[Check]:
    """Levels 1, 2, 4, 8, 16; +8 % a doubling, from 1 at 2√2; and 10 % slower all over."""
    keys = [f"chat/c{2**i}" for i in range(5)]
    lines: Sequence[tuple[str, dict[str, float], float | None]] = (
        ("crosses at 2.83", {key: 0.08 * (i - 1.5) for i, key in enumerate(keys)}, 2**1.5),
        ("crosses on a level (4)", {key: 0.08 * (i - 2) for i, key in enumerate(keys)}, 4.0),
        ("+10 % all over", dict.fromkeys(keys, 0.10), None),
    )
    methods: Sequence[tuple[Method, int]] = (("fixed", 10), ("anytime", 20))
    for method, rounds in methods:
        for case, effect, place in lines:
            yield CrossingCheck(
                group=f"{method}, crossover over five levels, {rounds} × 60",
                case=f"+drift, {case}",
                world=World(experiment=asked(method, rounds, 60, levels=5), weather=SCENARIOS["+drift"], effect=effect),
                rounds=rounds,
                place=place,
                repetitions=500,
            )


PARTS = {
    "null": fixed_null,
    "coverage": fixed_coverage,
    "power": power,
    "tails": tails,
    "equivalence": fixed_equivalence,
    "watched-null": watched_null,
    "watched-effects": watched_effects,
    "watched-equivalence": watched_equivalence,
    "families": families,
    "starts": start_groups,
    "crossovers": crossovers,
}


def run(check: Check, repetitions: int, jobs: int = 1) -> list[Line]:
    """All repetitions of a check. The result does not depend on `jobs`."""
    numbers = range(repetitions)
    if jobs == 1:
        return check.lines([check.trial(number) for number in numbers])
    with get_context("fork").Pool(jobs) as pool:
        return check.lines(pool.map(check.trial, numbers, chunksize=max(1, min(20, repetitions // (4 * jobs)))))
