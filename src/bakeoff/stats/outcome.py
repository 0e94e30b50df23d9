"""From an interval of the log ratio and a margin to one word."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..model import Better, Interval, Outcome

#: The outcomes that end a run's questions.
DECIDED: frozenset[Outcome] = frozenset({"faster", "slower", "better", "worse", "equivalent"})

_WEAKER: dict[Outcome, Outcome] = {
    "faster": "probably faster",
    "slower": "probably slower",
    "better": "probably better",
    "worse": "probably worse",
    "probably faster": "inconclusive",
    "probably slower": "inconclusive",
    "probably better": "inconclusive",
    "probably worse": "inconclusive",
}


class Judged(NamedTuple):
    """An outcome; `detectable`: equivalent within the margin, yet the interval excludes no difference."""

    outcome: Outcome
    detectable: bool = False


def log_margin(margin: float) -> float:
    """A relative margin as a distance in log ratio, the same both ways (so that swapping the arms is symmetric)."""
    return math.log1p(margin)


def judge(
    interval: Interval,
    *,
    margin: float,
    better: Better,
    time_like: bool,
    equivalence: Interval | None = None,
) -> Judged:
    """The outcome of a log ratio's interval.

    margin: relative (0.03). `equivalence` is the interval that has to lie inside ±margin for `equivalent`
    (fixed n: the 90 % interval of two one-sided tests); by default the same interval (anytime-valid).
    """
    bound = log_margin(margin)
    low = -math.inf if interval.low is None else interval.low
    high = math.inf if interval.high is None else interval.high
    inner = interval if equivalence is None else equivalence
    excludes_zero = low > 0 or high < 0
    if low > bound or high < -bound:
        return Judged(_word(low > 0, better, time_like, sure=True))
    if inner.low is not None and inner.high is not None and inner.low >= -bound and inner.high <= bound:
        return Judged("equivalent", excludes_zero)
    if excludes_zero:
        return Judged(_word(low > 0, better, time_like, sure=False))
    return Judged("inconclusive")


def weaken(judged: Judged) -> Judged:
    """One step less certain, for a row that does not survive the correction for many questions."""
    if judged.outcome == "equivalent":
        return Judged("equivalent")
    return Judged(_WEAKER.get(judged.outcome, judged.outcome))


def _word(larger: bool, better: Better, time_like: bool, *, sure: bool) -> Outcome:
    good = larger == (better == "higher")
    if time_like:
        word: Outcome = "faster" if good else "slower"
    else:
        word = "better" if good else "worse"
    return word if sure else _WEAKER[word]
