"""From a reader's columns to a Timeline: the work that every format needs, done once.

Sorting, clamping negative durations, taking out events without a time, linking kernels to launches and operators,
telling graph kernels from eager ones, finding the steps. All of it counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .nesting import innermost_at
from .timeline import GpuEvents, GpuKind, HostEvents, HostKind, Steps, Thread, Timeline, Waits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = Mapping[str, Sequence[int] | NDArray[Any]]

_GPU_COLUMNS = {
    "start": np.int64,
    "end": np.int64,
    "device": np.int32,
    "stream": np.int64,
    "kind": np.int8,
    "name": np.int32,
    "correlation": np.int64,
    "external": np.int64,
    "graph": np.int64,
    "bytes": np.int64,
}
_HOST_COLUMNS = {
    "start": np.int64,
    "end": np.int64,
    "thread": np.int32,
    "kind": np.int8,
    "name": np.int32,
    "correlation": np.int64,
    "external": np.int64,
    "detail": np.int32,
}
_WAIT_COLUMNS = {"start": np.int64, "end": np.int64, "device": np.int32, "stream": np.int64, "kind": np.int8}

# A start of 0 on a clock whose other events are further away than this is a missing time, not an early event.
_FAR_NS = 60_000_000_000
_GRAPH_LAUNCH = re.compile(r"GraphLaunch")
# What profilers and engines call an iteration: torch.profiler, vLLM's model runner, common NVTX labels.
_STEP = re.compile(
    r"^(?:ProfilerStep#|(?:step|iteration|iter)[ _#:]*)(\d+)$|^execute_(?:context_)?\d+\D", re.IGNORECASE
)


def assemble(
    *,
    format: str,
    names: Sequence[str],
    gpu: Columns,
    host: Columns,
    waits: Columns | None = None,
    steps: Steps | None = None,
    losses: Mapping[str, int] | None = None,
    **rest: Any,
) -> Timeline:
    """A Timeline from columns in any order.

    gpu: start, end, device, stream, kind, name; optional: correlation, external, graph, bytes.
    host: start, end, thread, kind, name; optional: correlation, external, detail. May be empty mappings.
    waits: start, end, device, stream, kind. steps: None finds them among the annotations.
    losses: what the reader lost; what is lost here is added. rest: the other fields of Timeline.
    """
    counts = dict(losses or {})
    gpu_table = _sorted(_table(gpu, _GPU_COLUMNS), counts)
    host_table = _sorted(_table(host, _HOST_COLUMNS), counts)
    wait_table = _sorted(_table(waits or {}, _WAIT_COLUMNS), counts)
    host_events = HostEvents(**host_table)
    launch = _launches(gpu_table["correlation"], host_events)
    counts["mixed_processes"] = _mixed(gpu_table["correlation"], launch, host_events, rest.get("threads", ()))
    gpu_table["graph"] = _graphs(gpu_table, host_events, launch, names)
    op = _operators(gpu_table["external"], host_events, launch)
    return Timeline(
        format=format,
        names=tuple(names),
        gpu=GpuEvents(**gpu_table, launch=launch, op=op),
        host=host_events,
        waits=Waits(**wait_table),
        steps=steps if steps is not None else _steps(host_events, names, counts),
        losses={word: count for word, count in counts.items() if count},
        **rest,
    )


def _table(columns: Columns, wanted: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    length = len(columns["start"]) if columns else 0
    table = {}
    for name, kind in wanted.items():
        given = columns.get(name)
        table[name] = np.full(length, -1, kind) if given is None else np.asarray(given, kind)
    return table


def _sorted(table: dict[str, NDArray[Any]], counts: dict[str, int]) -> dict[str, NDArray[Any]]:
    """By start, longer first among equals (so that a parent stands before its child); bad times clamped or out."""
    start, end = table["start"], table["end"]
    if not len(start):
        return table
    negative = end < start
    if negative.any():
        counts["negative_duration"] = counts.get("negative_duration", 0) + int(negative.sum())
        table["end"] = end = np.where(negative, start, end)
    timeless = start <= 0
    if timeless.any() and not timeless.all() and start[~timeless].min() > _FAR_NS:
        counts["lost_no_time"] = counts.get("lost_no_time", 0) + int(timeless.sum())
        table = {name: column[~timeless] for name, column in table.items()}
        start, end = table["start"], table["end"]
    order = np.lexsort((table["kind"], -end, start))
    return {name: column[order] for name, column in table.items()}


def _launches(correlation: NDArray[np.int64], host: HostEvents) -> NDArray[np.int32]:
    """For each GPU event the host call with its correlation: the outermost one (runtime before driver)."""
    calls = np.flatnonzero((host.correlation >= 0) & ((host.kind == HostKind.RUNTIME) | (host.kind == HostKind.DRIVER)))
    result = np.full(len(correlation), -1, np.int32)
    if not len(calls) or not len(correlation):
        return result
    # Stable: among calls of one correlation the earliest start stays first.
    calls = calls[np.argsort(host.correlation[calls], kind="stable")]
    keys = host.correlation[calls]
    at = np.minimum(np.searchsorted(keys, correlation), len(keys) - 1)
    found = (keys[at] == correlation) & (correlation >= 0)
    result[found] = calls[at[found]]
    return result


def _mixed(
    correlation: NDArray[np.int64], launch: NDArray[np.int32], host: HostEvents, threads: Sequence[Thread]
) -> int:
    """GPU events whose launch number is used by several processes: the file is a merge of several ranks."""
    process = np.array([thread.process for thread in threads], object)
    if not len(launch) or len(set(process.tolist())) < 2:
        return 0
    numbers = {value: index for index, value in enumerate(dict.fromkeys(process.tolist()))}
    of_thread = np.array([numbers[value] for value in process.tolist()], np.int64)
    calls = np.flatnonzero((host.correlation >= 0) & ((host.kind == HostKind.RUNTIME) | (host.kind == HostKind.DRIVER)))
    pairs = np.unique(np.stack((host.correlation[calls], of_thread[host.thread[calls]])), axis=1)
    values, many = np.unique(pairs[0], return_counts=True)
    return int((np.isin(correlation, values[many > 1]) & (launch >= 0)).sum())


def _graphs(
    gpu: dict[str, NDArray[Any]], host: HostEvents, launch: NDArray[np.int32], names: Sequence[str]
) -> NDArray[np.int64]:
    """Graph numbers: the reader's; else the correlation of a graph launch, or of an unseen launch that started several
    kernels (only a graph launch does)."""
    graph: NDArray[np.int64] = gpu["graph"].copy()
    correlation = gpu["correlation"]
    open_ = graph < 0
    if not open_.any():
        return graph
    is_graph_call = np.array([bool(_GRAPH_LAUNCH.search(name)) for name in names], bool)
    linked = launch >= 0
    by_call = open_ & linked
    by_call[by_call] = is_graph_call[host.name[launch[by_call]]]
    unseen = np.flatnonzero(open_ & ~linked & (correlation > 0) & (gpu["kind"] == GpuKind.KERNEL))
    if len(unseen):
        values, first, many = np.unique(correlation[unseen], return_inverse=True, return_counts=True)
        del values
        shared = unseen[many[first] > 1]
        by_call |= open_ & ~linked & (correlation > 0) & np.isin(correlation, correlation[shared])
    graph[by_call] = correlation[by_call]
    return graph


def _operators(external: NDArray[np.int64], host: HostEvents, launch: NDArray[np.int32]) -> NDArray[np.int32]:
    """For each GPU event the operator that launched it: by external id, checked against time; else by nesting."""
    result = np.full(len(external), -1, np.int32)
    ops = np.flatnonzero(host.kind == HostKind.OP)
    if not len(ops) or not len(external):
        return result
    linked = launch >= 0
    named = ops[host.external[ops] >= 0]
    if len(named):
        named = named[np.argsort(host.external[named], kind="stable")]
        keys = host.external[named]
        wanted = external.copy()
        lacking = (wanted < 0) & linked
        wanted[lacking] = host.external[launch[lacking]]
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        found = (keys[at] == wanted) & (wanted >= 0)
        result[found] = named[at[found]]
        # Some versions of the profiler write the correlation into the external id, which then hits a stranger.
        check = np.flatnonzero(found & linked)
        op, call = result[check], launch[check]
        inside = (host.start[op] <= host.start[call]) & (host.start[call] <= host.end[op])
        result[check[~inside]] = -1
    lacking = (result < 0) & linked
    if lacking.any():
        result[lacking] = innermost_at(host, ops, host.thread[launch[lacking]], host.start[launch[lacking]])
    return result


def _steps(host: HostEvents, names: Sequence[str], counts: dict[str, int]) -> Steps:
    """Marked iterations, of the thread that marks most of them; overlapping ones are left out and counted."""
    matches = {i: m for i, name in enumerate(names) if (m := _STEP.match(name))}
    none = np.empty(0, np.int64)
    if not matches:
        return Steps(start=none, end=none, number=none)
    marked = np.flatnonzero(
        np.isin(host.name, list(matches)) & ((host.kind == HostKind.ANNOTATION) | (host.kind == HostKind.OP))
    )
    if not len(marked):
        return Steps(start=none, end=none, number=none)
    threads, many = np.unique(host.thread[marked], return_counts=True)
    marked = marked[host.thread[marked] == threads[np.argmax(many)]]
    kept: list[int] = []
    for index in marked:
        if kept and host.start[index] < host.end[kept[-1]]:
            counts["overlapping_steps"] = counts.get("overlapping_steps", 0) + 1
            continue
        kept.append(int(index))
    labels = [names[host.name[i]] for i in kept]
    numbers = [int(m[1]) if (m := matches[int(host.name[i])])[1] else k for k, i in enumerate(kept)]
    return Steps(start=host.start[kept], end=host.end[kept], number=np.array(numbers, np.int64), label=tuple(labels))
