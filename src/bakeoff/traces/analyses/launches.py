"""Launch delay, queue length, and launches through graphs against launches one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..gaps import launch_latency_ns
from ..section import Column, Section
from ..timeline import GpuKind, Timeline

if TYPE_CHECKING:
    from numpy.typing import NDArray


def launch_delays(timeline: Timeline, device: int) -> NDArray[np.int64]:
    """Kernel start − end of its launch call, ns, signed: a kernel may start before its launch returns.

    Eager launches only: the kernels of a graph share one launch, which says nothing about each of them.
    """
    gpu, host = timeline.gpu, timeline.host
    mine = np.flatnonzero((gpu.device == device) & (gpu.launch >= 0) & (gpu.graph < 0))
    return gpu.start[mine] - host.end[gpu.launch[mine]]


def queue_length(timeline: Timeline, device: int) -> tuple[float, int]:
    """(mean over time, maximum) of launches made whose work has not begun: +1 at a launch's start, −1 at the work's."""
    gpu, host = timeline.gpu, timeline.host
    mine = np.flatnonzero((gpu.device == device) & (gpu.launch >= 0) & (gpu.graph < 0))
    if not len(mine):
        return 0.0, 0
    called, begun = host.start[gpu.launch[mine]], gpu.start[mine]
    times = np.concatenate((called, np.maximum(begun, called)))
    change = np.repeat(np.array([1, -1]), len(mine))
    order = np.lexsort((change, times))  # what begins at the moment of a launch leaves the queue first
    length = np.cumsum(change[order])
    lasting = np.diff(times[order])
    whole = int(times.max() - times.min())
    mean = float((length[:-1] * lasting).sum()) / whole if whole else 0.0
    return mean, int(length.max())


def launches(timeline: Timeline) -> Section | None:
    """Delay and queue for each device."""
    rows: list[dict[str, Any]] = []
    for device in timeline.device_ids:
        delay = launch_delays(timeline, device)
        if not len(delay):
            continue
        mean, most = queue_length(timeline, device)
        low, median, high = np.quantile(delay, [0.1, 0.5, 0.9]) / 1e3
        rows.append(
            {
                "device": device,
                "launches": len(delay),
                "delay_us": {
                    "min": float(delay.min()) / 1e3,
                    "p10": float(low),
                    "p50": float(median),
                    "p90": float(high),
                    "max": float(delay.max()) / 1e3,
                    "mean": float(delay.mean()) / 1e3,
                },
                "before_return": int((delay < 0).sum()),
                "queue_mean": mean,
                "queue_max": most,
            }
        )
    if not rows:
        return None
    latency = launch_latency_ns(timeline)
    return Section(
        name="launches",
        title="Launches",
        counted="Delay = work's start − end of its launch call, signed; eager launches with a known call. Queue: +1 at "
        "a launch's start, −1 at its work's start.",
        data={"devices": rows, "launch_latency_us": latency / 1e3},
        columns=(
            Column(title="device", kind="count"),
            Column(title="launches", kind="count"),
            Column(title="delay p10", kind="us"),
            Column(title="median", kind="us"),
            Column(title="p90", kind="us"),
            Column(title="before return", kind="count"),
            Column(title="queue mean", kind="number"),
            Column(title="max", kind="count"),
        ),
        rows=tuple(
            (
                r["device"],
                r["launches"],
                r["delay_us"]["p10"],
                r["delay_us"]["p50"],
                r["delay_us"]["p90"],
                r["before_return"],
                r["queue_mean"],
                r["queue_max"],
            )
            for r in rows
        ),
        notes=(f"gaps up to {latency / 1e3:.1f} µs count as launch latency (90 % of launches arrive within it)",),
    )


def graphs(timeline: Timeline) -> Section | None:
    """How much of the work was replayed from graphs; None when nothing was."""
    gpu = timeline.gpu
    replayed = gpu.graph >= 0
    if not replayed.any():
        return None
    spent = gpu.end - gpu.start
    rows = []
    for label, mine in (("replayed from graphs", replayed), ("launched one by one", ~replayed)):
        launch = gpu.launch[mine]
        calls = len(np.unique(gpu.correlation[mine][gpu.correlation[mine] >= 0]))
        rows.append(
            {
                "how": label,
                "gpu_events": int(mine.sum()),
                "kernels": int((mine & (gpu.kind == GpuKind.KERNEL)).sum()),
                "ms": float(spent[mine].sum()) / 1e6,
                "calls": calls,
                "seen_calls": len(np.unique(launch[launch >= 0])),
            }
        )
    return Section(
        name="graphs",
        title="Graphs",
        counted="GPU events by how they were launched; calls = different launch numbers.",
        data={"rows": rows},
        columns=(
            Column(title="how"),
            Column(title="GPU events", kind="count"),
            Column(title="kernels", kind="count"),
            Column(title="total", kind="ms"),
            Column(title="calls", kind="count"),
        ),
        rows=tuple((r["how"], r["gpu_events"], r["kernels"], r["ms"], r["calls"]) for r in rows),  # type: ignore[misc]
    )
