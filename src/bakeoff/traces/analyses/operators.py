"""Operators of the host by the time they spend themselves: the kernels of a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..nesting import depths
from ..section import Column, Section
from ..timeline import HostKind, Timeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOP = 10


def self_ns(timeline: Timeline) -> NDArray[np.int64]:
    """For each host event its duration without the operators directly inside it; 0 for what is no operator."""
    if "self_ns" in timeline.memo:
        known: NDArray[np.int64] = timeline.memo["self_ns"]
        return known
    host = timeline.host
    result = np.zeros(len(host), np.int64)
    ops = np.flatnonzero(host.kind == HostKind.OP)
    for thread in np.unique(host.thread[ops]):
        mine = ops[host.thread[ops] == thread]
        start, end = host.start[mine], host.end[mine]
        own = end - start
        depth = depths(start, end)
        for level in range(1, int(depth.max()) + 1):
            children = np.flatnonzero(depth == level)
            parents = np.flatnonzero(depth == level - 1)
            parent = parents[np.maximum(np.searchsorted(parents, children) - 1, 0)]
            inside = np.minimum(end[children], end[parent]) - start[children]
            np.subtract.at(own, parent, np.maximum(inside, 0))
        result[mine] = np.maximum(own, 0)
    timeline.memo["self_ns"] = result
    return result


def operators(timeline: Timeline) -> Section | None:
    """The operators (ONNX Runtime: operator types) that spend most time themselves."""
    host = timeline.host
    ops = np.flatnonzero(host.kind == HostKind.OP)
    if not len(ops):
        return None
    spent = self_ns(timeline)[ops]
    # An operator's type where the trace has types (ONNX Runtime's nodes have names of their own), else its name.
    types = list(dict.fromkeys(detail.op_type for detail in timeline.details if detail.op_type))
    number = {kind: index + len(timeline.names) for index, kind in enumerate(types)}
    of_detail = np.array([number.get(detail.op_type, -1) for detail in timeline.details] or [-1], np.int64)
    typed = np.where(host.detail[ops] >= 0, of_detail[host.detail[ops]], -1)
    label = np.where(typed >= 0, typed, host.name[ops])
    labels = [*timeline.names, *types]
    own = np.bincount(label, spent.astype(float), len(labels))
    count = np.bincount(label, minlength=len(labels))
    total = float(spent.sum()) or 1.0
    order = sorted(np.flatnonzero(count).tolist(), key=lambda index: (-own[index], labels[index]))
    found = [
        {
            "name": labels[index][:200],
            "count": int(count[index]),
            "self_ms": float(own[index]) / 1e6,
            "share_pct": 100 * float(own[index]) / total,
        }
        for index in order[:_TOP]
    ]
    return Section(
        name="operators",
        title="Operators on the host",
        counted=f"Time that {len(ops):,} operators spent themselves on all threads, without the operators they called.",
        data={"top": found, "total_ms": float(spent.sum()) / 1e6, "operators": len(ops)},
        columns=(
            Column(title="operator"),
            Column(title="count", kind="count"),
            Column(title="self", kind="ms"),
            Column(title="share", kind="percent"),
        ),
        rows=tuple((f["name"], f["count"], f["self_ms"], f["share_pct"]) for f in found),  # type: ignore[misc]
    )
