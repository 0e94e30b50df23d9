"""Inference at one look, for a number of pairs that was set in advance: estimate, tests and intervals of one row.

A claim is made by its own test: of no difference, of a difference beyond the margin, and of equivalence (two one-sided
tests, Schuirmann 1987). So each family can be corrected by itself, and none claims more than its interval shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from scipy import stats

from ..model import Interval
from . import paired
from .strata import Labels, Vector, aligned


@dataclass(frozen=True, kw_only=True)
class OneLook:
    """What one look says of a log ratio.

    interval: level alpha → interval of 1 − alpha. tails: null → one-sided p of (truth ≤ null, truth ≥ null).
    """

    interval: Callable[[float], Interval]
    tails: Callable[[float], tuple[float, float]]

    def p_difference(self) -> float:
        """Two-sided p of no difference."""
        return min(1.0, 2 * min(self.tails(0.0)))

    def p_beyond(self, bound: float) -> float:
        """P of a truth within ±bound, on the scale of a two-sided test (as the interval has it)."""
        return min(1.0, 2 * min(self.tails(bound)[0], self.tails(-bound)[1]))

    def p_equivalence(self, bound: float) -> float:
        """P of a truth at or beyond ±bound: the larger of two one-sided tests."""
        return max(self.tails(bound)[1], self.tails(-bound)[0])


def by_mean(values: Vector, strata: Labels | None = None) -> OneLook:
    """Student's t on the mean of log ratios."""
    return OneLook(
        interval=lambda alpha: paired.t_interval(values, alpha, strata),
        tails=lambda null: paired.t_tails(values, null, strata),
    )


def by_ranks(values: Vector, strata: Labels | None = None) -> OneLook:
    """Hodges–Lehmann estimate with the signed-rank test: for quantiles, whose pairs scatter with heavy tails."""
    x = aligned(values, strata)
    return OneLook(
        interval=lambda alpha: paired.hodges_lehmann(x, alpha), tails=lambda null: paired.wilcoxon_tails(x, null)
    )


class Pooled(NamedTuple):
    """An estimate of all pairs together, with its standard error; `freedom`: of the t distribution to use."""

    point: float
    error: float
    freedom: int


def by_error(pooled: Pooled) -> OneLook:
    """An estimate with a standard error, by the t distribution."""
    point, error, freedom = pooled

    def interval(alpha: float) -> Interval:
        if freedom < 1 or not math.isfinite(error):
            return Interval(point=point)
        half = float(stats.t.ppf(1 - alpha / 2, freedom)) * error
        return Interval(point=point, low=point - half, high=point + half)

    def tails(null: float) -> tuple[float, float]:
        if freedom < 1 or not math.isfinite(error):
            return 1.0, 1.0
        if error == 0.0:
            return (1.0, 1.0) if point == null else (0.0, 1.0) if point > null else (1.0, 0.0)
        t = (point - null) / error
        return float(stats.t.sf(t, freedom)), float(stats.t.cdf(t, freedom))

    return OneLook(interval=interval, tails=tails)
