"""How the numbers of a trace report are written: one place for the terminal and the page."""

from __future__ import annotations

from ..traces.section import Cell
from ..units import quantity, size

_CAUSE_TEXT = {
    "host": "the launch call came late",
    "launch": "launched in time, on its way to the device",
    "dependency": "waited for another stream, an event or communication",
    "graph": "between events replayed from graphs",
    "unknown": "no launch on record, or nothing that explains it",
}


def cause_text(cause: str) -> str:
    """What a cause of idle time means, in a few words."""
    return _CAUSE_TEXT.get(cause, "")


def milliseconds(value: float | None) -> str:
    """``383 ms``, ``1.73 s``, ``3.2 µs``: scaled for reading."""
    if value is None:
        return "–"
    return quantity(value / 1e3, "s") if value else "0 ms"


def percent(value: float | None) -> str:
    """``39.4 %``; two digits after the point below 10 %, where differences are small."""
    if value is None:
        return "–"
    return f"{value:.1f} %" if abs(value) >= 10 else f"{value:.2f} %"


def cell_text(value: Cell, kind: str) -> str:
    """A table's cell according to its column's kind (see `Column`)."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if kind == "ms":
        return milliseconds(float(value))
    if kind == "us":
        return milliseconds(float(value) / 1e3)
    if kind == "percent":
        return percent(float(value))
    if kind == "bytes":
        return size(float(value))
    if kind == "count":
        return f"{value:,.0f}"
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
