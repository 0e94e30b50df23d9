"""Ratios of sums, as time per solved task: a paired jackknife; and where a ratio of two means may lie (Fieller)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..model import Interval

Floats = NDArray[np.float64]
_NONE = Interval(point=None)


class PairedRatio(NamedTuple):
    """Σ numerators ÷ Σ denominators of two arms, and the quotient other ÷ base of the two."""

    base: Interval
    other: Interval
    ratio: Interval


def paired_ratio(base: tuple[Floats, Floats], other: tuple[Floats, Floats], alpha: float) -> PairedRatio:
    """Delete-one jackknife over clusters, in log, with Student's t on clusters − 1 degrees of freedom.

    base, other: (numerators, denominators) by cluster, shape (clusters,), the same clusters in both arms, so that what
    a cluster has of its own cancels in the quotient. Points are None where a sum is not positive; bounds are where it
    would not be without some cluster, or with fewer than two of them. Efron and Stein 1981; Cochran 1977, section 6.
    """
    return PairedRatio(_one(base, None, alpha), _one(other, None, alpha), _one(other, base, alpha))


def wider(first: Interval, second: Interval) -> Interval:
    """The point of the first one with the bounds that reach further; none where one of them has none."""
    if None in (first.low, first.high, second.low, second.high):
        return Interval(point=first.point)
    return Interval(point=first.point, low=min(first.low, second.low), high=max(first.high, second.high))  # type: ignore[type-var]  # checked


def _one(top: tuple[Floats, Floats], bottom: tuple[Floats, Floats] | None, alpha: float) -> Interval:
    whole, without = _logs(*top)
    if bottom is not None:
        below, below_without = _logs(*bottom)
        whole, without = whole - below, without - below_without
    if not math.isfinite(whole):
        return _NONE
    point = math.exp(whole)
    n = without.size
    if n < 2 or not np.isfinite(without).all():
        return Interval(point=point)
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    half = float(stats.t.ppf(1 - alpha / 2, n - 1)) * error
    return Interval(point=point, low=math.exp(whole - half), high=math.exp(whole + half))


def _logs(numerators: Floats, denominators: Floats) -> tuple[float, Floats]:
    """(ln of the ratio of sums, the same without each cluster); NaN where it is not defined."""
    a, b = float(numerators.sum()), float(denominators.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        left, right = a - numerators, b - denominators
        without = np.where((left > 0) & (right > 0), np.log(left) - np.log(right), np.nan)
    return (math.log(a / b) if a > 0 and b > 0 else math.nan), np.asarray(without, dtype=np.float64)


def quotient_of_means(top: Floats, bottom: Floats, factor: float) -> Interval:
    """mean(top) ÷ mean(bottom) of the same replicates, by Fieller's construction (1954).

    factor: half-width of an interval of a mean in units of the standard deviation (`paired.t_multiplier`, or
    `anytime.multiplier`). It holds every s for which top − s·bottom has an interval that contains 0. No bounds where
    mean(bottom) itself is not clear of 0: the quotient may then be anything.
    """
    if top.size == 0 or float(bottom.mean()) == 0:
        return _NONE
    u, v = float(top.mean()), float(bottom.mean())
    point = u / v
    if not math.isfinite(factor):
        return Interval(point=point)
    cov = np.cov(top, bottom, ddof=1) * factor**2
    # (u − s·v)² ≤ Suu − 2·s·Suv + s²·Svv  ⇔  a·s² − 2·b·s + c ≤ 0
    a, b, c = v * v - float(cov[1, 1]), u * v - float(cov[0, 1]), u * u - float(cov[0, 0])
    if a <= 0:
        return Interval(point=point)
    root = math.sqrt(max(0.0, b * b - a * c))
    return Interval(point=point, low=min(point, (b - root) / a), high=max(point, (b + root) / a))
