"""Communication between devices, and how much of it computing hides."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..busy import comm_union, compute_union
from ..categories import CATEGORIES, COMM, category_ids
from ..intervals import length, overlap
from ..section import Column, Section
from ..timeline import Timeline


def communication(timeline: Timeline) -> Section | None:
    """Per device: communication, what of it overlaps with computing, what is exposed. None without communication."""
    ids = category_ids(timeline)
    rows: list[dict[str, Any]] = []
    for device in timeline.device_ids:
        comm = comm_union(timeline, device)
        whole = length(comm)
        mine = (timeline.gpu.device == device) & (ids == CATEGORIES.index(COMM))
        if not mine.any():
            continue
        hidden = overlap(comm, compute_union(timeline, device))
        rows.append(
            {
                "device": device,
                "kernels": int(mine.sum()),
                "ms": whole / 1e6,
                "overlap_pct": 100 * hidden / whole if whole else None,
                "exposed_ms": (whole - hidden) / 1e6,
                "streams": len(np.unique(timeline.gpu.stream[mine])),
            }
        )
    if not rows:
        return None
    return Section(
        name="communication",
        title="Communication",
        counted="Unions, per device: overlap = |communication ∩ other kernels| ÷ |communication|.",
        data={"devices": rows},
        columns=(
            Column(title="device", kind="count"),
            Column(title="kernels", kind="count"),
            Column(title="communication", kind="ms"),
            Column(title="overlapped", kind="percent"),
            Column(title="exposed", kind="ms"),
        ),
        rows=tuple((r["device"], r["kernels"], r["ms"], r["overlap_pct"], r["exposed_ms"]) for r in rows),
    )
