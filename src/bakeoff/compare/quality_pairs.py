"""Answers of two arms, paired by item: the mean score of each arm, and what could not be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ..model import Answer, QualityTask

if TYPE_CHECKING:
    from ..stats.paired_scores import ScoreDifference


@dataclass(frozen=True, kw_only=True)
class ItemPair:
    """One item that both arms were asked.

    base, other: mean over the repeats that both answered readably; None where there is no such repeat. group: the
    cluster that it belongs to; empty: it is independent. unread: (base, other) repeats without a score, as shares of
    those asked.
    """

    task: str
    item: str
    group: str
    chance: float
    base: float | None
    other: float | None
    repeats: int
    unread: tuple[float, float]
    read: tuple[float, float]  # sum of each arm's own scores ÷ repeats asked
    example: tuple[Answer, Answer]  # a repeat, of those that differ if any does


def pair_items(task: QualityTask, base: Sequence[Answer], other: Sequence[Answer]) -> list[ItemPair]:
    """Every item of the task that both arms were asked, in the order of the base's answers.

    Groups of a file are clusters, drawn from more of their kind, if there are enough of them to tell how much groups
    differ. A few groups are what the result holds for, and so are a library's generators and subtasks, which the
    experiment names: there items are independent.
    """
    from ..stats.paired_scores import MIN_CLUSTERS

    mine, theirs = _by_item(task.name, base), _by_item(task.name, other)
    pairs = [_pair(item, mine[item], theirs[item]) for item in mine if item in theirs]
    if task.source == "jsonl" and len({pair.group for pair in pairs if pair.group}) >= MIN_CLUSTERS:
        return pairs
    return [replace(pair, group="") for pair in pairs]


def _by_item(task: str, answers: Sequence[Answer]) -> dict[str, dict[int, Answer]]:
    found: dict[str, dict[int, Answer]] = defaultdict(dict)
    for answer in answers:
        if answer.task == task and answer.purpose == "score":
            found[answer.item][answer.repeat] = answer
    return dict(found)


def _pair(item: str, base: dict[int, Answer], other: dict[int, Answer]) -> ItemPair:
    asked = sorted(base.keys() & other.keys()) or sorted(base.keys() | other.keys())
    both = [(base[r], other[r]) for r in asked if r in base and r in other]
    read = [(a, b) for a, b in both if a.score is not None and b.score is not None]
    first = next(iter(base.values()))
    differing = [(a, b) for a, b in read if a.score != b.score]
    n = max(1, len(both))
    return ItemPair(
        task=first.task,
        item=item,
        group=first.group,
        chance=first.chance or 0.0,
        base=sum(a.score or 0.0 for a, _ in read) / len(read) if read else None,
        other=sum(b.score or 0.0 for _, b in read) / len(read) if read else None,
        repeats=len(read),
        unread=(sum(a.score is None for a, _ in both) / n, sum(b.score is None for _, b in both) / n),
        read=(sum(a.score or 0.0 for a, _ in both) / n, sum(b.score or 0.0 for _, b in both) / n),
        example=(differing or read or both or [(first, next(iter(other.values())))])[0],
    )


def score_difference(
    pairs: Sequence[ItemPair], unread: Literal["left out", "against", "in favour"] = "left out"
) -> ScoreDifference:
    """The difference over these items. unread: what becomes of answers without a score: left out with their partner, or
    counted all against the candidate (its own wrong, the base's right), or all in its favour."""
    import numpy as np

    from ..stats.paired_scores import ScoreDifference

    if unread == "left out":
        kept = [p for p in pairs if p.base is not None and p.other is not None]
        base = np.array([p.base for p in kept], dtype=np.float64)
        other = np.array([p.other for p in kept], dtype=np.float64)
    else:
        kept = list(pairs)
        mine, theirs = (1.0, 0.0) if unread == "against" else (0.0, 1.0)
        base = np.array([p.read[0] + mine * p.unread[0] for p in kept], dtype=np.float64)
        other = np.array([p.read[1] + theirs * p.unread[1] for p in kept], dtype=np.float64)
    names = [(p.task, p.group, "") if p.group else (p.task, "", p.item) for p in kept]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    scores = np.concatenate([base, other]) if kept else np.zeros(0)
    return ScoreDifference(
        base=base,
        other=other,
        groups=np.array([numbers[name] for name in names], dtype=np.int64) if any(p.group for p in kept) else None,
        binary=bool(np.isin(scores, (0.0, 1.0)).all()) and all(p.repeats <= 1 for p in kept),
    )
