"""Rows on consistency: agreement within an arm, and flips between the arms beyond the base's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..model import Answer, Better, Experiment, Interval, QualityScore
from ..quality.consistency import Repeats, on_common_items, pass_k, repeats_by_item

if TYPE_CHECKING:
    from ..stats.paired_scores import ScoreDifference


def consistency_scores(
    experiment: Experiment, candidate: str, base: Sequence[Answer], other: Sequence[Answer]
) -> list[QualityScore]:
    """``agreement`` (TARa@N: all read answers of an item agree; Atil et al. 2024), ``identical`` (all its texts do,
    byte for byte), ``pass_k`` (all of them are right), ``excess_flips``; without those that nothing was asked for."""
    mine, theirs = repeats_by_item(base), repeats_by_item(other)
    rows = []
    if mine and theirs:
        k = min(item.repeats for item in (*mine.values(), *theirs.values()))
        measures: list[tuple[str, Callable[[Repeats], float | None]]] = [
            ("agreement", lambda item: float(item.agree)),
            ("identical", lambda item: float(item.identical)),
            ("pass_k", lambda item: pass_k(item, k)),
        ]
        for measure, value in measures:
            pairs = on_common_items(mine, theirs, value)
            if pairs:
                rows.append(_paired_row(experiment, candidate, measure, k, pairs))
    rows += _excess(experiment, candidate, base, other)
    return rows


def _paired_row(
    experiment: Experiment, candidate: str, measure: str, k: int, pairs: Sequence[tuple[float, float]]
) -> QualityScore:
    import numpy as np

    from ..stats.paired_scores import ScoreDifference, wilson

    a, b = np.array([x for x, _ in pairs]), np.array([y for _, y in pairs])
    found = ScoreDifference(base=a, other=b, binary=bool(np.isin(np.concatenate([a, b]), (0.0, 1.0)).all()))
    alpha = 1 - experiment.confidence
    return QualityScore(
        candidate=candidate,
        measure=measure,
        unit="points",
        better="higher",
        base=wilson(float(a.sum()), a.size, alpha),
        value=wilson(float(b.sum()), b.size, alpha),
        difference=_points(found.interval(alpha)),
        outcome=_word(found.interval(alpha), "higher"),
        items=len(pairs),
        minimum_detectable=_percent(found, alpha),
        p_value=found.p_value(),
        method=f"{k} repeats at temperature 0, {found.method}",
    )


def _percent(found: ScoreDifference, alpha: float) -> float | None:
    least = found.detectable(alpha)
    return None if least is None else 100 * least


def _excess(
    experiment: Experiment, candidate: str, base: Sequence[Answer], other: Sequence[Answer]
) -> list[QualityScore]:
    """Share of items on which the candidate's score differs from the base's, beyond how often the base's own differs.

    The floor is that of the base's second visits, else of its repeats at temperature 0.
    """
    from ..stats.paired_scores import difference_of_shares, wilson

    alpha = 1 - experiment.confidence
    first = _scores(base, "score")
    theirs = _scores(other, "score")
    second, method = _scores(base, "again"), "against second visits of the base"
    if not first.keys() & second.keys():
        second, first_again = _scores(base, "consistency", 1), _scores(base, "consistency", 0)
        own = _changed(first_again, second)
        method = "against repeats of the base on one start"
    else:
        own = _changed(first, second)
    between = _changed(first, theirs)
    if not own or not between:
        return []
    floor, share = wilson(float(sum(own)), len(own), alpha), wilson(float(sum(between)), len(between), alpha)
    beyond = _points(difference_of_shares(floor, share))
    return [
        QualityScore(
            candidate=candidate,
            measure="excess_flips",
            unit="points",
            better="lower",
            base=floor,
            value=share,
            difference=beyond,
            outcome=_word(beyond, "lower"),
            items=len(between),
            flip_floor=floor,
            flip_counts=(sum(own), len(own)),
            method=f"{method}, {len(own)} items; Newcombe's interval",
        )
    ]


def _scores(answers: Sequence[Answer], purpose: str, repeat: int = 0) -> dict[tuple[str, str], float]:
    return {
        (a.task, a.item): a.score
        for a in answers
        if a.purpose == purpose and a.repeat == repeat and a.score is not None
    }


def _changed(one: dict[tuple[str, str], float], two: dict[tuple[str, str], float]) -> list[bool]:
    return [one[key] != two[key] for key in one.keys() & two.keys()]


def _points(interval: Interval) -> Interval:
    low, high = interval.low, interval.high
    return Interval(
        point=None if interval.point is None else 100 * interval.point,
        low=None if low is None else 100 * low,
        high=None if high is None else 100 * high,
    )


def _word(interval: Interval, better: Better) -> str:
    """These rows have no margin: they say whether a difference shows, and nothing gates on them."""
    if interval.low is None or interval.high is None or interval.low <= 0 <= interval.high:
        return "inconclusive"
    return "probably better" if (interval.low > 0) == (better == "higher") else "probably worse"
