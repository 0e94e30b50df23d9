"""The ledger of quantisation: what is spent on turning numbers into other numbers, and what on using them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..categories import CATEGORIES, category_ids
from ..op_categories import op_category
from ..section import Column, Section
from ..timeline import GpuKind, HostKind, Timeline
from .operators import self_ns

_ENTRIES = ("dequantise", "quantise", "weight repack", "fused quantised gemm")


def quantisation(timeline: Timeline) -> Section | None:
    """Time in dequantise, quantise, repack and fused quantised GEMM kernels; without GPU events, in such operators."""
    gpu = timeline.gpu
    if len(gpu):
        entries, total = _by_kernel(timeline)
        counted = "Sums of kernel durations by the kernels' names; share is of all kernel time."
    else:
        entries, total = _by_operator(timeline)
        counted = "Time that operators spent themselves, without those they called; share is of all operator time."
    if not entries:
        return None
    for entry in entries:
        entry["share_pct"] = 100 * entry["ms"] / (total / 1e6) if total else 0.0
    spent = {entry["kind"]: entry["ms"] for entry in entries}
    notes = []
    if spent.get("dequantise", 0.0) > 0 and not spent.get("fused quantised gemm"):
        notes.append("weights are dequantised by kernels of their own: no fused quantised GEMM ran")
    return Section(
        name="quantisation",
        title="Quantisation",
        counted=counted,
        data={"entries": entries},
        columns=(
            Column(title="work"),
            Column(title="count", kind="count"),
            Column(title="total", kind="ms"),
            Column(title="share", kind="percent"),
            Column(title="example"),
        ),
        rows=tuple((e["kind"], e["count"], e["ms"], e["share_pct"], e["example"]) for e in entries),
        notes=tuple(notes),
    )


def _by_kernel(timeline: Timeline) -> tuple[list[dict[str, Any]], float]:
    gpu, ids = timeline.gpu, category_ids(timeline)
    spent = gpu.end - gpu.start
    entries = []
    for kind in _ENTRIES:
        mine = (ids == CATEGORIES.index(kind)) & (gpu.kind == GpuKind.KERNEL)
        if mine.any():
            entries.append(_entry(kind, timeline, gpu.name[mine], spent[mine]))
    return entries, float(spent[gpu.kind == GpuKind.KERNEL].sum())


def _by_operator(timeline: Timeline) -> tuple[list[dict[str, Any]], float]:
    host = timeline.host
    ops = host.kind == HostKind.OP
    if not ops.any():
        return [], 0.0
    spent = self_ns(timeline)
    labels = [op_category(name) for name in timeline.names]
    by_detail = [op_category(detail.op_type) for detail in timeline.details]
    of_event = np.array(labels, object)[host.name]
    typed = np.array([bool(detail.op_type) for detail in timeline.details], bool)
    detailed = host.detail >= 0
    detailed[detailed] = typed[host.detail[detailed]]
    if detailed.any():
        of_event[detailed] = np.array(by_detail, object)[host.detail[detailed]]
    entries = []
    for kind in _ENTRIES:
        mine = ops & (of_event == kind)
        if mine.any():
            entries.append(_entry(kind, timeline, host.name[mine], spent[mine]))
    return entries, float(spent[ops].sum())


def _entry(kind: str, timeline: Timeline, names: Any, spent: Any) -> dict[str, Any]:
    costliest = int(np.argmax(np.bincount(names, spent.astype(float))))
    return {
        "kind": kind,
        "count": len(names),
        "ms": float(spent.sum()) / 1e6,
        "example": timeline.names[costliest][:120],
    }
