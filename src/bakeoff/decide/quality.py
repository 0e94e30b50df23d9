"""What measured quality does to the advice: who is refused, and under which condition others are shipped."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import QualityNote, QualityScore
from ..units import point_count, points

#: Outcomes of an accuracy that raise no condition.
_FINE = frozenset({"better", "probably better", "equivalent", "not worse"})


def refusals(notes: Sequence[QualityNote], scores: Sequence[QualityScore]) -> dict[str, str]:
    """Candidate → why it is never shipped: its outputs are garbage, or a task's accuracy lies below its margin."""
    refused = {note.candidate: f"never {note.candidate}: {note.reason}" for note in notes if note.status == "garbage"}
    for score in _deciding(scores):
        if score.outcome == "worse" and score.candidate not in refused:
            refused[score.candidate] = (
                f"never {score.candidate} for precision-sensitive use: {sentence(score)}, below the margin of "
                f"{point_count(score.margin or 0.0)}"
            )
    return refused


def quality_conditions(candidate: str, notes: Sequence[QualityNote], scores: Sequence[QualityScore]) -> tuple[str, ...]:
    """Conditions under which a candidate is shipped; none where its quality is shown to suffice."""
    mine = _deciding([score for score in scores if score.candidate == candidate])
    if mine:
        return tuple(dict.fromkeys(_condition(score) for score in mine if score.outcome not in _FINE))
    note = next((n for n in notes if n.candidate == candidate), None)
    if note is not None and note.status == "ok":
        return ()
    if note is not None and note.status == "not comparable":
        return ("if its quality suffices (it cannot be compared here)",)
    return ("if its quality suffices (quality was not measured)",)


def quality_reasons(candidate: str, scores: Sequence[QualityScore]) -> tuple[str, ...]:
    """What speaks for a candidate's quality, as reasons."""
    mine = _deciding([score for score in scores if score.candidate == candidate and score.outcome in _FINE])
    return tuple(f"quality of {candidate}: {sentence(score)}, {score.outcome}" for score in mine)


def sentence(score: QualityScore) -> str:
    """``accuracy on sums −0.4 points [−1.9, +1.1], 600 items``."""
    low, high = score.difference.low, score.difference.high
    bounds = "" if low is None or high is None else f" [{points(low)}, {points(high)}]"
    where = f" on {score.task}" if score.task else ""
    return f"accuracy{where} {points(score.difference.point)} points{bounds}, {score.items:,} items"


def _deciding(scores: Sequence[QualityScore]) -> list[QualityScore]:
    """The accuracy of each task: a loss in one is not made up for by the others."""
    rows = [score for score in scores if score.measure == "accuracy"]
    return [row for row in rows if row.task is not None] or rows


def _condition(score: QualityScore) -> str:
    task = score.task or "its tasks"
    if score.outcome == "invalid":
        return f"if its quality suffices ({_unjudged(score, task)})"
    if score.outcome == "uninformative":
        return f"if its quality suffices ({task}: {score.outcome}, {score.reason})"
    more = ""
    if score.needed is not None and score.needed > score.items:
        more = f"; about {score.needed:,} items would decide within {point_count(score.margin or 0.0)}"
    elif score.reason:
        more = f"; {score.reason}"
    return f"if its quality suffices ({sentence(score)}: {score.outcome}{more})"


def _unjudged(score: QualityScore, task: str) -> str:
    """How little is known, short: it stands in the headline, and the row itself tells why."""
    asked = sum(count for name, count in score.counts.items() if name.endswith(".asked"))
    unread = sum(count for name, count in score.counts.items() if name.endswith((".cut", ".failed", ".ungradable")))
    if not asked:
        return f"no question of {task} was answered"
    if unread:
        return f"{asked - unread} of {asked} answers to {task} could be graded"
    return f"{task}: invalid, {(score.reason or 'no reason given').partition(': ')[0]}"
