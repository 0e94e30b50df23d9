"""The tables of the terminal verdict: columns that line up, and that give way where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..compare.view_types import Row, View
from ..units import change, quantity
from .figures import interval, level
from .lines import columns, fit, wrap


class _Room(NamedTuple):
    """Where the tables are written: how wide it is, and what puts a text into styles."""

    width: int
    paint: Callable[..., str]


@dataclass(frozen=True, kw_only=True)
class _Style:
    """How much room a table takes."""

    gap: int = 3
    label: int = 20  # columns of a metric's label
    name: int = 18  # columns of a variant's name
    explored: str = "(explored)"
    tight: bool = False  # shorter heads, units and intervals
    verdict: int | None = None  # columns that do for the verdict, which is wrapped; 0: it stands on a line of its own
    stacked: bool = False  # change and interval stand before the verdict on that line


#: From comfortable to narrow: the first that fits is taken, or the last.
_STYLES = (
    _Style(),
    _Style(gap=2, explored="(expl.)"),
    _Style(gap=2, explored="(expl.)", tight=True, name=10),
    _Style(gap=2, explored="(expl.)", tight=True, name=10, verdict=len("? inconclusive")),
    _Style(gap=2, tight=True, name=10, verdict=0),
    _Style(gap=1, tight=True, label=14, name=10, verdict=0, stacked=True),
    _Style(gap=1, tight=True, label=11, name=7, verdict=0, stacked=True),
)


def table_lines(
    view: View, tables: Sequence[Sequence[Row]], width: int, paint: Callable[..., str]
) -> tuple[list[list[str]], int]:
    """(the lines of each table, columns before the second column). All tables share their columns' widths.

    paint: puts a text into styles. Lines are at most `width` wide where any style allows it.
    """
    room = _Room(width, paint)
    for style in _STYLES:
        grids = [_grid(view, rows, style) for rows in tables]
        widths = _widths(grids)
        if _total(widths, style) <= room.width:
            break
    lines = [_align(grid, widths, rows, style, room) for grid, rows in zip(grids, tables, strict=True)]
    return lines, widths[0] + style.gap if widths else 12


def _grid(view: View, rows: Sequence[Row], style: _Style) -> list[list[str]]:
    """One candidate: a row a metric. Several: a row a metric and candidate; what is as in the row above is left out.

    Each candidate has pairs of its own, so the base's value may differ between rows of one metric: then it is said.
    """
    several = len(view.candidates) > 1
    grid = [_head(view, style, several)]
    previous, said = None, ""
    for row in rows:
        again = (row.metric, row.statistic) == previous
        base = _quantity(row.base.point, row, style)
        cells = _cells(row, style)
        if several:
            lead = ["" if again else fit(row.label, style.label), "" if again and base == said else base]
            grid.append([*lead, fit(row.candidate, style.name), *cells])
        else:
            grid.append([fit(row.label, style.label), base, *cells])
        previous, said = (row.metric, row.statistic), base
    return grid


def _head(view: View, style: _Style, several: bool) -> list[str]:
    base = fit(view.base, style.name)
    tail = ["change", level(view).removesuffix(" interval") if style.tight else level(view), "verdict"]
    if several:
        return ["", base, "", "", *tail]
    return ["", base, fit(view.candidates[0], style.name) if view.candidates else "", *tail]


def _cells(row: Row, style: _Style) -> list[str]:
    """Value, change, interval, verdict."""
    # Only gates decide; what is found by looking around must not read as if it had been asked.
    verdict = f"{row.sign} {row.word}" + ("" if row.gate else f" {style.explored}")
    span = interval(row.ratio)
    return [
        _quantity(row.value.point, row, style),
        change(row.ratio.point),
        span.replace(", ", ",") if style.tight else span,
        verdict,
    ]


def _quantity(value: float | None, row: Row, style: _Style) -> str:
    text = quantity(value, row.unit)
    return text.replace(" token/s", " tok/s") if style.tight else text


def _widths(grids: Sequence[list[list[str]]]) -> list[int]:
    """Columns' widths over all tables, so that they line up; the first also holds the label of quality."""
    if not grids:
        return []
    widths = [max(columns(line[i]) for grid in grids for line in grid) for i in range(len(grids[0][0]))]
    return [max(widths[0], 9), *widths[1:]]


def _total(widths: Sequence[int], style: _Style) -> int:
    """Columns of the widest line."""
    if not widths:
        return 0
    verdict = widths[-1] if style.verdict is None else style.verdict
    return _figures(widths, style) + (style.gap + verdict if verdict else 0)


def _figures(widths: Sequence[int], style: _Style) -> int:
    """Columns of all that stands in the first line of a row, but for the verdict."""
    count = _in_line(len(widths), style)
    return sum(widths[:count]) + style.gap * (count - 1)


def _in_line(cells: int, style: _Style) -> int:
    """How many cells of a row stand in its first line, the verdict not counted."""
    return cells - (3 if style.stacked else 1)


def _align(grid: list[list[str]], widths: list[int], rows: Sequence[Row], style: _Style, room: _Room) -> list[str]:
    lines = []
    gap = " " * style.gap
    at = _figures(widths, style) + style.gap
    for number, cells in enumerate(grid):
        upper = cells[: _in_line(len(cells), style)]
        figures = gap.join(cell + " " * (w - columns(cell)) for cell, w in zip(upper, widths, strict=False))
        if number == 0:
            head = figures + gap + cells[-1] if style.verdict != 0 else figures
            lines.append(room.paint(head.rstrip(), "dim"))
            continue
        row = rows[number - 1]
        styles = (row.tone, *(["bold"] if row.gate else []))
        if style.verdict == 0:
            before = f"{'  '.join(cells[len(upper) : -1])}  " if style.stacked else ""
            if columns(before) + columns(cells[-1]) + 2 > room.width:
                before = f"{before.rstrip()}\n  "
            lines += [figures.rstrip(), *f"  {before}{room.paint(cells[-1], *styles)}".split("\n")]
            continue
        first, *more = [cells[-1]] if style.verdict is None else wrap(cells[-1], room.width - at, indent=2)
        lines.append(figures + gap + room.paint(first, *styles))
        lines += [" " * at + room.paint(line, *styles) for line in more]
    return lines
