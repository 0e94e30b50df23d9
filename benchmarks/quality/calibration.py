"""Simulated calibration of the paired quality tests: false differences in A/A, coverage, and power.

    python benchmarks/quality/calibration.py [--runs 2000] [--seed 1]

Every figure goes through the functions that verdicts are made with. Items: a share is answered the same way by every
arm (right with 70 %), the rest is a coin toss at each answer, so that two runs of one server flip 14 % of the items. A
loss of two points makes the tosses less lucky: 7 points each.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bakeoff.stats.paired_scores import ScoreDifference, judge_difference

Floats = NDArray[np.float64]
Draw = tuple[Floats, Floats, NDArray[np.int64] | None]

#: Two answers to an item that is a coin toss differ half the time: 28 % of such items flip 14 %.
_TOSSED = 0.28


def arms(rng: np.random.Generator, items: int, repeats: int, loss: float) -> Draw:
    """Mean scores of both arms; the other arm's chance of a right answer is lower by `loss` on average."""
    tossed = rng.random(items) < _TOSSED
    chance = np.where(tossed, 0.5, (rng.random(items) < 0.7).astype(float))
    lower = np.where(tossed, 0.5 - loss / _TOSSED, chance)
    base = (rng.random((repeats, items)) < chance).mean(axis=0)
    other = (rng.random((repeats, items)) < lower).mean(axis=0)
    return base, other, None


def grouped(rng: np.random.Generator, groups: int, size: int) -> Draw:
    """An A/A of items in groups: a group leans to one arm or the other, by nothing on average."""
    labels = np.repeat(np.arange(groups), size)
    lean = rng.normal(0, 0.08, groups)[labels]
    chance = rng.uniform(0.25, 0.75, labels.size)
    base = (rng.random(labels.size) < chance - lean / 2).astype(float)
    other = (rng.random(labels.size) < chance + lean / 2).astype(float)
    return base, other, labels


def excludes_zero(found: ScoreDifference) -> bool:
    """Whether the 95 % interval tells a difference."""
    interval = found.interval(0.05)
    return interval.low is not None and interval.high is not None and not interval.low <= 0 <= interval.high


def share(runs: int, one: Callable[[], bool]) -> float:
    """Share of runs in which it happens."""
    return sum(one() for _ in range(runs)) / runs


def unpaired_z(base: Floats, other: Floats) -> bool:
    """What a harness does that compares two accuracies with their own standard errors."""
    error = math.sqrt((base.var(ddof=1) + other.var(ddof=1)) / base.size)
    return bool(abs(other.mean() - base.mean()) > 1.959964 * error)


def exact_mcnemar(base: Floats, other: Floats) -> bool:
    """The exact test, without mid-p."""
    lost, won = int((base > other).sum()), int((base < other).sum())
    return lost + won > 0 and float(stats.binomtest(lost, lost + won).pvalue) <= 0.05


def difference(draw: Draw, repeats: int, *, cluster: bool = True) -> ScoreDifference:
    base, other, groups = draw
    return ScoreDifference(base=base, other=other, groups=groups if cluster else None, binary=repeats == 1)


def false_differences(rng: np.random.Generator, runs: int) -> list[tuple[str, float]]:
    """A/A: how often a 95 % interval excludes 0."""
    rows = []
    for items in (100, 400, 1000):
        for repeats in (1, 4):
            found = [difference(arms(rng, items, repeats, 0.0), repeats) for _ in range(runs)]
            name = f"{items:,} items, {repeats} repeat{'s' if repeats > 1 else ''}"
            rows.append((name, sum(map(excludes_zero, found)) / runs))
    for groups, size in ((15, 20), (40, 10), (100, 10)):
        draws = [grouped(rng, groups, size) for _ in range(runs)]
        for name, cluster in (("items taken as independent", False), ("clustered", True)):
            wrong = sum(excludes_zero(difference(draw, 2, cluster=cluster)) for draw in draws) / runs
            rows.append((f"{groups} groups of {size}, {name}", wrong))
    return rows


def power(rng: np.random.Generator, runs: int) -> list[tuple[str, float]]:
    """Two points lost, 14 % flips, 1,000 items."""
    single = [arms(rng, 1000, 1, 0.02) for _ in range(runs)]
    four = [arms(rng, 1000, 4, 0.02) for _ in range(runs)]
    eight = [arms(rng, 1000, 8, 0.02) for _ in range(runs)]
    return [
        ("unpaired z", sum(unpaired_z(a, b) for a, b, _ in single) / runs),
        ("exact McNemar", sum(exact_mcnemar(a, b) for a, b, _ in single) / runs),
        ("mid-p McNemar", sum(difference(d, 1).p_value() <= 0.05 for d in single) / runs),
        ("Bonett–Price interval", sum(excludes_zero(difference(d, 1)) for d in single) / runs),
        ("means of 4 repeats, paired t", sum(excludes_zero(difference(d, 4)) for d in four) / runs),
        ("means of 8 repeats, paired t", sum(excludes_zero(difference(d, 8)) for d in eight) / runs),
    ]


def margins(rng: np.random.Generator, runs: int) -> list[tuple[str, float]]:
    """Non-inferiority: a true loss of exactly the margin must seldom pass, none must pass with 80 % at n needed."""
    margin = 0.04
    needed = 541

    def passes(loss: float) -> bool:
        word = judge_difference(difference(arms(rng, needed, 1, loss), 1), 0.05, margin)
        return word in ("not worse", "equivalent", "better", "probably better")

    return [
        (f"{needed} items, margin 4 points, true loss 4: called not worse", share(runs, lambda: passes(margin))),
        (f"{needed} items, margin 4 points, no loss: called not worse", share(runs, lambda: passes(0.0))),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    error = math.sqrt(0.05 * 0.95 / options.runs)
    print(f"{options.runs} runs, seed {options.seed}; Monte Carlo error of 5 %: {error * 100:.1f} points\n")
    for title, rows in (
        ("A/A: 95 % intervals that exclude 0", false_differences(rng, options.runs)),
        ("Power: 2 points lost, 14 % flips, 1,000 items", power(rng, options.runs)),
        ("Non-inferiority", margins(rng, options.runs)),
    ):
        print(title)
        for name, value in rows:
            print(f"  {name:<62} {value * 100:5.1f} %")
        print()


if __name__ == "__main__":
    main()
