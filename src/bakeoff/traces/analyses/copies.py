"""Copies and memsets by direction."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..peaks import peaks_of
from ..section import Column, Section
from ..timeline import GpuKind, Timeline


def copies(timeline: Timeline) -> Section | None:
    """Count, time, bytes and rate of each kind of copy."""
    gpu = timeline.gpu
    moved = gpu.kind != GpuKind.KERNEL
    if not moved.any():
        return None
    rows: list[dict[str, Any]] = []
    spent = gpu.end - gpu.start
    for name in np.unique(gpu.name[moved]):
        mine = moved & (gpu.name == name)
        known = mine & (gpu.bytes >= 0)
        ns, size = int(spent[known].sum()), int(gpu.bytes[known].sum())
        rows.append(
            {
                "kind": timeline.names[name][:120],
                "count": int(mine.sum()),
                "ms": float(spent[mine].sum()) / 1e6,
                "bytes": size if known.any() else None,
                "gb_per_s": size / ns if ns and known.any() else None,
            }
        )
    rows.sort(key=lambda row: (-row["ms"], row["kind"]))
    peaks = {device: peaks_of(timeline.device(device)).bytes_per_s for device in timeline.device_ids}
    known_peaks = {str(device): peak for device, peak in peaks.items() if peak}
    return Section(
        name="copies",
        title="Copies",
        counted="Copies and memsets on the devices; rate = bytes ÷ time of those whose size is known.",
        data={"kinds": rows, "memory_bandwidth_bytes_per_s": known_peaks},
        columns=(
            Column(title="kind"),
            Column(title="count", kind="count"),
            Column(title="total", kind="ms"),
            Column(title="bytes", kind="bytes"),
            Column(title="GB/s", kind="number"),
        ),
        rows=tuple((r["kind"], r["count"], r["ms"], r["bytes"], r["gb_per_s"]) for r in rows),
    )
