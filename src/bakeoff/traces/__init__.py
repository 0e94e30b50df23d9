"""Traces: profiles of any common origin, read into one Timeline, and what they say about time.

::

    from bakeoff import traces

    timeline = traces.read("profile.json.gz")
    report = traces.analyse(timeline)
    report.total.idle_ms_by_cause["host"]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Limits", "Timeline", "TraceError", "TraceReport", "analyse", "read"]

if TYPE_CHECKING:
    from .breakdown import TraceReport, analyse
    from .limits import Limits, TraceError
    from .reading import read
    from .timeline import Timeline

_HOMES = {
    "Limits": "limits",
    "Timeline": "timeline",
    "TraceError": "limits",
    "TraceReport": "breakdown",
    "analyse": "breakdown",
    "read": "reading",
}


def __getattr__(name: str) -> Any:
    """Public names are imported on first use (PEP 562)."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
