"""How consistent a variant is: the same prompts asked again and again at temperature 0. Pure functions of answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import comb
from typing import NamedTuple

from ..model import Answer


class Repeats(NamedTuple):
    """What the repeats of one item look like. `agree`: all read answers are the same; `identical`: all texts are, byte
    for byte; `right`, `graded`: repeats by their score."""

    agree: bool
    identical: bool
    right: int
    graded: int
    repeats: int


def repeats_by_item(answers: Iterable[Answer]) -> dict[tuple[str, str], Repeats]:
    """By (task, item), of the answers that were asked for consistency; items with fewer than two are left out.

    Failed requests are no answers. The read answer of a text without one is the text itself.
    """
    found: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.purpose == "consistency" and answer.status != "failed":
            found[answer.task, answer.item].append(answer)
    return {key: _of(group) for key, group in found.items() if len(group) >= 2}


def _of(answers: Sequence[Answer]) -> Repeats:
    graded = [answer for answer in answers if answer.score is not None]
    return Repeats(
        agree=len({answer.given or answer.text for answer in answers}) == 1,
        identical=len({(answer.reasoning, answer.text) for answer in answers}) == 1,
        right=sum((answer.score or 0.0) >= 1.0 for answer in graded),
        graded=len(graded),
        repeats=len(answers),
    )


def pass_k(item: Repeats, k: int) -> float | None:
    """Chance that k answers drawn from the item's are all right: C(right, k) ÷ C(graded, k). None with fewer than k.

    The unbiased estimate of pass^k (Yao et al. 2024, τ-bench).
    """
    return comb(item.right, k) / comb(item.graded, k) if item.graded >= k else None


def on_common_items(
    base: Mapping[tuple[str, str], Repeats],
    other: Mapping[tuple[str, str], Repeats],
    value: Callable[[Repeats], float | None],
) -> list[tuple[float, float]]:
    """(base, other) of a value on every item that both arms have it for."""
    pairs = ((value(base[key]), value(other[key])) for key in sorted(base.keys() & other.keys()))
    return [(a, b) for a, b in pairs if a is not None and b is not None]
