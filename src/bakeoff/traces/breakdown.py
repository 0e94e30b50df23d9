"""The default analysis of one trace: the device's time first, then every analysis of the list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .analyses import ANALYSES
from .busy import busy_ns_by_category, busy_union, comm_union, compute_union, kernel_union, span_window
from .categories import CATEGORIES, UNCLASSIFIED, category_ids
from .gaps import HOST, device_gaps
from .host_activity import host_idle_ns
from .intervals import length, overlap
from .limits import TraceError
from .section import Section
from .timeline import GpuKind, Timeline
from .words import counted

if TYPE_CHECKING:
    from .analyses import Analysis

SCHEMA = "bakeoff.trace/1"


@dataclass(frozen=True, kw_only=True)
class DeviceTimes:
    """Where a device's time went. ms; None where the trace has nothing of the kind.

    device: its number; None for the total, which sums over devices (device time, so its span can exceed the trace's).
    busy_ms: union of kernels, copies and memsets. efficiency_pct: union of kernels ÷ span.
    kernel_ms_by_category: sums of kernel durations. busy_ms_by_category: busy time divided so that it adds up.
    unlinked_events: GPU events whose launch call is not in the trace (made before it began, or not recorded).
    """

    device: int | None
    name: str = ""
    span_ms: float
    busy_ms: float
    idle_ms: float
    idle_pct: float
    idle_ms_by_cause: Mapping[str, float]
    idle_gaps_by_cause: Mapping[str, int]
    host_idle_ms_by_activity: Mapping[str, float]
    kernel_union_ms: float
    efficiency_pct: float
    kernel_ms: float
    kernel_ms_by_category: Mapping[str, float]
    busy_ms_by_category: Mapping[str, float]
    unclassified_pct: float
    communication_ms: float
    compute_ms: float
    overlap_ms: float
    overlap_pct: float | None
    gpu_events: int
    kernels: int
    copies: int
    graph_events: int
    unlinked_events: int
    streams: int


@dataclass(frozen=True, kw_only=True)
class TraceReport:
    """What one trace says. `to_json` gives the machine-readable form."""

    source: str
    format: str
    devices: tuple[DeviceTimes, ...]
    total: DeviceTimes
    sections: tuple[Section, ...]
    host_span_ms: float | None
    host_events: int
    steps: int
    lost_events: int
    rank: int | None = None
    world_size: int | None = None
    losses: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    def section(self, name: str) -> Section | None:
        """The section of that name, if the trace has it."""
        return next((section for section in self.sections if section.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """JSON-able: schema ``bakeoff.trace/1``."""
        lost = {"lost_events": self.lost_events}
        return {
            "schema": SCHEMA,
            "source": self.source,
            "format": self.format,
            "rank": self.rank,
            "world_size": self.world_size,
            "devices": [{**_plain(device), **lost} for device in self.devices],
            "total": {**_plain(self.total), **lost},
            "host_span_ms": self.host_span_ms,
            "host_events": self.host_events,
            "steps": self.steps,
            "sections": {section.name: {**section.data, "counted": section.counted} for section in self.sections},
            "losses": dict(self.losses),
            "notes": list(self.notes),
            "facts": dict(self.facts),
        }


# What a trace without GPU events says nothing about.
_UNKNOWN_WITHOUT_GPU = (
    "span_ms", "busy_ms", "idle_ms", "idle_pct", "kernel_union_ms", "efficiency_pct", "kernel_ms", "unclassified_pct",
    "communication_ms", "compute_ms", "overlap_ms",
)  # fmt: skip


def _plain(times: DeviceTimes) -> dict[str, Any]:
    found = asdict(times)
    if not times.gpu_events:
        found |= dict.fromkeys(_UNKNOWN_WITHOUT_GPU)
    return found


def analyse(timeline: Timeline, analyses: Sequence[Analysis] = ANALYSES) -> TraceReport:
    """The whole default analysis. Raises TraceError for a trace with neither GPU, nor host, nor compiler events."""
    if not len(timeline.gpu) and not len(timeline.host) and not timeline.compiles:
        raise TraceError(
            "there is nothing to analyse in it: no GPU event, no host event",
            where=timeline.source or None,
            remedy="profile while the model is working, with activities CPU and CUDA",
        )
    host = timeline.host
    devices = tuple(device_times(timeline, device) for device in timeline.device_ids)
    sections = tuple(found for analysis in analyses if (found := analysis(timeline)) is not None)
    return TraceReport(
        source=timeline.source,
        format=timeline.format,
        devices=devices,
        total=_total(devices),
        sections=sections,
        host_span_ms=float(host.end.max() - host.start.min()) / 1e6 if len(host) else None,
        host_events=len(host),
        steps=len(timeline.steps),
        lost_events=timeline.lost_events,
        rank=timeline.rank,
        world_size=timeline.world_size,
        losses=timeline.losses,
        notes=(*timeline.notes, *_notes(timeline, devices)),
        facts=timeline.facts,
    )


def device_times(timeline: Timeline, device: int, window: tuple[int, int] | None = None) -> DeviceTimes:
    """Where one device's time went, over its whole span or inside a window (start, end in ns).

    Inside a window, events that cross its borders count with the part that lies inside; counts are of events that touch
    it. idle = span − busy; the causes sum to it.
    """
    gpu, ids = timeline.gpu, category_ids(timeline)
    start, end = window or span_window(timeline, device)
    mine = (gpu.device == device) & (gpu.end >= start) & (gpu.start <= end)
    kernel = mine & (gpu.kind == GpuKind.KERNEL)
    spent = np.maximum(np.minimum(gpu.end, end) - np.maximum(gpu.start, start), 0)
    busy = length(busy_union(timeline, device, window))
    kernels = length(kernel_union(timeline, device, window))
    comm, compute = comm_union(timeline, device, window), compute_union(timeline, device, window)
    hidden, comm_ns = overlap(comm, compute), length(comm)
    gaps = device_gaps(timeline, device, window)
    by_category = np.bincount(ids[kernel], spent[kernel].astype(float), len(CATEGORIES))
    summed = float(spent[kernel].sum())
    span = end - start
    return DeviceTimes(
        device=device,
        name=timeline.device(device).name,
        span_ms=span / 1e6,
        busy_ms=busy / 1e6,
        idle_ms=(span - busy) / 1e6,
        idle_pct=100 * (span - busy) / span if span else 0.0,
        idle_ms_by_cause=_ms(gaps.ns_by_cause()),
        idle_gaps_by_cause=gaps.count_by_cause(),
        host_idle_ms_by_activity=_ms(host_idle_ns(timeline, gaps, gaps.cause == HOST)),
        kernel_union_ms=kernels / 1e6,
        efficiency_pct=100 * kernels / span if span else 0.0,
        kernel_ms=summed / 1e6,
        kernel_ms_by_category={CATEGORIES[i]: float(by_category[i]) / 1e6 for i in np.flatnonzero(by_category)},
        busy_ms_by_category=_ms(busy_ns_by_category(timeline, device, window)),
        unclassified_pct=100 * float(by_category[CATEGORIES.index(UNCLASSIFIED)]) / summed if summed else 0.0,
        communication_ms=comm_ns / 1e6,
        compute_ms=length(compute) / 1e6,
        overlap_ms=hidden / 1e6,
        overlap_pct=100 * hidden / comm_ns if comm_ns else None,
        gpu_events=int(mine.sum()),
        kernels=int(kernel.sum()),
        copies=int((mine & ~kernel).sum()),
        graph_events=int((mine & (gpu.graph >= 0)).sum()),
        unlinked_events=int((mine & (gpu.launch < 0)).sum()),
        streams=len(np.unique(gpu.stream[mine])),
    )


def _ms(ns: Mapping[str, int]) -> dict[str, float]:
    return {name: value / 1e6 for name, value in ns.items()}


_SUMMED = (
    "span_ms", "busy_ms", "idle_ms", "kernel_union_ms", "kernel_ms", "communication_ms", "compute_ms", "overlap_ms",
    "gpu_events", "kernels", "copies", "graph_events", "unlinked_events", "streams",
)  # fmt: skip
_SUMMED_MAPS = (
    "idle_ms_by_cause", "idle_gaps_by_cause", "host_idle_ms_by_activity", "kernel_ms_by_category",
    "busy_ms_by_category",
)  # fmt: skip


def _total(devices: Sequence[DeviceTimes]) -> DeviceTimes:
    """Sums over devices; the percentages are of the sums."""
    sums: dict[str, Any] = {name: sum((getattr(device, name) for device in devices), 0) for name in _SUMMED}
    for name in _SUMMED_MAPS:
        merged: dict[str, Any] = {}
        for device in devices:
            for key, value in getattr(device, name).items():
                merged[key] = merged.get(key, 0) + value
        sums[name] = merged
    span, summed, comm = sums["span_ms"], sums["kernel_ms"], sums["communication_ms"]
    return DeviceTimes(
        device=None,
        name="",
        idle_pct=100 * sums["idle_ms"] / span if span else 0.0,
        efficiency_pct=100 * sums["kernel_union_ms"] / span if span else 0.0,
        unclassified_pct=100 * sums["kernel_ms_by_category"].get(UNCLASSIFIED, 0.0) / summed if summed else 0.0,
        overlap_pct=100 * sums["overlap_ms"] / comm if comm else None,
        **sums,
    )


# What was lost, by word: (what, why).
_LOST = {
    "lost_broken_json": ("event", "the JSON is broken"),
    "lost_no_time": ("event", "without a time (0)"),
    "lost_unusable": ("event", "without a usable time"),
    "lost_lines": ("line", "belonging to no record"),
    "lost_damaged_payload": ("payload", "its checksum does not fit"),
    "lost_waits": ("recorded wait", "without a place"),
}


def _lost(losses: Mapping[str, int]) -> list[str]:
    """One sentence for each way in which events were lost, also those of readers from elsewhere."""
    told = []
    for word, count in losses.items():
        if word.startswith("lost_") and count:
            what, why = _LOST.get(word, ("event", word.removeprefix("lost_").replace("_", " ")))
            told.append(f"could not be read: {counted(count, what)} ({why}), missing from all numbers")
    return told


def _notes(timeline: Timeline, devices: Sequence[DeviceTimes]) -> list[str]:
    """What a reader must know to trust the numbers."""
    notes = []
    gpu, losses = timeline.gpu, timeline.losses
    if not len(gpu):
        notes.append("no GPU events: only the host's side can be told")
    unlinked = int((gpu.launch < 0).sum())
    if unlinked:
        notes.append(
            f"without a launch call in the trace (launched before it began, or not recorded): {unlinked:,} of "
            f"{counted(len(gpu), 'GPU event')}; they count, but the cause of the idle time before them is unknown"
        )
    if losses.get("negative_duration"):
        notes.append(f"{counted(losses['negative_duration'], 'event')} with a negative duration, taken as 0")
    notes += _lost(losses)
    if losses.get("mixed_processes"):
        notes.append(
            f"{counted(losses['mixed_processes'], 'GPU event')} with a launch number that several processes use: the "
            "file mixes ranks, and causes of idle time may be wrong; profile one rank a file"
        )
    if losses.get("overlapping_steps"):
        notes.append(f"left out: {counted(losses['overlapping_steps'], 'step mark')} overlapping others")
    if len(devices) > 1:
        notes.append("totals are device time: sums over devices")
    return notes
