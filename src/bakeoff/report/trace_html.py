"""A trace report as one self-contained page: static SVG, no script, nothing fetched, everything escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..traces.breakdown import DeviceTimes, TraceReport
from ..traces.section import Section
from ..traces.words import counted
from .html_element import Markup, h
from .html_page import page
from .trace_cells import cause_text, cell_text, milliseconds, percent

_COLORS = 6
_WIDTH, _HEIGHT = 1000, 34
_NAME, _SHORT = 90, 16
_OPEN_ROWS = 6
_ALWAYS_OPEN = "kernels"
_SWATCH = "display:inline-block;width:.7rem;height:.7rem;margin-right:.3rem;border-radius:.15rem;"


def render_trace_html(report: TraceReport) -> str:
    """The page."""
    title = f"{report.source or 'trace'} · trace"
    shown = [_device(device) for device in report.devices]
    return page(
        title,
        _hero(report),
        h("main", None, _notes(report.notes), shown, [_section(section) for section in report.sections]),
        h("footer", None, f"Bakeoff · {report.format}"),
        body_class="trace",
    )


def _hero(report: TraceReport) -> Markup:
    total = report.total
    if report.devices:
        cause, worst = max(total.idle_ms_by_cause.items(), key=lambda item: item[1])
        headline = f"The device was idle {percent(total.idle_pct)} of {milliseconds(total.span_ms)}"
        reason = f"Most of it, {milliseconds(worst)}, by cause {cause}: {cause_text(cause)}." if worst else ""
    else:
        headline, reason = _without_gpu(report), ""
    facts = [report.format, *dict.fromkeys(device.name for device in report.devices if device.name)]
    numbers = ((total.gpu_events, "GPU event"), (report.host_events, "host event"), (report.steps, "step"))
    facts += [counted(number, noun) for number, noun in numbers if number]
    if report.rank is not None:
        facts.append(f"rank {report.rank}")
    return h(
        "header",
        {"class": "hero"},
        h("p", {"class": "eyebrow"}, h("b", None, "Bakeoff"), " · trace · ", report.source),
        h("h1", {"class": "long"}, headline),
        h("ul", {"class": "reasons"}, h("li", None, reason)) if reason else None,
        h("ul", {"class": "facts"}, [h("li", None, fact) for fact in facts]),
    )


def _without_gpu(report: TraceReport) -> str:
    compiling = report.section("compiling")
    if compiling is None or report.section("phases") is None:
        return "No GPU events: the host's side alone"
    seconds = sum(kind["seconds"] for kind in compiling.data["kinds"].values())
    return f"Compiling took {milliseconds(1e3 * seconds)}"


def _notes(notes: Sequence[str]) -> Markup | None:
    if not notes:
        return None
    return h(
        "section",
        {"id": "notes"},
        h("h2", None, "What to know"),
        h("ul", {"class": "warnings"}, [h("li", {"class": "note"}, note) for note in notes]),
    )


def _device(times: DeviceTimes) -> Markup:
    """One device: a bar of its span, a bar of its kernel time, and the figures of both."""
    busy_and_idle = {"busy": times.busy_ms, **{f"idle: {k}": v for k, v in times.idle_ms_by_cause.items() if v}}
    rows = [
        ("span", times.span_ms, None, "first GPU event's start to the last one's end"),
        ("busy", times.busy_ms, times.span_ms, "union of kernels, copies and memsets"),
        ("idle", times.idle_ms, times.span_ms, ""),
        *((f"idle: {k}", v, times.span_ms, cause_text(k)) for k, v in times.idle_ms_by_cause.items() if v),
        *((f"host late: {k}", v, times.span_ms, "") for k, v in times.host_idle_ms_by_activity.items() if v),
        ("union of kernels", times.kernel_union_ms, times.span_ms, "computational efficiency"),
    ]
    body = [
        h(
            "tr",
            None,
            h("th", {"scope": "row"}, name),
            h("td", {"class": "n"}, milliseconds(ms)),
            h("td", {"class": "n"}, _of(ms, whole)),
            h("td", {"class": "remark"}, text),
        )
        for name, ms, whole, text in rows
    ]
    ranked = dict(sorted(times.kernel_ms_by_category.items(), key=lambda item: -item[1]))
    return h(
        "section",
        {"id": f"device-{times.device}"},
        h("h2", None, f"Device {times.device}", f" · {times.name}" if times.name else None),
        _bar(busy_and_idle, f"Time of device {times.device}"),
        h("div", {"class": "scroll"}, h("table", {"class": "plain times"}, h("tbody", None, body))),
        h("h3", None, f"Kernels by category: {milliseconds(times.kernel_ms)} summed"),
        _bar(ranked, "Kernel time by category"),
    )


def _of(part: float, whole: float | None) -> str:
    return percent(100 * part / whole) if whole else ""


def _bar(parts: Mapping[str, float], title: str) -> Markup | None:
    """A stacked bar with its legend; the parts in the order given."""
    total = sum(parts.values())
    if total <= 0:
        return None
    shapes, legend, at = [], [], 0.0
    for index, (name, value) in enumerate(parts.items()):
        width = _WIDTH * value / total
        color = f"var(--arm-{index % _COLORS})"
        # The round of colours starts anew after six: the second round is paler.
        opacity = "1" if index < _COLORS else "0.45"
        shapes.append(
            h(
                "rect",
                {
                    "x": f"{at:.2f}",
                    "y": "0",
                    "width": f"{width:.2f}",
                    "height": str(_HEIGHT),
                    "fill": color,
                    "opacity": opacity,
                },
                h("title", None, f"{name}: {milliseconds(value)}, {percent(100 * value / total)}"),
            )
        )
        legend.append(
            h(
                "li",
                None,
                h("span", {"style": f"{_SWATCH}background:{color};opacity:{opacity}", "aria-hidden": "true"}),
                f" {name} {milliseconds(value)} · {percent(100 * value / total)}",
            )
        )
        at += width
    drawing = h(
        "svg",
        {
            "class": "chart",
            "role": "img",
            "viewBox": f"0 0 {_WIDTH} {_HEIGHT}",
            "preserveAspectRatio": "none",
            "height": str(_HEIGHT),
        },
        h("title", None, title),
        shapes,
    )
    return h("figure", None, drawing, h("ul", {"class": "facts"}, legend))


def _section(section: Section) -> Markup | None:
    """A table; a long one is folded away under its title, save for the kernels, which is what one looks for."""
    if not section.rows:
        return None
    kinds = ["text" if column.kind == "text" else "n" for column in section.columns]
    heads = [
        h("th", {"scope": "col", "class": kind}, column.title)
        for column, kind in zip(section.columns, kinds, strict=True)
    ]
    body = [
        h(
            "tr",
            None,
            [
                _cell(cell_text(value, column.kind), kind)
                for value, column, kind in zip(row, section.columns, kinds, strict=True)
            ],
        )
        for row in section.rows
    ]
    content = (
        h("p", {"class": "about"}, section.counted),
        h(
            "div",
            {"class": "scroll"},
            h("table", {"class": "plain"}, h("thead", None, h("tr", None, heads)), h("tbody", None, body)),
        ),
        [h("p", {"class": "about"}, note) for note in section.notes],
    )
    if len(section.rows) <= _OPEN_ROWS:
        return h("section", {"id": section.name}, h("h2", None, section.title), content)
    summary = h("summary", None, section.title, h("span", None, f" · {len(section.rows)} rows"))
    return h("details", {"class": "fold", "id": section.name, "open": section.name == _ALWAYS_OPEN}, summary, content)


def _cell(text: str, kind: str) -> Markup:
    """A long text (a kernel's name) is cut; the whole one is its title."""
    if kind == "text" and len(text) > _SHORT:
        kind = "text long"
    if len(text) <= _NAME:
        return h("td", {"class": kind}, text)
    return h("td", {"class": kind, "title": text}, f"{text[:_NAME]}…")
