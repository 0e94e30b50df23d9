"""Measured quality as reports show it: a row for each score, and the answers of items that flipped, side by side."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from ..model import Flip, Interval, QualityScore, Result
from ..units import point_count, points
from .view_redact import Cleaner
from .view_types import Tone

SCORE_LIMIT = 100
FLIP_LIMIT = 30
TEXT_CHARS = 1200
PROMPT_CHARS = 600

_TONES: dict[str, tuple[Tone, str]] = {
    "better": ("good", "✓"),
    "equivalent": ("equal", "="),
    "not worse": ("equal", "="),
    "worse": ("bad", "✗"),
    "probably better": ("unsure", "~"),
    "probably worse": ("unsure", "~"),
    "different": ("unsure", "≠"),
    "inconclusive": ("unsure", "?"),
    "uninformative": ("unsure", "?"),
    "invalid": ("invalid", "!"),
}
_LABELS = {
    "accuracy": "Accuracy",
    "agreement": "Agreement",
    "identical": "Identical texts",
    "pass_k": "All repeats right",
    "excess_flips": "Changed scores",
    "kl_mean": "KL divergence, mean",
    "kl_median": "KL divergence, median",
    "kl_p99": "KL divergence, p99",
    "same_top": "Same likeliest token",
    "rms_dp": "RMS Δp",
    "perplexity_ratio": "Perplexity ratio",
}
_BRIEF = ("accuracy", "kl_mean")
_POWERS_BELOW = 1e-4  # below it a number is written with a power of ten


@dataclass(frozen=True, kw_only=True)
class ScoreView:
    """One score of one candidate. Texts, ready to be shown: `base` and `value` by arm, `difference` with `interval`."""

    candidate: str
    label: str
    base: str
    value: str
    difference: str
    interval: str
    tone: Tone
    sign: str
    word: str
    primary: bool  # it counts for the decision; the others describe
    brief: bool  # it belongs into the short form
    items: int
    detail: str = ""  # flips, floor, what was cut, what would be needed
    note: str | None = None  # why it is not decided, and what to do


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A run of characters; `changed`: the other arm's answer has something else in its place."""

    text: str
    changed: bool = False


@dataclass(frozen=True, kw_only=True)
class FlipView:
    """One item with both arms' answers."""

    candidate: str
    task: str
    item: str
    word: str  # "right → wrong"
    prompt: str
    expected: str
    base: tuple[Piece, ...]
    value: tuple[Piece, ...]


def score_views(result: Result, clean: Cleaner) -> tuple[ScoreView, ...]:
    """Every score; those that decide first, candidates in their order."""
    order = {name: place for place, name in enumerate(result.candidates)}
    rows = sorted(result.scores, key=lambda s: (s.measure != "accuracy", order.get(s.candidate, 0)))
    return tuple(_score(row, clean) for row in rows[:SCORE_LIMIT])


def _score(row: QualityScore, clean: Cleaner) -> ScoreView:
    tone, sign = _TONES.get(row.outcome, ("unsure", "?"))
    label = _LABELS.get(row.measure, clean(row.measure, 40))
    where = clean(row.task, 60) if row.task else ("all tasks" if row.measure == "accuracy" else "")
    share = row.unit == "points"
    return ScoreView(
        candidate=clean(row.candidate, 60),
        label=f"{label} · {where}" if where else label,
        base=_value(row.base.point, row.unit),
        value=_value(row.value.point, row.unit),
        difference=f"{points(row.difference.point)} points"
        if share and row.items
        else _value(row.difference.point, row.unit),
        interval=_bounds(row.difference, share),
        tone=tone,
        sign=sign,
        word=row.outcome,
        primary=row.measure == "accuracy",
        brief=row.measure in _BRIEF,
        items=row.items,
        detail="; ".join(_details(row)),
        note=clean(row.reason, 600) if row.reason else None,
    )


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "points":
        return f"{value * 100:.1f} %"
    return f"{_number(value)}{' ' + unit if unit and unit not in ('1', 'ratio') else ''}"


def _number(value: float) -> str:
    """``0.0294``, ``−2.0·10⁻⁷``: three to four digits, powers of ten as people write them."""
    if value == 0 or abs(value) >= _POWERS_BELOW:
        return f"{value:.4g}".replace("-", "−")
    digits, power = f"{value:.1e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits}·10{raised}".replace("-", "−")


def _bounds(interval: Interval, share: bool) -> str:
    if interval.low is None or interval.high is None:
        return "–"
    if share:
        return f"[{points(interval.low)}, {points(interval.high)}]"
    return f"[{_number(interval.low)}, {_number(interval.high)}]"


def _details(row: QualityScore) -> list[str]:
    told = []
    if row.flips is not None and row.items:
        told.append(f"{row.flips[0]} right → wrong, {row.flips[1]} wrong → right")
        if row.flip_floor is not None and row.flip_floor.point is not None:
            told.append(_own_flips(row.flip_floor, row.flip_counts))
    for arm in ("base", "candidate"):
        kinds = [
            f"{n} {key.split('.')[1]}" for key, n in row.counts.items() if key.startswith(arm) and "asked" not in key
        ]
        if kinds:
            told.append(f"{arm}: {', '.join(kinds)}")
    if "positions" in row.counts:
        told.append(f"{row.counts['positions']:,} positions")
    if row.measure == "accuracy" and row.minimum_detectable is not None:
        told.append(f"shows differences from {row.minimum_detectable:.1f} points on")
        if row.needed is not None and row.needed > row.items and row.outcome not in ("better", "worse", "equivalent"):
            told.append(
                f"a margin of {point_count(row.margin or 0.0)} needs about {row.needed:,} items that flip like these"
            )
    return told


def _own_flips(floor: Interval, counts: tuple[int, int] | None) -> str:
    """``the base flips 0 of 3 items against itself (56 % at most)``."""
    share = f"{(floor.point or 0.0) * 100:.1f} % of" if counts is None else f"{counts[0]:,} of {counts[1]:,}"
    most = "" if floor.high is None else f" ({floor.high * 100:.0f} % at most)"
    return f"the base flips {share} items against itself{most}"


def flip_views(flips: Sequence[Flip], clean: Cleaner) -> tuple[FlipView, ...]:
    """The flips with what differs marked; none of a redacted report."""
    if clean.redact:
        return ()
    return tuple(_flip(flip, clean) for flip in flips[:FLIP_LIMIT])


def _flip(flip: Flip, clean: Cleaner) -> FlipView:
    base, value = (clean.block(text, limit=TEXT_CHARS) for text in (flip.base_text, flip.candidate_text))
    one, two = marked(base, value)
    return FlipView(
        candidate=clean(flip.candidate, 60),
        task=clean(flip.task, 60),
        item=clean(flip.item, 80),
        word=f"{_mark(flip.base_score)} → {_mark(flip.candidate_score)}",
        prompt=clean.block(flip.prompt[-PROMPT_CHARS:], limit=PROMPT_CHARS),
        expected=clean.block(flip.expected, limit=200),
        base=one,
        value=two,
    )


def _mark(score: float) -> str:
    return "right" if score >= 1 else "wrong" if score <= 0 else f"{score:.2g}"


def marked(one: str, two: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both texts in pieces, those marked that the other one has not. Bounded work: texts are short (`TEXT_CHARS`)."""
    left: list[Piece] = []
    right: list[Piece] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if b > a:
            left.append(Piece(text=one[a:b], changed=tag != "equal"))
        if d > c:
            right.append(Piece(text=two[c:d], changed=tag != "equal"))
    return tuple(left), tuple(right)
