"""The difference of two variants' scores on the same items: one repeat or several, items alone or in groups.

One repeat, right or wrong: mid-p McNemar with the Bonett–Price interval. Several repeats, or scores in between: each
item's mean difference, with paired t. Items in groups: the t interval of clustered errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..model import Interval
from .accuracy import Flips, clustered_t_interval, difference, flips, items_for, mcnemar_p_value
from .paired import t_interval, t_p_value

Floats = NDArray[np.float64]

#: Fewer groups than these cannot show how much groups differ: they are then what the result holds for.
MIN_CLUSTERS = 10
#: Below so many items (or groups) that differ, a t interval is too narrow: its spread hangs on whether one more does.
_FEW = 10
#: 80 % quantile of the standard normal: the usual power.
_Z_POWER = 0.8416212335729143


@dataclass(frozen=True, kw_only=True)
class ScoreDifference:
    """Other − base, in shares (0..1). Arrays of shape (items,): the mean score of each item by arm, and its group.

    groups None: items are independent of each other. binary: every score is 0 or 1, of one repeat.
    """

    base: Floats
    other: Floats
    groups: NDArray[np.int64] | None = None
    binary: bool = False

    @property
    def items(self) -> int:
        return int(self.base.size)

    @property
    def point(self) -> float | None:
        return float((self.other - self.base).mean()) if self.items else None

    @property
    def exact(self) -> bool:
        """Whether the test of binary scores applies."""
        return self.binary and self.groups is None

    @property
    def method(self) -> str:
        if self.exact:
            return "mid-p McNemar"
        return "paired t" if self.groups is None else f"clustered t over {np.unique(self.groups).size} groups"

    def counts(self) -> Flips:
        """Items on which the base scores higher, the other does, and all."""
        return Flips(int((self.other < self.base).sum()), int((self.other > self.base).sum()), self.items)

    def interval(self, alpha: float) -> Interval:
        """At level 1 − alpha. Without items, no point; with one item or group, no bounds."""
        if self.exact:
            return difference(flips(self.base > 0.5, self.other > 0.5), alpha)
        values = self.other - self.base
        plain = t_interval(values, alpha) if self.groups is None else clustered_t_interval(values, self.groups, alpha)
        if plain.low is None or plain.high is None or self._differing() >= _FEW:
            return plain
        lost, won = float(-values[values < 0].sum()), float(values[values > 0].sum())
        counted = difference(Flips(math.ceil(lost), math.ceil(won), self.items), alpha)
        return Interval(
            point=plain.point,
            low=min(plain.low, counted.low if counted.low is not None else plain.low),
            high=max(plain.high, counted.high if counted.high is not None else plain.high),
        )

    def _differing(self) -> int:
        """Items, or groups, in which anything differs."""
        differs = self.other != self.base
        return int(differs.sum()) if self.groups is None else int(np.unique(self.groups[differs]).size)

    def p_value(self) -> float:
        """Two-sided p of no difference; 1.0 where nothing differs or there are too few to tell."""
        if self.exact:
            return mcnemar_p_value(self.counts())
        if self.groups is None:
            return t_p_value(self.other - self.base)
        freedom = np.unique(self.groups).size - 1
        error = self._error()
        if freedom < 1 or not error or self.point is None:
            return 1.0
        return min(1.0, 2 * float(stats.t.sf(abs(self.point) / error, freedom)))

    def _error(self) -> float | None:
        """Standard error of the clustered mean."""
        assert self.groups is not None  # noqa: S101 - asked only where there are groups
        values = clustered_t_interval(self.other - self.base, self.groups, 0.05)
        if values.low is None or values.high is None:
            return None
        return (values.high - values.low) / 2 / float(stats.t.ppf(0.975, np.unique(self.groups).size - 1))

    def variance(self) -> float | None:
        """Of one item's difference, as if items were independent (groups inflate it): n · standard error²."""
        if self.items == 0:
            return None
        if self.exact:
            lost, won, n = self.counts()
            return max((lost + won) / n, 2 / (n + 2))  # the interval, too, adds a flip each way
        error = self._error() if self.groups is not None else None
        if error is not None:
            return max(self.items * error**2, 2 / (self.items + 2))
        return max(float(np.var(self.other - self.base, ddof=1)) if self.items > 1 else 1.0, 2 / (self.items + 2))

    def detectable(self, alpha: float) -> float | None:
        """True difference that so many items show to differ from 0 with 80 %, in shares."""
        variance = self.variance()
        if variance is None:
            return None
        return (float(stats.norm.ppf(1 - alpha / 2)) + _Z_POWER) * math.sqrt(variance / self.items)

    def needed(self, margin: float) -> int | None:
        """Items that show non-inferiority within the margin (a share) with 80 %, one-sided 5 %."""
        variance = self.variance()
        return None if variance is None else items_for(variance, margin)


def judge_difference(found: ScoreDifference, alpha: float, margin: float, questions: int = 1) -> str:
    """One word for a difference: better | worse | equivalent | probably better | not worse | probably worse |
    inconclusive.

    margin: a share. `better` and `worse` need an interval wholly beyond ±margin, at a level corrected for the number of
    questions (Bonferroni); `equivalent` two one-sided tests inside it; `not worse` one of them (non-inferiority);
    `probably …`: the interval excludes 0 and no more.
    """
    wide, usual, narrow = (found.interval(a) for a in (alpha / max(1, questions), alpha, 2 * alpha))
    if None in (wide.low, wide.high, usual.low, usual.high, narrow.low, narrow.high):
        return "inconclusive"
    assert wide.low is not None and wide.high is not None  # noqa: S101, PT018 - by the check above
    assert usual.low is not None and usual.high is not None  # noqa: S101, PT018
    assert narrow.low is not None and narrow.high is not None  # noqa: S101, PT018
    if wide.low > margin:
        return "better"
    if wide.high < -margin:
        return "worse"
    if -margin < narrow.low and narrow.high < margin:
        return "equivalent"
    if usual.low > 0:
        return "probably better"
    if narrow.low > -margin:
        return "not worse"
    return "probably worse" if usual.high < 0 else "inconclusive"


def wilson(successes: float, items: int, alpha: float) -> Interval:
    """A share with Wilson's score interval (1927). Without items, no point."""
    if items == 0:
        return Interval(point=None)
    z = float(stats.norm.ppf(1 - alpha / 2))
    p = successes / items
    middle = (p + z**2 / (2 * items)) / (1 + z**2 / items)
    half = z * math.sqrt(p * (1 - p) / items + z**2 / (4 * items**2)) / (1 + z**2 / items)
    low = 0.0 if successes == 0 else max(0.0, middle - half)  # exactly: rounding would leave 1e-19
    return Interval(point=p, low=low, high=1.0 if successes == items else min(1.0, middle + half))


def difference_of_shares(one: Interval, other: Interval) -> Interval:
    """other − one of two independent shares, from their score intervals (Newcombe 1998, method 10)."""
    if None in (one.point, one.low, one.high, other.point, other.low, other.high):
        return Interval(point=None)
    assert one.point is not None and one.low is not None and one.high is not None  # noqa: S101, PT018
    assert other.point is not None and other.low is not None and other.high is not None  # noqa: S101, PT018
    point = other.point - one.point
    down = math.hypot(other.point - other.low, one.high - one.point)
    up = math.hypot(other.high - other.point, one.point - one.low)
    return Interval(point=point, low=point - down, high=point + up)
