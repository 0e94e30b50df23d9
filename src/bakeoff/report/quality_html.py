"""The page's section on quality: scores by arm, and the answers of items that flipped, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from ..compare.view_quality import FlipView, Piece, ScoreView
from ..compare.view_types import View
from .figures import level
from .html_element import Markup, h, prose
from .html_verdict import section


def quality(view: View) -> Markup | None:
    """Nothing where no quality was measured."""
    if not view.scores:
        return None
    lead = (
        "Both arms answered the same questions. Differences are paired by question, in percentage points; "
        "the verdict is against the margin, and nothing is left out in silence."
    )
    first = [row for row in view.scores if row.primary or row.brief]
    rest = [row for row in view.scores if row not in first]
    more = f"{len(rest)} more row{'' if len(rest) == 1 else 's'}, describing"
    return section(
        "quality",
        "Quality",
        lead,
        _table(view, first) if first else None,
        h("details", None, h("summary", None, more), _table(view, rest)) if rest else None,
        _flips(view),
    )


def _table(view: View, rows: Sequence[ScoreView]) -> Markup:
    several = len(view.candidates) > 1
    heads = [
        h("th", {"scope": "col"}, "Measure"),
        h("th", {"scope": "col"}, "Candidate") if several else None,
        h("th", {"scope": "col", "class": "num"}, view.base),
        h("th", {"scope": "col", "class": "num"}, "" if several else "".join(view.candidates)),
        h("th", {"scope": "col", "class": "num"}, "Difference"),
        h("th", {"scope": "col", "class": "num"}, level(view)),
        h("th", {"scope": "col", "class": "num"}, "Items"),
        h("th", {"scope": "col"}, "Verdict"),
    ]
    body = [_row(row, several) for row in rows]
    return h(
        "div",
        {"class": "scroll"},
        h("table", {"class": "metrics scores"}, h("thead", None, h("tr", None, heads)), h("tbody", None, body)),
        _notes(rows, several),
    )


def _row(row: ScoreView, several: bool) -> Markup:
    mark = h("span", {"class": f"verdict {row.tone}"}, h("span", {"class": "sign"}, row.sign), " ", row.word)
    return h(
        "tr",
        {"class": "first"},
        h("th", {"scope": "row", "class": "metric"}, row.label),
        h("td", {"class": "who"}, row.candidate) if several else None,
        h("td", {"class": "num base"}, row.base),
        h("td", {"class": "num value"}, row.value),
        h("td", {"class": "num change"}, row.difference),
        h("td", {"class": "num interval"}, row.interval),
        h("td", {"class": "num"}, f"{row.items:,}"),
        h("td", {"class": "outcome"}, mark),
    )


def _notes(rows: Sequence[ScoreView], several: bool) -> Markup | None:
    """What rows have to say; the same of many is said once."""
    told: dict[str, list[ScoreView]] = {}
    for row in rows:
        for text in (row.detail, row.note):
            if text:
                told.setdefault(text, []).append(row)
    items = [h("li", None, h("b", None, _about(group, several)), prose(f": {text}")) for text, group in told.items()]
    return h("ul", {"class": "notes"}, items) if items else None


def _about(rows: Sequence[ScoreView], several: bool) -> str:
    """``q8_0, q4_0 · KL divergence, mean``; several: name the candidates, because there is more than one."""
    measures: dict[str, list[str]] = {}
    for row in rows:
        measures.setdefault(row.candidate, []).append(row.label)
    if not several:
        return "; ".join(label for labels in measures.values() for label in labels)
    alike: dict[tuple[str, ...], list[str]] = {}
    for candidate, labels in measures.items():
        alike.setdefault(tuple(labels), []).append(candidate)
    return " and ".join(f"{', '.join(who)} · {'; '.join(labels)}" for labels, who in alike.items())


def _flips(view: View) -> Markup | None:
    if not view.flips:
        return None
    count = len(view.flips)
    summary = f"{count} answer{'s' if count > 1 else ''} whose score changed, side by side"
    return h("details", {"class": "flips"}, h("summary", None, summary), [_flip(view, flip) for flip in view.flips])


def _flip(view: View, flip: FlipView) -> Markup:
    return h(
        "article",
        {"class": "flip"},
        h("h3", None, f"{flip.task} · {flip.item} · {flip.candidate}: {flip.word}"),
        h("pre", {"class": "prompt"}, flip.prompt),
        h("p", {"class": "expected"}, "Expected: ", h("code", None, flip.expected)),
        h(
            "div",
            {"class": "sides"},
            h("figure", None, h("figcaption", None, view.base), h("pre", None, _pieces(flip.base, "del"))),
            h("figure", None, h("figcaption", None, flip.candidate), h("pre", None, _pieces(flip.value, "ins"))),
        ),
    )


def _pieces(pieces: Sequence[Piece], tag: str) -> list[Markup | str]:
    return [h(tag, None, piece.text) if piece.changed else piece.text for piece in pieces] or ["(empty)"]
