"""Idle gaps of a device, and why each one is there.

A gap is time in which no kernel, copy or memset ran on any stream of the device. What ended it, the next GPU event,
tells the cause:

- ``host``: its launch call began only after the gap had begun: the host was late;
- ``graph``: the gap lies between two events replayed from graphs;
- ``launch``: the launch call was already made, and the gap is shorter than a launch takes to arrive;
- ``dependency``: the launch was made long ago, and the work waited for another stream, an event or communication;
- ``unknown``: the launch is not in the trace, or nothing recorded explains the wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .busy import span_window
from .categories import CATEGORIES, COMM, category_ids
from .intervals import touching
from .timeline import WaitKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .timeline import Timeline

CAUSES = ("host", "launch", "dependency", "graph", "unknown")
HOST, LAUNCH, DEPENDENCY, GRAPH, UNKNOWN = range(len(CAUSES))

# When a trace has too few launches onto an idle device to measure their latency. Measured ones lie between 4 and 20 µs.
_USUAL_LATENCY_NS = 10_000
_LATENCY_BOUNDS_NS = (2_000, 100_000)
_ENOUGH = 20


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """Idle gaps in order of time. Columns of equal length.

    before, after: indices into GpuEvents of what ended last before the gap and what ended it; −1 at a window's edge.
    cause: index into CAUSES.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    cause: NDArray[np.int8]
    before: NDArray[np.int32]
    after: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start)

    def ns_by_cause(self) -> dict[str, int]:
        """Total length of the gaps of each cause."""
        length = self.end - self.start
        return {name: int(length[self.cause == index].sum()) for index, name in enumerate(CAUSES)}

    def count_by_cause(self) -> dict[str, int]:
        """Number of the gaps of each cause."""
        return {name: int((self.cause == index).sum()) for index, name in enumerate(CAUSES)}


def device_gaps(timeline: Timeline, device: int, window: tuple[int, int] | None = None) -> Gaps:
    """The idle gaps of a device; inside a window (start, end in ns) its edges bound gaps as well."""
    key = f"gaps {device}"
    if key not in timeline.memo:
        timeline.memo[key] = _all_gaps(timeline, device)
    whole: Gaps = timeline.memo[key]
    if window is None:
        return whole
    return _inside(timeline, device, whole, window)


def launch_latency_ns(timeline: Timeline) -> int:
    """How long a launch takes to arrive: the 90 % quantile over launches onto an idle device; bounded, see above."""
    if "launch latency" not in timeline.memo:
        samples = [_latencies(timeline, device) for device in timeline.device_ids]
        found = np.concatenate(samples) if samples else np.empty(0, np.int64)
        usual = int(np.quantile(found, 0.9)) if len(found) >= _ENOUGH else _USUAL_LATENCY_NS
        timeline.memo["launch latency"] = min(max(usual, _LATENCY_BOUNDS_NS[0]), _LATENCY_BOUNDS_NS[1])
    value: int = timeline.memo["launch latency"]
    return value


def _edges(timeline: Timeline, device: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(what ended last before each gap, what ended the gap): indices into GpuEvents."""
    gpu = timeline.gpu
    mine = np.flatnonzero(gpu.device == device)
    start, end = gpu.start[mine], gpu.end[mine]
    reach = np.maximum.accumulate(end)
    # Index of the event that holds the reach so far.
    holder = np.maximum.accumulate(np.where(end == reach, np.arange(len(end)), 0))
    begins = np.flatnonzero(start[1:] > reach[:-1]) + 1
    return mine[holder[begins - 1]], mine[begins]


def _latencies(timeline: Timeline, device: int) -> NDArray[np.int64]:
    before, after = _edges(timeline, device)
    gpu, host = timeline.gpu, timeline.host
    linked = (gpu.launch[after] >= 0) & (gpu.graph[after] < 0)
    before, after = before[linked], after[linked]
    called = host.start[gpu.launch[after]]
    late = (called >= gpu.end[before]) & (called <= gpu.start[after])
    return gpu.start[after][late] - called[late]


def _all_gaps(timeline: Timeline, device: int) -> Gaps:
    gpu, host = timeline.gpu, timeline.host
    before, after = _edges(timeline, device)
    start, end = gpu.end[before], gpu.start[after]
    launch = gpu.launch[after]
    called = np.where(launch >= 0, host.start[launch] if len(host) else 0, 0)
    linked = launch >= 0
    late = linked & (called > start)
    replayed = (gpu.graph[after] >= 0) & (gpu.graph[before] >= 0)
    short = linked & (end - start <= launch_latency_ns(timeline))
    waited = linked & _waited(timeline, before, after)
    cause = np.select([late, replayed, short, waited], [HOST, GRAPH, LAUNCH, DEPENDENCY], UNKNOWN).astype(np.int8)
    return Gaps(start=start, end=end, cause=cause, before=before.astype(np.int32), after=after.astype(np.int32))


def _waited(timeline: Timeline, before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Signs of a wait: another stream takes over, communication is on either side, or a stream wait is on record."""
    gpu, waits = timeline.gpu, timeline.waits
    comm = category_ids(timeline) == CATEGORIES.index(COMM)
    signs = (gpu.stream[before] != gpu.stream[after]) | comm[before] | comm[after]
    stream_waits = np.flatnonzero(waits.kind == WaitKind.STREAM_WAIT)
    if len(stream_waits):
        start, end = waits.start[stream_waits], waits.end[stream_waits]
        met = np.searchsorted(start, gpu.start[after], "right") > np.searchsorted(np.sort(end), gpu.end[before], "left")
        signs |= met
    return np.asarray(signs, bool)


def _inside(timeline: Timeline, device: int, whole: Gaps, window: tuple[int, int]) -> Gaps:
    """Gaps clipped to a window, with the idle time at its edges when nothing of the device lies beyond them."""
    at = slice(*touching((whole.start, whole.end), window))
    columns = {
        "start": [np.maximum(whole.start[at], window[0])],
        "end": [np.minimum(whole.end[at], window[1])],
        "cause": [whole.cause[at]],
        "before": [whole.before[at]],
        "after": [whole.after[at]],
    }
    known = device in timeline.device_ids
    first, last = span_window(timeline, device) if known else (window[1], window[0])
    edges = [(window[0], min(first, window[1])), (max(last, window[0]), window[1])] if known else [window]
    for left, right in edges:
        if right > left:
            for name, value in (("start", left), ("end", right), ("cause", UNKNOWN), ("before", -1), ("after", -1)):
                columns[name].append(np.array([value]))
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(joined["start"], kind="stable")
    return Gaps(
        start=joined["start"][order].astype(np.int64),
        end=joined["end"][order].astype(np.int64),
        cause=joined["cause"][order].astype(np.int8),
        before=joined["before"][order].astype(np.int32),
        after=joined["after"][order].astype(np.int32),
    )
