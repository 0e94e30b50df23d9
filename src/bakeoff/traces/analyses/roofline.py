"""Where groups of kernels stand against the roofline: FLOP and bytes from the operators' shapes.

Williams, Waterman, Patterson (2009): attainable FLOP/s = min(peak FLOP/s, intensity · peak bytes/s). A group whose
intensity (FLOP/byte) is left of the ridge, peak FLOP/s ÷ peak bytes/s, is memory-bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..peaks import Peaks, peaks_of
from ..section import Column, Section
from ..timeline import GpuKind, Timeline
from ..work import work_of

_SHOWN = 10


def roofline(timeline: Timeline) -> Section | None:
    """By operator: FLOP, bytes, rates achieved and what bounds it; None when no shapes are known."""
    groups = _groups(timeline)
    if not groups:
        return None
    gpu = timeline.gpu
    kernel_ns = float((gpu.end - gpu.start)[gpu.kind == GpuKind.KERNEL].sum()) or 1.0
    peaks = peaks_of(timeline.device(timeline.device_ids[0]))
    ridge = peaks.flops_per_s / peaks.bytes_per_s if peaks.flops_per_s and peaks.bytes_per_s else None
    rows = [_row(name, group, peaks, ridge) for name, group in groups.items()]
    rows.sort(key=lambda row: (-row["ms"], row["operator"]))
    covered = sum(row["ms"] for row in rows) * 1e6 / kernel_ns
    notes = [] if ridge is not None else ["the device's peaks are not known: no statement on what bounds it"]
    if any((row["of_attainable_pct"] or 0) > 100 for row in rows):
        notes.append("above 100 %: the data came from caches, which the roofline of the memory does not know")
    return Section(
        name="roofline",
        title="Roofline",
        counted=f"Operators whose shapes are recorded and whose arithmetic is known: {100 * covered:.0f} % of kernel "
        "time. Bytes: each input read once, the output written once.",
        data={
            "groups": rows,
            "covered_pct": 100 * covered,
            "peak_bytes_per_s": peaks.bytes_per_s,
            "peak_flop_per_s": peaks.flops_per_s,
            "peak_source": peaks.source,
            "ridge_flop_per_byte": ridge,
        },
        columns=(
            Column(title="operator"),
            Column(title="calls", kind="count"),
            Column(title="total", kind="ms"),
            Column(title="TFLOP/s", kind="number"),
            Column(title="GB/s", kind="number"),
            Column(title="FLOP/byte", kind="number"),
            Column(title="bound by"),
            Column(title="of attainable", kind="percent"),
        ),
        rows=tuple(
            (
                r["operator"],
                r["calls"],
                r["ms"],
                r["tflop_per_s"],
                r["gb_per_s"],
                r["flop_per_byte"],
                r["bound"],
                r["of_attainable_pct"],
            )
            for r in rows[:_SHOWN]
        ),
        notes=tuple(notes),
    )


def _row(name: str, group: tuple[float, float, float, int], peaks: Peaks, ridge: float | None) -> dict[str, Any]:
    """One operator: group = (time [ns], FLOP, bytes, calls)."""
    ns, flop, size, calls = group
    intensity = flop / size if size else 0.0
    attainable = None
    if ridge is not None and peaks.flops_per_s and peaks.bytes_per_s and ns:
        # The time that the faster of the two walls allows, over the time taken.
        attainable = 100 * max(flop / peaks.flops_per_s, size / peaks.bytes_per_s) / (ns / 1e9)
    return {
        "operator": name,
        "calls": calls,
        "ms": ns / 1e6,
        "tflop_per_s": flop / ns / 1e3 if ns else None,
        "gb_per_s": size / ns if ns else None,
        "flop_per_byte": intensity,
        "bound": None if ridge is None else ("memory" if intensity < ridge else "compute"),
        "of_attainable_pct": attainable,
    }


def _groups(timeline: Timeline) -> dict[str, tuple[float, float, float, int]]:
    """operator → (kernel ns, FLOP, bytes, calls), of operators whose work is known from their shapes."""
    gpu, host = timeline.gpu, timeline.host
    linked = np.flatnonzero((gpu.op >= 0) & (gpu.kind == GpuKind.KERNEL))
    if not len(linked) or not timeline.details:
        return {}
    op = gpu.op[linked]
    linked, op = linked[host.detail[op] >= 0], op[host.detail[op] >= 0]
    spent = np.bincount(op, (gpu.end - gpu.start)[linked].astype(float), len(host)) if len(op) else np.empty(0)
    # Operators with the same name and shapes do the same work: computed once.
    calls = np.unique(op)
    pairs, inverse = np.unique(np.stack((host.name[calls], host.detail[calls]), axis=1), axis=0, return_inverse=True)
    ns = np.bincount(inverse.ravel(), spent[calls], len(pairs)) if len(calls) else np.empty(0)
    count = np.bincount(inverse.ravel(), minlength=len(pairs))
    groups: dict[str, tuple[float, float, float, int]] = {}
    for (name, detail), spent_ns, many in zip(pairs.tolist(), ns.tolist(), count.tolist(), strict=True):
        work = work_of(timeline.names[name], timeline.details[detail])
        if work is None:
            continue
        old = groups.get(timeline.names[name], (0.0, 0.0, 0.0, 0))
        groups[timeline.names[name]] = (
            old[0] + spent_ns,
            old[1] + work[0] * many,
            old[2] + work[1] * many,
            old[3] + many,
        )
    return groups
