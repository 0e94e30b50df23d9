"""The price of speed in the terminal and in Markdown: tasks, memory, start-up, energy, break-evens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..compare.view_price_types import EntryView, PriceView, TableView, TaskTimeView
from ..compare.view_types import View
from .figures import level
from .lines import columns, fit, wrap

_NAME = 18
_GAP = 3


def task_lines(view: View, width: int, paint: Callable[..., str], *, full: bool) -> list[str]:
    """What tasks take, and where the gap sits; full: also tokens, energy and cost. Empty where there is no task."""
    lines: list[str] = []
    for task in view.price.tasks if view.price is not None else ():
        lines += [""] if lines else []
        who = f"{task.candidate}: " if len(view.candidates) > 1 else ""
        title = f"Time of {who}{task.title} · {task.counted}"
        lines += [paint(line, "bold") for line in wrap(title, width, indent=2)]
        entries = [entry for entry in task.entries if full or entry.primary]
        lines += _entries(view, task, entries, width, paint)
        for text in (gap_sentence(task, full=full), task.note, *([task.method] if full else [])):
            lines += [paint(line, "dim") for line in wrap(f"  {text}", width, indent=4)] if text else []
    return lines


def gap_sentence(task: TaskTimeView, *, full: bool = False) -> str:
    """``where it goes: output tokens 32 → 64 +632 ms (99 %); …``; full: also parts that hold next to nothing."""
    parts = [part for part in task.parts if full or not part.small]
    told = [f"{p.name} {p.base} → {p.value} {p.change}{f' ({p.share})' if p.share else ''}" for p in parts]
    return f"where it goes: {'; '.join(told)}" if told else ""


def _entries(
    view: View, task: TaskTimeView, entries: Sequence[EntryView], width: int, paint: Callable[..., str]
) -> list[str]:
    heads = ["", fit(view.base, _NAME), fit(task.candidate, _NAME), "change", level(view), "verdict"]
    grid = [heads, *([e.label, e.base, e.value, e.change, e.interval, f"{e.sign} {e.word}".strip()] for e in entries)]
    lines = _grid(grid, width)
    if lines is None:  # a narrow terminal: one fact after another
        told = [f"{e.label}: {e.base} → {e.value}, {e.change} {e.interval} {e.sign} {e.word}".strip() for e in entries]
        return [
            paint(line, entry.tone) if entry.word else line
            for entry, text in zip(entries, told, strict=True)
            for line in wrap(text, width, indent=2)
        ]
    styled = [paint(lines[0], "dim")]
    return styled + [paint(line, e.tone) if e.word else line for line, e in zip(lines[1:], entries, strict=True)]


def _grid(grid: Sequence[Sequence[str]], width: int) -> list[str] | None:
    """Aligned columns; None where they do not fit."""
    widths = [max(columns(row[i]) for row in grid) for i in range(len(grid[0]))]
    if sum(widths) + _GAP * (len(widths) - 1) > width:
        return None
    gap = " " * _GAP
    return [
        gap.join(cell + " " * (w - columns(cell)) for cell, w in zip(row, widths, strict=True)).rstrip() for row in grid
    ]


def resource_lines(view: View, width: int, paint: Callable[..., str]) -> list[str]:
    """Memory, start-up and energy as tables, for the full form."""
    price = view.price
    lines: list[str] = []
    for title, table in tables(price) if price is not None else ():
        lines += [""] if lines else []
        lines.append(paint(title, "bold"))
        lines += _table(table, width, paint)
    return lines


def tables(price: PriceView) -> list[tuple[str, TableView]]:
    """Those that there are, with their titles."""
    found = (("Memory", price.memory), ("Start-up", price.startups), ("Energy", price.energy))
    return [(title, table) for title, table in found if table is not None]


def _table(table: TableView, width: int, paint: Callable[..., str]) -> list[str]:
    lines = _grid([table.heads, *table.rows], width)
    if lines is None:
        lines = []
        for row in table.rows:
            facts = [f"{head} {cell}".strip() for head, cell in zip(table.heads[1:], row[1:], strict=True)]
            lines += wrap(f"{row[0]}: {', '.join(facts)}", width, indent=2)
    else:
        lines = [paint(lines[0], "dim"), *lines[1:]]
    return lines + [paint(line, "dim") for note in table.notes for line in wrap(f"  {note}", width, indent=4)]


def break_even_lines(view: View, *, full: bool) -> list[str]:
    """Where the variants break even; full: also that they never do, or that it is not resolved."""
    if view.price is None:
        return []
    return list(view.price.break_evens if full else view.price.turning)


def price_markdown(view: View, escape: Callable[[str], str]) -> str:
    """Tables for a pull request; empty where there is nothing to tell."""
    if view.price is None:
        return ""
    parts = [_task_markdown(view, task, escape) for task in view.price.tasks]
    for title, table in tables(view.price):
        rows = [[escape(cell) for cell in row] for row in (table.heads, *table.rows)]
        aligns = [":--", *["--:"] * (len(table.heads) - 1)]
        body = "\n".join([_line(rows[0]), _line(aligns), *(_line(row) for row in rows[1:])])
        notes = "".join(f"\n- {escape(note)}" for note in table.notes)
        parts.append(f"<details><summary>{title}</summary>\n\n{body}\n{notes}\n\n</details>")
    bullets = "\n".join(f"- {escape(text)}" for text in break_even_lines(view, full=False))
    return "\n\n".join(part for part in (*parts, bullets) if part)


def _task_markdown(view: View, task: TaskTimeView, escape: Callable[[str], str]) -> str:
    who = f"{task.candidate}: " if len(view.candidates) > 1 else ""
    heads = ["", view.base, task.candidate, "change", level(view), "verdict"]
    lines = [f"#### {escape(f'Time of {who}{task.title} · {task.counted}')}", "", _line([escape(h) for h in heads])]
    lines.append(_line([":--", "--:", "--:", "--:", "--:", ":--"]))
    rows = [[escape(e.label), e.base, e.value, e.change, e.interval, _judged(e)] for e in task.entries]
    lines += [_line(row) for row in rows]
    notes = [text for text in (gap_sentence(task), task.note) if text]
    return "\n".join(lines) + "".join(f"\n\n{escape(text)}" for text in notes)


def _judged(entry: EntryView) -> str:
    return f"**{entry.sign} {entry.word}**" if entry.word else ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
