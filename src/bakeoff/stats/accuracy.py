"""Paired scores of two variants on the same items: is one less often right?"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..model import Interval
from .checks import finite_vector
from .paired import Vector


class Flips(NamedTuple):
    """Items by what the two arms made of them: base right and other wrong, base wrong and other right, all."""

    lost: int
    won: int
    items: int


def flips(base: NDArray[np.bool_], other: NDArray[np.bool_]) -> Flips:
    """Counts of the items, right or wrong by arm; shape (items,), the same items in the same order."""
    return Flips(int((base & ~other).sum()), int((~base & other).sum()), int(base.size))


def mcnemar_p_value(counts: Flips) -> float:
    """Two-sided mid-p of equal scores (Fagerland, Lydersen and Laake 2013): the exact test, without its caution.

    1.0 where no item flipped.
    """
    n = counts.lost + counts.won
    if n == 0:
        return 1.0
    fewer = min(counts.lost, counts.won)
    p = 2 * float(stats.binom.cdf(fewer, n, 0.5)) - float(stats.binom.pmf(fewer, n, 0.5))
    return min(1.0, p)


def difference(counts: Flips, alpha: float) -> Interval:
    """Score of other − base, in shares, with an interval for paired proportions.

    Wald with one flip each way added (Bonett and Price 2012), which keeps its level where few items flip.
    """
    if counts.items == 0:
        return Interval(point=None)
    point = (counts.won - counts.lost) / counts.items
    n = counts.items + 2
    won, lost = (counts.won + 1) / n, (counts.lost + 1) / n
    half = float(stats.norm.ppf(1 - alpha / 2)) * math.sqrt((won + lost - (won - lost) ** 2) / n)
    middle = won - lost
    return Interval(point=point, low=max(-1.0, middle - half), high=min(1.0, middle + half))


def items_for(discordant: float, margin: float) -> int | None:
    """Items to show non-inferiority within `margin` at 80 % (one-sided 5 %): 6.18 · discordant ÷ margin². In shares."""
    return math.ceil(6.18 * discordant / margin**2) if margin > 0 else None


def clustered_t_interval(values: Vector, clusters: NDArray[np.int64], alpha: float) -> Interval:
    """Mean of paired differences of items that come in groups (several questions on one text), shape (items,).

    The error is that of the sums of residuals by cluster (Liang and Zeger 1986), with clusters − 1 degrees of freedom
    and the usual small-sample factor clusters/(clusters − 1). Fewer than two clusters: no bounds.
    """
    x = finite_vector(values)
    if x.size == 0:
        return Interval(point=None)
    mean = float(x.mean())
    groups = np.unique(clusters)
    if groups.size < 2:
        return Interval(point=mean)
    sums = np.array([float((x[clusters == group] - mean).sum()) for group in groups])
    error = math.sqrt(groups.size / (groups.size - 1) * float((sums**2).sum())) / x.size
    half = float(stats.t.ppf(1 - alpha / 2, groups.size - 1)) * error
    return Interval(point=mean, low=mean - half, high=mean + half)
