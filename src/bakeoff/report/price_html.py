"""The page's sections on the price of speed: the time of a task with its waterfall, quality against time, resources."""

from __future__ import annotations

from collections.abc import Sequence

from ..compare.view_price_types import EntryView, ParetoView, TableView, TaskTimeView
from ..compare.view_types import View
from .figures import level
from .html_element import Markup, h, prose
from .html_pareto import pareto
from .html_svg import Draftsman
from .html_verdict import section
from .html_waterfall import waterfall
from .price_text import tables


def task_time(view: View, pen: Draftsman) -> Markup | None:
    """Nothing where answers have no natural length and no questions were asked."""
    price = view.price
    if price is None or not price.tasks:
        return None
    lead = (
        "A variant that is faster per token and slower per task is slower. The gap is split exactly among the parts of "
        "a task's time; a solved task also pays for the attempts that failed."
    )
    found = price.pareto
    plot = _pareto(view, pen, found) if found is not None else None
    return section("task-time", "What a task takes", lead, [_task(view, pen, task) for task in price.tasks], plot)


def _task(view: View, pen: Draftsman, task: TaskTimeView) -> Markup:
    who = f"{task.candidate}: " if len(view.candidates) > 1 else ""
    chart = waterfall(pen, view, task)
    notes = [text for text in (task.note, task.method) if text]
    return h(
        "div",
        {"class": "cell"},
        h("h3", None, f"{who}{task.title} · {task.counted}"),
        _entries(view, task),
        h("figure", {"class": "waterfall"}, chart) if chart is not None else None,
        _parts(task) if task.parts else None,
        h("ul", {"class": "notes"}, [h("li", None, prose(note)) for note in notes]) if notes else None,
    )


def _entries(view: View, task: TaskTimeView) -> Markup:
    heads = [
        h("th", {"scope": "col"}, ""),
        *(h("th", {"scope": "col", "class": "num"}, t) for t in (view.base, task.candidate, "Change", level(view))),
        h("th", {"scope": "col"}, "Verdict"),
    ]
    return _metrics(heads, [_entry(entry) for entry in task.entries])


def _entry(entry: EntryView) -> Markup:
    mark = None
    if entry.word:
        sign = h("span", {"class": "sign"}, entry.sign)
        mark = h("span", {"class": f"verdict {entry.tone}"}, sign, " ", entry.word)
    return h(
        "tr",
        {"class": "first"},
        h("th", {"scope": "row", "class": "metric"}, entry.label),
        h("td", {"class": "num base"}, entry.base),
        h("td", {"class": "num value"}, entry.value),
        h("td", {"class": "num change"}, entry.change),
        h("td", {"class": "num interval"}, entry.interval),
        h("td", {"class": "outcome"}, mark),
    )


def _parts(task: TaskTimeView) -> Markup:
    """The numbers of the waterfall, for those who cannot see it."""
    heads = [h("th", {"scope": "col", "class": "num" if i else None}, t) for i, t in enumerate(_PART_HEADS)]
    rows = [
        h(
            "tr",
            None,
            h("th", {"scope": "row"}, part.name),
            *(h("td", {"class": "num"}, text) for text in (part.base, part.value, part.change, part.share)),
        )
        for part in task.parts
    ]
    return h("details", None, h("summary", None, "The parts in numbers"), _metrics(heads, rows))


_PART_HEADS = ("Part", "Base", "Candidate", "Of the gap", "Share")


def _metrics(heads: Sequence[Markup], rows: Sequence[Markup]) -> Markup:
    table = h("table", {"class": "figures"}, h("thead", None, h("tr", None, heads)), h("tbody", None, rows))
    return h("div", {"class": "scroll"}, table)


def _pareto(view: View, pen: Draftsman, data: ParetoView) -> Markup | None:
    chart = pareto(pen, view, data)
    if chart is None and not data.missing:
        return None
    caption = (
        f"Quality against the time of a solved task, {data.title}: up and to the left is better; the area is the peak "
        "of memory, the line joins variants that no other one beats in both."
    )
    missing = (
        h("ul", {"class": "notes"}, [h("li", None, prose(text)) for text in data.missing]) if data.missing else None
    )
    figure = h("figure", {"class": "pareto"}, h("figcaption", None, caption), chart) if chart is not None else None
    return h("div", {"class": "cell"}, h("h3", None, "Quality against time"), figure, missing)


def price_of_resources(view: View) -> Markup | None:
    """Memory, start-up, energy and break-evens. Nothing where none of them is known."""
    price = view.price
    if price is None:
        return None
    found = [_table(title, table) for title, table in tables(price)]
    evens = h("ul", {"class": "notes"}, [h("li", None, prose(text)) for text in price.break_evens])
    if price.break_evens:
        found.append(h("div", {"class": "cell"}, h("h3", None, "Where they break even"), evens))
    if not found:
        return None
    lead = "Means over starts, with what engines and sensors tell; a number that nothing tells is not there."
    return section("price", "Memory, start-up, energy and cost", lead, found)


def _table(title: str, table: TableView) -> Markup:
    heads = [h("th", {"scope": "col", "class": "num" if i else None}, text) for i, text in enumerate(table.heads)]
    rows = [
        h(
            "tr",
            None,
            h("th", {"scope": "row", "class": "metric"}, row[0]),
            *(h("td", {"class": "num"}, cell) for cell in row[1:]),
        )
        for row in table.rows
    ]
    notes = h("ul", {"class": "notes"}, [h("li", None, prose(n)) for n in table.notes]) if table.notes else None
    return h("div", {"class": "cell"}, h("h3", None, title), _metrics(heads, rows), notes)
