"""Quality scores in the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..compare.view_quality import ScoreView
from ..compare.view_types import View
from .figures import level
from .lines import columns, fit, wrap

_LABEL, _NAME = 34, 18


def score_lines(view: View, width: int, paint: Callable[..., str], *, full: bool) -> list[str]:
    """The table of the terminal: what decides; full: also what only describes. Empty where nothing was measured."""
    rows = [row for row in view.scores if full or row.brief]
    if not rows:
        return []
    several = len(view.candidates) > 1
    grid = [_head(view, several), *(_cells(row, several) for row in rows)]
    widths = [max(columns(line[i]) for line in grid) for i in range(len(grid[0]))]
    lines = [paint("Quality", "bold")]
    for number, cells in enumerate(grid):
        text = "   ".join(cell + " " * (w - columns(cell)) for cell, w in zip(cells, widths, strict=True)).rstrip()
        if number == 0:
            lines += [paint(text, "dim")] if columns(text) <= width else []
            continue
        row = rows[number - 1]
        if columns(text) <= width:
            lines.append(paint(text, row.tone))
        else:  # a narrow terminal: one fact after another
            lines += [paint(line, row.tone) for line in wrap(" ".join(c for c in cells if c), width, indent=2)]
        lines += [paint(line, "dim") for told in _told(row, full=full) for line in wrap(f"  {told}", width, indent=4)]
    return lines


def _head(view: View, several: bool) -> list[str]:
    lead = ["", *([""] if several else []), fit(view.base, _NAME)]
    return [*lead, "" if several else fit("".join(view.candidates[:1]), _NAME), "difference", level(view), "verdict"]


def _cells(row: ScoreView, several: bool) -> list[str]:
    lead = [fit(row.label, _LABEL), *([fit(row.candidate, _NAME)] if several else [])]
    return [*lead, row.base, row.value, row.difference, row.interval, f"{row.sign} {row.word}"]


def _told(row: ScoreView, *, full: bool) -> list[str]:
    """What a row owes its reader: how much it rests on, and why it is not settled."""
    counted = f"{row.items:,} items" + (f"; {row.detail}" if row.detail else "")
    told = [counted] if row.primary or full else []
    return [*told, row.note] if row.note else told


def score_markdown(view: View, escape: Callable[[str], str]) -> str:
    """The table for a pull request; empty where nothing was measured."""
    rows = [row for row in view.scores if row.primary] or list(view.scores)
    if not rows:
        return ""
    several = len(view.candidates) > 1
    heads = ["", *(["candidate"] if several else []), view.base, "value" if several else "".join(view.candidates[:1])]
    heads += ["difference", level(view), "items", "verdict"]
    aligns = [":--", *([":--"] if several else []), "--:", "--:", "--:", "--:", "--:", ":--"]
    lines = ["#### Quality", "", _line([escape(head) for head in heads]), _line(aligns)]
    for row in rows:
        lead = [escape(row.label), *([escape(row.candidate)] if several else [])]
        cells = [row.base, row.value, row.difference, row.interval, f"{row.items:,}", f"**{row.sign} {row.word}**"]
        lines.append(_line([*lead, *cells]))
    names = {row.candidate: f"{row.candidate} · " if several else "" for row in rows}
    notes = [
        f"- {escape(f'{names[row.candidate]}{row.label}: {text}')}"
        for row in rows
        for text in (row.detail, row.note)
        if text
    ]
    return "\n".join([*lines, "", *notes]).rstrip()


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
