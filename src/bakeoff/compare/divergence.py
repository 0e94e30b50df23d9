"""Divergence of the candidates from the base: rows of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..model import Better, Distribution, DivergencePass, Interval, QualityScore
from ..quality import divergence as along
from ..quality.divergence import NOISE, Compared

Rows = Callable[[DivergencePass], Sequence[Distribution]]


class _Measure(NamedTuple):
    name: str
    unit: str
    better: Better
    estimate: Callable[[Compared, float], Interval]


#: 1 − alpha is the confidence of each interval. `points`: shares, whose differences are percentage points.
_MEASURES = (
    _Measure("kl_mean", "nat", "lower", along.kl_mean),
    _Measure("kl_median", "nat", "lower", lambda found, alpha: along.kl_quantile(found, 0.5, alpha)),
    _Measure("kl_p99", "nat", "lower", lambda found, alpha: along.kl_quantile(found, 0.99, alpha)),
    _Measure("same_top", "points", "higher", along.same_top),
    _Measure("rms_dp", "points", "lower", along.rms_delta_p),
    _Measure("perplexity_ratio", "ratio", "lower", along.perplexity_ratio),
)


def divergence_scores(
    passes: Sequence[DivergencePass], rows: Rows, base: str, candidates: Sequence[str], confidence: float
) -> tuple[QualityScore, ...]:
    """Six measures for each candidate, beside what the base's second walk shows against its first (the floor).

    A candidate that could not walk has one row, ``invalid``, with the reason; none at all where nobody walked.
    """
    if not passes:
        return ()
    latest = {(walked.variant, walked.repeat): walked for walked in passes}
    first = latest.get((base, 0))
    if first is None or first.problem is not None:
        return tuple(_invalid(name, first, base) for name in candidates)
    ours = rows(first)
    again = latest.get((base, 1))
    floor = along.compare(ours, rows(again)) if again is not None and again.problem is None else None
    found: list[QualityScore] = []
    for name in candidates:
        walked = latest.get((name, 0))
        if walked is None or walked.problem is not None:
            found.append(_invalid(name, walked, name))
        else:
            found += _scores(name, along.compare(ours, rows(walked)), floor, walked, 1 - confidence)
    return tuple(found)


def _invalid(candidate: str, walked: DivergencePass | None, arm: str) -> QualityScore:
    if walked is None:
        return invalid_row(candidate, f"the run ended before {arm} was asked")
    return invalid_row(candidate, f"{arm}: {walked.problem}" + (f"; {walked.remedy}" if walked.remedy else ""))


def invalid_row(candidate: str, reason: str) -> QualityScore:
    """The row of a candidate of which nothing can be told."""
    nothing = Interval(point=None)
    return QualityScore(
        candidate=candidate,
        measure="kl_mean",
        unit="nat",
        better="lower",
        base=nothing,
        value=nothing,
        difference=nothing,
        outcome="invalid",
        reason=reason,
    )


def _scores(
    name: str, found: Compared, floor: Compared | None, walked: DivergencePass, alpha: float
) -> list[QualityScore]:
    if floor is not None:
        common = sorted(set(found.text.tolist()) & set(floor.text.tolist()))
        found, floor = found.where(common), floor.where(common)
    if found.kl.size == 0:
        return [_invalid(name, DivergencePass(variant=name, problem="it walked along none of the base's texts"), name)]
    same = _within_noise(found, floor, alpha)
    scores = []
    for measure in _MEASURES:
        value = measure.estimate(found, alpha)
        base = Interval(point=None) if floor is None else _floor(measure, floor, alpha)
        difference = _difference(measure, value, base)
        scores.append(
            QualityScore(
                candidate=name,
                measure=measure.name,
                unit=measure.unit,
                better=measure.better,
                base=base,
                value=value,
                difference=difference,
                outcome="equivalent" if same else _outcome(difference),
                items=found.texts,
                method=_method(found, walked),
                reason=_reason(found) if measure.name.startswith("kl_") else None,
                counts={"positions": int(found.kl.size)},
            )
        )
    return scores


def _within_noise(found: Compared, floor: Compared | None, alpha: float) -> bool:
    """Whether the divergence is no larger than the base's own, or than single precision explains."""
    value = along.kl_mean(found, alpha)
    own = along.kl_mean(floor, alpha) if floor is not None else Interval(point=0.0)
    limit = max(NOISE, own.point or 0.0, own.high or 0.0)
    return (value.high if value.high is not None else value.point or 0.0) <= limit


def _floor(measure: _Measure, floor: Compared, alpha: float) -> Interval:
    """What the base shows against itself; exact where its probabilities came out the same at every position."""
    estimate = measure.estimate(floor, alpha)
    if float(floor.kl.max()) > NOISE or not floor.same_top.all():
        return estimate
    return Interval(point=estimate.point, low=estimate.point, high=estimate.point)


def _outcome(difference: Interval) -> str:
    """A divergence is a distance, and no margin says which one is good: it is ``different`` or not decided."""
    low, high = difference.low, difference.high
    above, below = low is not None and low > 0, high is not None and high < 0
    return "different" if above or below else "inconclusive"


def _difference(measure: _Measure, value: Interval, base: Interval) -> Interval:
    """Above the floor. The floor is nearly exact, so its bounds are simply the farther ones."""
    if value.point is None or base.point is None:
        return Interval(point=None)
    scale = 100.0 if measure.unit == "points" else 1.0
    low = None if value.low is None or base.high is None else scale * (value.low - base.high)
    high = None if value.high is None or base.low is None else scale * (value.high - base.low)
    return Interval(point=scale * (value.point - base.point), low=low, high=high)


def _method(found: Compared, walked: DivergencePass) -> str:
    listed = "whole vocabulary" if _complete(found) else f"the likeliest {walked.top or 0:,} tokens, all others as one"
    return (
        f"teacher-forced on the base's greedy answers: {found.texts} texts, {found.kl.size:,} positions; {listed} "
        f"({walked.told_by}); jackknife over texts"
    )


def _complete(found: Compared) -> bool:
    return not found.base_rest.any() and not found.rest.any()


def _reason(found: Compared) -> str | None:
    """What lumping may hide; nothing where nothing was lumped."""
    if _complete(found):
        return None
    return (
        f"a lower bound: tokens that are not listed hold {found.base_rest.mean():.2%} of the base's probability on "
        f"average, at most {found.base_rest.max():.2%}"
    )
