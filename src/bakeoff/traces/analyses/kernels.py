"""Kernels by category, and the kernels that take most time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..categories import CATEGORIES, category_ids, category_of, short
from ..section import Column, Section
from ..timeline import GpuKind, Timeline

TOP = 10
_NAME_CHARS = 300


def kernels(timeline: Timeline) -> Section | None:
    """The top kernels by total time, with their category and their share of all kernel time."""
    top = top_kernels(timeline, TOP)
    if not top:
        return None
    gpu = timeline.gpu
    chosen = gpu.kind == GpuKind.KERNEL
    ids = category_ids(timeline)[chosen]
    spent = (gpu.end - gpu.start)[chosen]
    return Section(
        name="kernels",
        title="Top kernels",
        counted=f"Sums of durations over all devices and streams, of {int(chosen.sum()):,} kernels of "
        f"{len(np.unique(gpu.name[chosen])):,} different names; kernels that overlap count each.",
        data={
            "top": top,
            "count_by_category": {CATEGORIES[i]: int((ids == i).sum()) for i in np.unique(ids)},
            "ms_by_category": {CATEGORIES[i]: float(spent[ids == i].sum()) / 1e6 for i in np.unique(ids)},
        },
        columns=(
            Column(title="kernel"),
            Column(title="category"),
            Column(title="count", kind="count"),
            Column(title="total", kind="ms"),
            Column(title="share", kind="percent"),
            Column(title="mean", kind="us"),
        ),
        rows=tuple(
            (short(k["name"]), k["category"], k["count"], k["total_ms"], k["share_pct"], k["mean_us"]) for k in top
        ),
    )


def top_kernels(timeline: Timeline, how_many: int) -> list[dict[str, Any]]:
    """name, category, second (a fused kernel's other label), count, total_ms, share_pct, mean_us; most time first."""
    gpu = timeline.gpu
    chosen = gpu.kind == GpuKind.KERNEL
    if not chosen.any():
        return []
    spent = np.bincount(gpu.name[chosen], (gpu.end - gpu.start)[chosen].astype(float), len(timeline.names))
    count = np.bincount(gpu.name[chosen], minlength=len(timeline.names))
    total = float(spent.sum()) or 1.0
    # By time, then by name: files with equal times give the same list.
    order = sorted(np.flatnonzero(count), key=lambda i: (-spent[i], timeline.names[i]))[:how_many]
    found = []
    for index in order:
        category, second = category_of(timeline.names[index])
        found.append(
            {
                "name": timeline.names[index][:_NAME_CHARS],
                "category": category,
                "second": second,
                "count": int(count[index]),
                "total_ms": float(spent[index]) / 1e6,
                "share_pct": 100 * float(spent[index]) / total,
                "mean_us": float(spent[index]) / int(count[index]) / 1e3,
            }
        )
    return found
