"""A trace report as text: where the device's time went first, then one table an analysis, then what to know."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import printable
from ..traces.breakdown import DeviceTimes, TraceReport
from ..traces.section import Section
from ..traces.words import counted
from .lines import columns, fit, wrap
from .trace_cells import cause_text, cell_text, milliseconds, percent

_BAR = 24
_LEAST_PCT = 0.005  # parts below this are left out: they would read 0.00 %
_TEXT_CELL = 44


def render_trace(report: TraceReport, *, color: bool, width: int = 100, full: bool = False) -> str:
    """The report, at most ``width`` columns wide where its tables allow it; ends with a line end.

    full: also what was counted, below each table, and analyses that found little.
    """
    page = _Page(color=color, width=max(60, width))
    parts = [page.title(report)]
    if report.devices:
        parts.append(page.time(report.total if len(report.devices) > 1 else report.devices[0], len(report.devices)))
        if len(report.devices) > 1:
            parts.append(page.devices(report.devices))
        parts.append(page.categories(report.total))
    parts += [page.section(section, full=full) for section in report.sections]
    parts.append(page.notes(report.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


class _Page:
    def __init__(self, *, color: bool, width: int) -> None:
        self._color = color
        self._width = width

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color and text else text

    def _bold(self, text: str) -> str:
        return self._paint(text, "1")

    def title(self, report: TraceReport) -> str:
        names = list(dict.fromkeys(device.name for device in report.devices if device.name))
        facts = [report.format, *names]
        if len(report.devices) > 1:
            facts.append(f"{len(report.devices)} devices")
        if report.rank is not None:
            facts.append(f"rank {report.rank}" + (f" of {report.world_size}" if report.world_size else ""))
        if report.steps:
            facts.append(counted(report.steps, "step"))
        if report.total.gpu_events:
            facts.append(counted(report.total.gpu_events, "GPU event"))
        facts.append(counted(report.host_events, "host event"))
        lines = [self._bold(fit(printable(report.source) or "trace", self._width))]
        lines += [self._paint(line, "2") for line in wrap(printable(" · ".join(facts)), self._width)]
        return "\n".join(lines)

    def time(self, times: DeviceTimes, devices: int) -> str:
        """Span, busy, idle and its causes."""
        span = times.span_ms
        rows = [
            ("span", milliseconds(span), "", "first GPU event's start to the last one's end"),
            ("busy", milliseconds(times.busy_ms), _part(times.busy_ms, span), "kernels, copies and memsets, a union"),
            ("idle", milliseconds(times.idle_ms), percent(times.idle_pct), ""),
        ]
        for cause, spent in sorted(times.idle_ms_by_cause.items(), key=lambda item: -item[1]):
            if span and 100 * spent / span >= _LEAST_PCT:
                what = f"{counted(times.idle_gaps_by_cause[cause], 'gap')}: {cause_text(cause)}"
                rows.append((f"  {cause}", milliseconds(spent), _part(spent, span), what))
                if cause == "host":
                    rows += self._activities(times, span)
        rows.append(("efficiency", "", percent(times.efficiency_pct), "union of kernels ÷ span"))
        if times.communication_ms:
            told = f"{percent(times.overlap_pct)} of it overlapped by computing"
            rows.append(
                ("communication", milliseconds(times.communication_ms), _part(times.communication_ms, span), told)
            )
        head = "Time of the device" if devices == 1 else f"Time of {devices} devices, summed"
        return "\n".join([self._bold(head), *self._aligned(rows)])

    def _activities(self, times: DeviceTimes, span: float) -> list[tuple[str, str, str, str]]:
        """What the late host was doing."""
        found = sorted(times.host_idle_ms_by_activity.items(), key=lambda item: -item[1])
        return [
            (f"    {name}", milliseconds(spent), _part(spent, span), "")
            for name, spent in found
            if span and 100 * spent / span >= _LEAST_PCT
        ]

    def devices(self, devices: Sequence[DeviceTimes]) -> str:
        """One line a device."""
        rows = [("device", "span", "busy", "idle", "host late", "GPU events")]
        rows += [
            (
                str(device.device),
                milliseconds(device.span_ms),
                milliseconds(device.busy_ms),
                percent(device.idle_pct),
                milliseconds(device.idle_ms_by_cause["host"]),
                f"{device.gpu_events:,}",
            )
            for device in devices
        ]
        return "\n".join([self._bold("Devices"), *_table(rows, "rrrrrr", self._width)])

    def categories(self, total: DeviceTimes) -> str:
        """Kernel time by category, with bars."""
        if not total.kernel_ms:
            return ""
        rows = []
        for name, spent in sorted(total.kernel_ms_by_category.items(), key=lambda item: -item[1]):
            share = spent / total.kernel_ms
            if 100 * share >= _LEAST_PCT:
                rows.append((f"  {name}", milliseconds(spent), percent(100 * share), "█" * max(1, round(share * _BAR))))
        head = f"{self._bold('Kernels by category')}   sums of durations: {milliseconds(total.kernel_ms)}"
        return "\n".join([head, *self._aligned(rows)])

    def _aligned(self, rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
        """Name, amount, share, remark; the remark gives way where the terminal is narrow."""
        widths = [max(columns(row[k]) for row in rows) for k in range(3)]
        lines = []
        for name, amount, share, remark in rows:
            line = f"  {name:<{widths[0]}}  {amount:>{widths[1]}}  {share:>{widths[2]}}"
            room = self._width - columns(line) - 3
            lines.append(f"{line}   {fit(remark, room)}".rstrip() if room > 8 else line.rstrip())
        return lines

    def section(self, section: Section, *, full: bool) -> str:
        """A section's table."""
        if not section.rows and not full:
            return ""
        lines = [self._bold(section.title)]
        if section.rows:
            heads = tuple(column.title for column in section.columns)
            body = [
                tuple(
                    fit(printable(cell_text(value, column.kind)), _TEXT_CELL)
                    for value, column in zip(row, section.columns, strict=True)
                )
                for row in section.rows
            ]
            sides = "".join("l" if column.kind == "text" else "r" for column in section.columns)
            lines += _table([heads, *body], sides, self._width)
        remarks = [*section.notes, *([section.counted] if full else [])]
        for remark in remarks:
            lines += [self._paint(f"  {line}", "2") for line in wrap(printable(remark), self._width - 2)]
        return "\n".join(lines)

    def notes(self, notes: Sequence[str]) -> str:
        """What a reader must know to trust the numbers."""
        lines: list[str] = []
        for note in notes:
            lines += wrap(f"Note   {printable(note)}", self._width, indent=7)
        return "\n".join(lines)


def _part(value: float, whole: float) -> str:
    return percent(100 * value / whole) if whole else "–"


def _table(rows: Sequence[tuple[str, ...]], sides: str, width: int) -> list[str]:
    """Aligned rows under two spaces; the widest text column gives way until the table fits."""
    widths = [max(columns(row[k]) for row in rows) for k in range(len(sides))]
    texts = [k for k, side in enumerate(sides) if side == "l"]
    while texts and 2 + sum(widths) + 2 * (len(widths) - 1) > width:
        widest = max(texts, key=lambda k: widths[k])
        if widths[widest] <= 12:
            break
        widths[widest] -= 1
    lines = []
    for row in rows:
        cells = []
        for text, side, room in zip(row, sides, widths, strict=True):
            shown = fit(text, room)
            padding = " " * (room - columns(shown))
            cells.append(shown + padding if side == "l" else padding + shown)
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines
