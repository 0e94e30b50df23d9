"""Operators by the GPU time that they caused, and how long they take to get a kernel going."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..section import Column, Section
from ..timeline import Timeline

_TOP = 10


def op_kernels(timeline: Timeline) -> Section | None:
    """Per operator: calls, GPU events, GPU time; time from its start to its first launch, from there to the work."""
    gpu, host = timeline.gpu, timeline.host
    linked = np.flatnonzero(gpu.op >= 0)
    if not len(linked):
        return None
    op, name = gpu.op[linked], host.name[gpu.op[linked]]
    width = len(timeline.names)
    spent = np.bincount(name, (gpu.end - gpu.start)[linked].astype(float), width)
    events = np.bincount(name, minlength=width)
    # Of each call the GPU event that was launched first.
    launched = linked[gpu.launch[linked] >= 0]
    called = host.start[gpu.launch[launched]]
    order = np.lexsort((called, gpu.op[launched]))
    calls, first = np.unique(gpu.op[launched][order], return_index=True)
    one = launched[order][first]
    called = host.start[gpu.launch[one]]
    of_call = host.name[calls]
    count = np.bincount(host.name[np.unique(op)], minlength=width)
    timed = np.maximum(np.bincount(of_call, minlength=width), 1)
    to_launch = np.bincount(of_call, (called - host.start[calls]).astype(float), width) / timed
    to_work = np.bincount(of_call, (gpu.start[one] - called).astype(float), width) / timed
    whole = float((gpu.end - gpu.start).sum()) or 1.0
    ranked = sorted(np.flatnonzero(events).tolist(), key=lambda index: (-spent[index], timeline.names[index]))
    rows: list[dict[str, Any]] = [
        {
            "operator": timeline.names[index][:200],
            "calls": int(count[index]),
            "gpu_events": int(events[index]),
            "gpu_ms": float(spent[index]) / 1e6,
            "share_pct": 100 * float(spent[index]) / whole,
            "to_launch_us": float(to_launch[index]) / 1e3,
            "launch_to_work_us": float(to_work[index]) / 1e3,
        }
        for index in ranked[:_TOP]
    ]
    return Section(
        name="op_kernels",
        title="Operators by GPU time",
        counted=f"{len(linked):,} of {len(gpu):,} GPU events have a known operator, the innermost one. Share is of all "
        "GPU time. Means over calls: operator's start to its first launch, that launch's start to its work.",
        data={"top": rows, "linked_gpu_events": len(linked)},
        columns=(
            Column(title="operator"),
            Column(title="calls", kind="count"),
            Column(title="GPU events", kind="count"),
            Column(title="GPU time", kind="ms"),
            Column(title="share", kind="percent"),
            Column(title="to launch", kind="us"),
            Column(title="launch to work", kind="us"),
        ),
        rows=tuple(
            (
                row["operator"],
                row["calls"],
                row["gpu_events"],
                row["gpu_ms"],
                row["share_pct"],
                row["to_launch_us"],
                row["launch_to_work_us"],
            )
            for row in rows
        ),
    )
