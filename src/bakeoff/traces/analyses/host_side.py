"""The host: its threads, and what they did over the whole trace and while a device waited for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..gaps import HOST, device_gaps
from ..host_activity import ACTIVITIES, UNKNOWN_ACTIVITY, activity_ids, host_idle_ns
from ..intervals import length, union
from ..section import Column, Section
from ..timeline import Timeline
from ..words import counted
from .compiling import compiler_alone

_THREADS = 8


def host_side(timeline: Timeline) -> Section | None:
    """Each activity: its time on the host, and the device idle time that it explains. None for a compiler's log."""
    host = timeline.host
    if not len(host) or compiler_alone(timeline):
        return None
    ids = activity_ids(timeline)
    idle: dict[str, int] = {}
    devices = timeline.device_ids
    for device in devices:
        gaps = device_gaps(timeline, device)
        for name, ns in host_idle_ns(timeline, gaps, gaps.cause == HOST).items():
            idle[name] = idle.get(name, 0) + ns
    rows: list[dict[str, Any]] = []
    for index, (name, _, _) in enumerate(ACTIVITIES):
        mine = ids == index
        if mine.any():
            spent = sum(
                length(union(host.start[here], host.end[here]))
                for thread in np.unique(host.thread[mine])
                if len(here := np.flatnonzero(mine & (host.thread == thread)))
            )
            rows.append(
                {
                    "activity": name,
                    "events": int(mine.sum()),
                    "ms": spent / 1e6,
                    "idle_ms": idle.get(name, 0) / 1e6 if devices else None,
                }
            )
    if idle.get(UNKNOWN_ACTIVITY):
        rows.append({"activity": UNKNOWN_ACTIVITY, "events": 0, "ms": None, "idle_ms": idle[UNKNOWN_ACTIVITY] / 1e6})
    return Section(
        name="host",
        title="Host",
        counted=f"{counted(len(host), 'host event')} on {counted(len(timeline.threads), 'thread')}. "
        "On the host: union of an activity's ranges, summed over threads. "
        "Device waited: host-late idle time in which the launching thread did this.",
        data={"activities": rows, "threads": _threads(timeline)},
        columns=(
            Column(title="activity"),
            Column(title="events", kind="count"),
            Column(title="on the host", kind="ms"),
            Column(title="device waited", kind="ms"),
        ),
        rows=tuple((r["activity"], r["events"], r["ms"], r["idle_ms"]) for r in rows),
    )


def _threads(timeline: Timeline) -> list[dict[str, Any]]:
    """The threads that are busy longest."""
    host, gpu = timeline.host, timeline.gpu
    count = np.bincount(host.thread, minlength=len(timeline.threads))
    linked = gpu.launch[gpu.launch >= 0]
    launched = np.bincount(host.thread[linked], minlength=len(timeline.threads))
    found = []
    # The threads with most events are looked at; more would cost and tell nothing.
    for index in np.argsort(-count, kind="stable")[: 4 * _THREADS]:
        if not count[index]:
            continue
        mine = host.thread == index
        thread = timeline.threads[index]
        found.append(
            {
                "process": thread.process,
                "thread": thread.thread,
                "name": thread.name,
                "events": int(count[index]),
                "busy_ms": length(union(host.start[mine], host.end[mine])) / 1e6,
                "launched_gpu_events": int(launched[index]),
            }
        )
    found.sort(key=lambda row: -row["busy_ms"])
    return found[:_THREADS]
