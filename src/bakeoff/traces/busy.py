"""What a device was busy with: unions of its events, and a division of its busy time that adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .categories import CATEGORIES, COMM, category_ids
from .intervals import clipped, union
from .timeline import GpuKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .intervals import Union
    from .timeline import Timeline

Window = tuple[int, int]


def span_window(timeline: Timeline, device: int) -> Window:
    """(first start, last end) of the device's events, ns. The device must have some."""
    memo, key = timeline.memo, f"span {device}"
    if key not in memo:
        gpu = timeline.gpu
        mine = gpu.device == device
        memo[key] = int(gpu.start[mine].min()), int(gpu.end[mine].max())
    window: Window = memo[key]
    return window


def busy_union(timeline: Timeline, device: int, window: Window | None = None) -> Union:
    """Union of kernels, copies and memsets."""
    return clipped(_whole(timeline, device, "busy"), window)


def kernel_union(timeline: Timeline, device: int, window: Window | None = None) -> Union:
    """Union of kernels alone."""
    return clipped(_whole(timeline, device, "kernels"), window)


def comm_union(timeline: Timeline, device: int, window: Window | None = None) -> Union:
    """Union of communication kernels."""
    return clipped(_whole(timeline, device, "comm"), window)


def compute_union(timeline: Timeline, device: int, window: Window | None = None) -> Union:
    """Union of kernels that are not communication."""
    return clipped(_whole(timeline, device, "compute"), window)


def _whole(timeline: Timeline, device: int, what: str) -> Union:
    """A device's union, made once: windows are cut out of it."""
    memo, key = timeline.memo, f"union {what} {device}"
    if key not in memo:
        gpu = timeline.gpu
        chosen = gpu.device == device
        if what != "busy":
            comm = category_ids(timeline) == CATEGORIES.index(COMM)
            chosen &= {"kernels": gpu.kind == GpuKind.KERNEL, "comm": comm}.get(
                what, (gpu.kind == GpuKind.KERNEL) & ~comm
            )
        memo[key] = union(gpu.start[chosen], gpu.end[chosen])
    found: Union = memo[key]
    return found


def _union(timeline: Timeline, chosen: NDArray[np.bool_], window: Window | None) -> Union:
    gpu = timeline.gpu
    return clipped(union(gpu.start[chosen], gpu.end[chosen]), window)


def busy_ns_by_category(timeline: Timeline, device: int, window: Window | None = None) -> dict[str, int]:
    """Busy time divided among the categories so that it sums to the busy union (to rounding): time in which k
    categories ran at once counts 1/k for each. Copies and memsets are ``copy``."""
    gpu, ids = timeline.gpu, category_ids(timeline)
    mine = gpu.device == device
    present = [int(i) for i in np.unique(ids[mine])]
    unions = [_union(timeline, mine & (ids == i), window) for i in present]
    if not unions:
        return {}
    times = np.concatenate([edge for pair in unions for edge in pair])
    row = np.concatenate([np.full(2 * len(pair[0]), r, np.int64) for r, pair in enumerate(unions)])
    sign = np.concatenate([np.repeat(np.array([1, -1], np.int8), len(pair[0])) for pair in unions])
    order = np.argsort(times, kind="stable")
    times = times[order]
    steps = np.zeros((len(unions), len(times)), np.int8)
    steps[row[order], np.arange(len(times))] = sign[order]
    active = np.cumsum(steps, axis=1, dtype=np.int8)[:, :-1]
    lasting = np.diff(times)
    share = lasting / np.maximum(active.sum(axis=0), 1)
    return {CATEGORIES[i]: round(float((active[r] * share).sum())) for r, i in enumerate(present)}


def step_windows(timeline: Timeline, device: int) -> list[tuple[int, int, int]]:
    """(step's number, start, end) on the device's timeline, ns; the windows follow each other without a hole.

    A step's work is what was launched while the step was open on the host; its window goes from the first of it to the
    first of the next step's, the last one to the end of its own work. Steps without any work on the device are left
    out. Work without a known launch falls to whatever window it lies in.
    """
    gpu, host, steps = timeline.gpu, timeline.host, timeline.steps
    mine = np.flatnonzero((gpu.device == device) & (gpu.launch >= 0))
    if not len(steps) or not len(mine):
        return []
    called = host.start[gpu.launch[mine]]
    step = np.searchsorted(steps.start, called, "right") - 1
    inside = (step >= 0) & (called <= steps.end[step])
    work, step = mine[inside], step[inside]
    starts = np.full(len(steps), np.iinfo(np.int64).max)
    ends = np.full(len(steps), np.iinfo(np.int64).min)
    np.minimum.at(starts, step, gpu.start[work])
    np.maximum.at(ends, step, gpu.end[work])
    found = [(int(steps.number[k]), int(starts[k]), int(ends[k])) for k in np.unique(step)]
    found.sort(key=lambda window: window[1])
    return [
        (number, start, found[k + 1][1] if k + 1 < len(found) else end) for k, (number, start, end) in enumerate(found)
    ]
