"""Compilations, recompilations and graph breaks."""

from __future__ import annotations

from typing import Any

from ..section import Column, Section
from ..timeline import Timeline

_SHOWN = 12


def compiling(timeline: Timeline) -> Section | None:
    """What the compiler did, where the trace says: by kind, and the costliest events with their reasons."""
    events = timeline.compiles
    if not events:
        return None
    kinds: dict[str, dict[str, Any]] = {}
    for event in events:
        entry = kinds.setdefault(event.kind, {"count": 0, "seconds": 0.0})
        entry["count"] += 1
        entry["seconds"] += event.seconds or 0.0
    costly = sorted(events, key=lambda e: (-(e.seconds or 0.0), e.frame))[:_SHOWN]
    listed = [{"kind": e.kind, "frame": e.frame[:200], "reason": e.reason[:400], "seconds": e.seconds} for e in costly]
    return Section(
        name="compiling",
        title="Compiling",
        counted=", ".join(f"{entry['count']} × {kind}" for kind, entry in kinds.items()),
        data={"kinds": kinds, "events": listed, "recompiles": kinds.get("recompile", {}).get("count", 0)},
        columns=(
            Column(title="what"),
            Column(title="where"),
            Column(title="time", kind="ms"),
            Column(title="reason"),
        ),
        rows=tuple(
            (e["kind"], e["frame"], None if e["seconds"] is None else 1e3 * e["seconds"], e["reason"][:120])  # type: ignore[operator,index]
            for e in listed
        ),
    )
