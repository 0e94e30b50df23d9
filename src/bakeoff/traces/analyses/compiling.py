"""Compilations, recompilations and graph breaks; the phases that a compiler's log times."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..section import Column, Section
from ..timeline import HostKind, Timeline

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
        counted=", ".join(f"{entry['count']} × {kind}" for kind, entry in kinds.items())
        + "; each with the whole time that the model waited for it",
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


def compiler_alone(timeline: Timeline) -> bool:
    """Whether the host's events are phases of a compiler and nothing else: a log, no profile."""
    return bool(timeline.compiles) and not len(timeline.gpu) and bool((timeline.host.kind == HostKind.ANNOTATION).all())


def phases(timeline: Timeline) -> Section | None:
    """The compiler's phases by name, longest first."""
    host = timeline.host
    if not len(host) or not compiler_alone(timeline):
        return None
    spent = np.bincount(host.name, (host.end - host.start).astype(float), len(timeline.names))
    events = np.bincount(host.name, minlength=len(timeline.names))
    order = [int(i) for i in np.argsort(-spent, kind="stable") if events[i]]
    rows = tuple((timeline.names[i], int(events[i]), float(spent[i]) / 1e6) for i in order)
    return Section(
        name="phases",
        title="Compiler phases",
        counted="Sums of a phase's ranges. Phases nest: one holds the time of those within it, so they do not add up; "
        "those of worker processes (compile_file) run beside the compilation that waits for them.",
        data={"phases": [{"phase": name, "events": count, "ms": ms} for name, count, ms in rows]},
        columns=(Column(title="phase"), Column(title="events", kind="count"), Column(title="time", kind="ms")),
        rows=rows[:_SHOWN],
        notes=(f"phases nest: they do not add up{_more(len(rows))}",),
    )


def _more(count: int) -> str:
    return f"; {count - _SHOWN} shorter ones are left out" if count > _SHOWN else ""
