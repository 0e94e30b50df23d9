"""Each marked step by itself."""

from __future__ import annotations

from typing import Any

from ..busy import busy_union, step_windows
from ..gaps import device_gaps
from ..intervals import length
from ..section import Column, Section
from ..timeline import Timeline

_SHOWN = 12


def steps(timeline: Timeline) -> Section | None:
    """Span, busy and idle of each step on each device."""
    rows: list[dict[str, Any]] = []
    for device in timeline.device_ids:
        for number, start, end in step_windows(timeline, device):
            window = (start, end)
            busy = length(busy_union(timeline, device, window))
            causes = device_gaps(timeline, device, window).ns_by_cause()
            rows.append(
                {
                    "device": device,
                    "step": number,
                    "start_ms": (start - int(timeline.gpu.start[0])) / 1e6,
                    "span_ms": (end - start) / 1e6,
                    "busy_ms": busy / 1e6,
                    "idle_pct": 100 * (1 - busy / (end - start)) if end > start else 0.0,
                    "idle_ms_by_cause": {cause: ns / 1e6 for cause, ns in causes.items()},
                }
            )
    if not rows:
        return None
    left_out = len(rows) - _SHOWN
    return Section(
        name="steps",
        title="Steps",
        counted="A step runs from the first GPU event launched in it to the first of the next one; the last one to the "
        "end of its own work.",
        data={"steps": rows},
        columns=(
            Column(title="step", kind="count"),
            Column(title="device", kind="count"),
            Column(title="span", kind="ms"),
            Column(title="busy", kind="ms"),
            Column(title="idle", kind="percent"),
            Column(title="host late", kind="ms"),
        ),
        rows=tuple(
            (r["step"], r["device"], r["span_ms"], r["busy_ms"], r["idle_pct"], r["idle_ms_by_cause"]["host"])
            for r in rows[:_SHOWN]
        ),
        notes=(f"{left_out} more in --json",) if left_out > 0 else (),
    )
