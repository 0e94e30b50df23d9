"""Answers to quality tasks → scores of each candidate against the base, paired by item, with their flips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ..model import Answer, Experiment, Flip, Interval, QualityNote, QualityScore
from ..units import points
from .quality_pairs import ItemPair, pair_items, score_difference

if TYPE_CHECKING:
    from ..stats.paired_scores import ScoreDifference

#: Share of a task's items without a readable answer beyond which its score says nothing.
MAX_UNREAD = 0.5
MAX_FLIPS = 30
_MOST_ITEMS = 10_000_000
_MAX_FLIP_CHARACTERS = 2000
#: Outcomes that a candidate may be shipped with.
ACCEPTABLE = frozenset({"better", "probably better", "equivalent", "not worse"})


def judge_quality(
    experiment: Experiment, answers: Sequence[Answer]
) -> tuple[tuple[QualityScore, ...], tuple[Flip, ...]]:
    """Every candidate's scores, task by task (and over all, of several), and the items that flipped.

    Scores come from the saved answers: nothing is graded anew. Empty where nothing was asked.
    """
    if not answers or experiment.quality is None:
        return (), ()
    from .quality_consistency import consistency_scores

    scores: list[QualityScore] = []
    flips: list[Flip] = []
    by_variant: dict[str, list[Answer]] = {}
    for answer in answers:
        by_variant.setdefault(answer.variant, []).append(answer)
    base = by_variant.get(experiment.base.name, [])
    tasks = experiment.quality.tasks
    for candidate in experiment.candidates:
        other = by_variant.get(candidate.name, [])
        case = _Case(experiment, candidate.name, base, other, len(tasks))
        pairs = {task.name: pair_items(task, base, other) for task in tasks}
        everything = [pair for found in pairs.values() for pair in found]
        scores += [case.row(name, found) for name, found in pairs.items()]
        if len(tasks) > 1:
            scores.append(case.row(None, everything))
        scores += consistency_scores(experiment, candidate.name, base, other)
        flips += _flips(candidate.name, everything)
    return tuple(scores), tuple(flips)


def without_unmeasured(notes: Iterable[QualityNote], scores: Iterable[QualityScore]) -> tuple[QualityNote, ...]:
    """The notes on outputs, without "not measured" of candidates whose quality was measured.

    scores: the rows of a divergence too. One that was asked for and failed is told as the reason.
    """
    measured = {score.candidate for score in scores if score.measure == "accuracy"}
    failed = {s.candidate: s for s in scores if s.measure == "kl_mean" and s.outcome == "invalid"}
    return tuple(
        _with_failure(note, failed.get(note.candidate)) if note.status == "not measured" else note
        for note in notes
        if not (note.status == "not measured" and note.candidate in measured)
    )


def _with_failure(note: QualityNote, divergence: QualityScore | None) -> QualityNote:
    if divergence is None:
        return note
    reason = (divergence.reason or "").partition("; ")[0]  # its row tells the remedy
    return msgspec.structs.replace(note, reason=f"the divergence that was asked for failed: {reason}")


@dataclass(frozen=True)
class _Case:
    """One candidate against the base."""

    experiment: Experiment
    candidate: str
    base: Sequence[Answer]
    other: Sequence[Answer]
    tasks: int

    def row(self, task: str | None, pairs: Sequence[ItemPair]) -> QualityScore:
        """The accuracy of one task, or over all."""
        from ..stats.paired_scores import judge_difference, wilson

        quality = self.experiment.quality
        assert quality is not None  # noqa: S101 - asked only where there is one
        alpha, margin = 1 - self.experiment.confidence, quality.margin_points / 100
        found = score_difference(pairs)
        counts = {**_counts("base", self.base, task), **_counts("candidate", self.other, task)}
        outcome, reason = self._invalid(task, pairs, found.items, counts)
        if outcome is None:
            outcome = judge_difference(found, alpha, margin, self.tasks)
            outcome, reason = self._checked(outcome, pairs, alpha, margin)
        lost, won, items = found.counts()
        difference = _in_points(found.interval(alpha))
        if outcome in ("equivalent", "not worse") and difference.high is not None and difference.high < 0:
            reason = "; ".join(text for text in ("detectably lower, by less than the margin", reason) if text)
        own = _own_flips(self.base, task)
        return QualityScore(
            candidate=self.candidate,
            task=task,
            measure="accuracy",
            unit="points",
            better="higher",
            base=wilson(float(found.base.sum()), items, alpha),
            value=wilson(float(found.other.sum()), items, alpha),
            difference=difference,
            outcome=outcome,
            margin=quality.margin_points,
            items=items,
            needed=found.needed(margin),
            minimum_detectable=None if (least := found.detectable(alpha)) is None else least * 100,
            flips=(lost, won),
            flip_floor=wilson(float(own[0]), own[1], alpha) if own else None,
            flip_counts=own,
            p_value=found.p_value(),
            method=found.method,
            reason=reason or _why(outcome, found, margin),
            counts=counts,
        )

    def _invalid(
        self, task: str | None, pairs: Sequence[ItemPair], items: int, counts: dict[str, int]
    ) -> tuple[str | None, str | None]:
        """(``invalid``, why and what to do) where there is nothing to judge."""
        asked = [a for a in (*self.base, *self.other) if a.purpose == "score" and task in (None, a.task)]
        if not pairs:
            missing = self.candidate if any(a.variant != self.candidate for a in asked) else self.experiment.base.name
            who = missing if asked else "any variant"
            return "invalid", f"no question was asked of {who}: the run ended before; raise `budget.minutes`"
        if items == 0:
            return "invalid", f"no answer could be graded: {_first_reason(asked, self._remedies(task))}"
        unread = 1 - items / len(pairs)
        if unread > MAX_UNREAD:
            causes = _causes(counts, self._remedies(task))
            return "invalid", f"{unread * 100:.0f} % of the items have no readable answer: {causes}"
        empty = counts.get("base.no answer", 0) + counts.get("candidate.no answer", 0)
        if empty and empty == sum(counts[f"{arm}.asked"] for arm in ("base", "candidate")):
            remedy = "mend the scorer, or `template` and `stop`"
            why = _first_reason(asked, self._remedies(task))
            return "invalid", f"no answer holds what the scorer looks for: {why}; {remedy}"
        return None, None

    def _remedies(self, task: str | None) -> dict[str, str]:
        """What helps, by status. Only a function of the user's own can be mended; other reasons bring their remedy."""
        quality = self.experiment.quality
        tasks = quality.tasks if quality is not None else ()
        if any(t.scorer == "function" for t in tasks if task in (None, t.name)):
            return _REMEDIES
        return {kind: remedy for kind, remedy in _REMEDIES.items() if kind != "ungradable"}

    def _checked(self, outcome: str, pairs: Sequence[ItemPair], alpha: float, margin: float) -> tuple[str, str | None]:
        """The outcome if it does not hang on answers that nobody could read, and if the task can show a loss at all."""
        from ..stats.paired_scores import judge_difference, wilson

        found = score_difference(pairs)
        chance = sum(pair.chance for pair in pairs) / len(pairs)
        low = wilson(float(found.base.sum()), found.items, alpha).low or 0.0
        if low - chance <= margin and outcome in ("equivalent", "not worse", "inconclusive"):
            score = float(found.base.mean())
            return "uninformative", (
                f"{self.experiment.base.name} scores {score * 100:.1f} %, near the {chance * 100:.1f} % of blind "
                "guessing, so that even a broken variant could lose no more than the margin: take easier "
                "questions, or a better base"
            )
        unread = len(pairs) - found.items
        if not unread:
            return outcome, None
        against, in_favour = (score_difference(pairs, unread=way) for way in ("against", "in favour"))
        outcomes = {judge_difference(case, alpha, margin, self.tasks) for case in (against, in_favour)}
        span = f"{points((against.point or 0) * 100)} to {points((in_favour.point or 0) * 100)} points"
        reason = (
            f"{unread} of {len(pairs)} items have no readable answer in both arms and are left out; "
            f"with all of them against or for {self.candidate} the difference would be {span}"
        )
        if (outcome in ACCEPTABLE and outcomes <= ACCEPTABLE) or outcomes == {outcome}:
            return outcome, reason
        return "inconclusive", f"{reason}: raise `max_tokens`, or mend what failed"


def _why(outcome: str, found: ScoreDifference, margin: float) -> str | None:
    """What an undecided row needs."""
    if outcome not in ("inconclusive", "probably worse"):
        return None
    needed = found.needed(abs(margin - abs(found.point or 0.0)))
    if needed is None or needed > _MOST_ITEMS:
        return "the difference is about as large as the margin, which no number of items will tell apart"
    return f"about {max(needed, found.items + 1):,} items would decide, if the difference stays what it is"


def _in_points(interval: Interval) -> Interval:
    scaled = [None if value is None else value * 100 for value in (interval.point, interval.low, interval.high)]
    return Interval(point=scaled[0], low=scaled[1], high=scaled[2])


def _counts(arm: str, answers: Sequence[Answer], task: str | None) -> dict[str, int]:
    """``base.asked``, ``base.cut``, ``base.failed``, ``base.ungradable``, ``base.no answer``; those of 0 left out."""
    mine = [a for a in answers if a.purpose == "score" and task in (None, a.task)]
    found = Counter[str](a.status for a in mine if a.status != "scored")
    found["no answer"] = sum(a.status == "scored" and a.reason is not None for a in mine)
    return {f"{arm}.asked": len(mine), **{f"{arm}.{kind}": count for kind, count in sorted(found.items()) if count}}


_REMEDIES = {
    "cut": "raise `max_tokens` (or give `stop`) for those that max_tokens cut",
    "failed": "look at the server's log for those that failed",
    "ungradable": "mend the function for those that it could not grade",
}


def _causes(counts: dict[str, int], remedies: dict[str, str]) -> str:
    """``base: 3 cut; flash: 40 cut; raise `max_tokens` …``."""
    found = {tuple(name.split(".")): count for name, count in counts.items() if name.split(".")[1] in _REMEDIES}
    told = [f"{arm}: {count} {kind}" for (arm, kind), count in found.items()]
    kinds = dict.fromkeys(kind for _, kind in found)
    return "; ".join([*told, *(remedies[kind] for kind in kinds if kind in remedies)])


def _first_reason(answers: Sequence[Answer], remedies: dict[str, str]) -> str:
    reasons = Counter(a.reason for a in answers if a.reason)
    if not reasons:
        return "none was given"
    kinds = dict.fromkeys(a.status for a in answers)
    first = (reasons.most_common(1)[0][0] or "").strip()
    return "; ".join([first, *(remedies[kind] for kind in kinds if kind in remedies)])


def _own_flips(base: Sequence[Answer], task: str | None) -> tuple[int, int] | None:
    """(items that the base flips against itself, items that it was asked twice); None where there are none."""
    first = {(a.task, a.item): a.score for a in base if a.purpose == "score" and a.repeat == 0}
    second = {(a.task, a.item): a.score for a in base if a.purpose == "again"}
    keys = [k for k in first.keys() & second.keys() if task in (None, k[0])]
    both = [(first[k], second[k]) for k in keys if first[k] is not None and second[k] is not None]
    return (sum(a != b for a, b in both), len(both)) if both else None


def _flips(candidate: str, pairs: Sequence[ItemPair]) -> list[Flip]:
    """Items that the arms scored differently: lost ones first, the largest difference first."""
    changed = [p for p in pairs if p.base is not None and p.other is not None and p.base != p.other]
    changed.sort(key=lambda p: ((p.other or 0.0) > (p.base or 0.0), -abs((p.other or 0.0) - (p.base or 0.0))))
    found = []
    for pair in changed[:MAX_FLIPS]:
        one, two = pair.example
        found.append(
            Flip(
                candidate=candidate,
                task=pair.task,
                item=pair.item,
                prompt=one.prompt[-_MAX_FLIP_CHARACTERS:],
                expected=one.expected[:_MAX_FLIP_CHARACTERS],
                base_text=one.text[:_MAX_FLIP_CHARACTERS],
                candidate_text=two.text[:_MAX_FLIP_CHARACTERS],
                base_score=one.score or 0.0,
                candidate_score=two.score or 0.0,
            )
        )
    return found
