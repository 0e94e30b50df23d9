"""What ran on the GPUs, from an Nsight Systems export: kernels, copies, memsets, whole graphs, waits, device facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .nsys_names import Names
from .nsys_tables import Tables
from .timeline import Device, GpuKind, WaitKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
_GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_LATEST = 1 << 61  # ns: beyond it is no clock
_COMMON = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")

# CUpti_ActivityMemcpyKind
_COPIES = {
    1: "Memcpy HtoD",
    2: "Memcpy DtoH",
    3: "Memcpy HtoA",
    4: "Memcpy AtoH",
    5: "Memcpy AtoA",
    6: "Memcpy AtoD",
    7: "Memcpy DtoA",
    8: "Memcpy DtoD",
    9: "Memcpy HtoH",
    10: "Memcpy PtoP",
    11: "Memcpy HtoD (unified memory)",
    12: "Memcpy DtoH (unified memory)",
    13: "Memcpy DtoD (unified memory)",
}
# The recorded type of a wait differs between versions (a stream's wait is 2 in one and 3 in another); the call that
# made it says the same everywhere.
_WAIT_CALLS = {
    "EventSynchronize": WaitKind.EVENT,
    "StreamWaitEvent": WaitKind.STREAM_WAIT,
    "StreamSynchronize": WaitKind.STREAM,
    "DeviceSynchronize": WaitKind.DEVICE,
    "CtxSynchronize": WaitKind.DEVICE,
}
_WAIT_TYPES = {1: WaitKind.EVENT, 2: WaitKind.STREAM_WAIT, 3: WaitKind.STREAM, 4: WaitKind.DEVICE}


def process_of(global_id: NDArray[np.int64]) -> NDArray[np.int64]:
    """The process in a ``globalPid`` or ``globalTid``: 24 bits above the thread's 24."""
    return (global_id >> 24) & 0xFFFFFF


def correlations(global_id: NDArray[np.int64], correlation: NDArray[np.int64]) -> NDArray[np.int64]:
    """Correlation ids that are unique over processes; −1 stays −1."""
    folded = (process_of(global_id) << 32) | (correlation & 0xFFFFFFFF)
    return np.where(correlation > 0, folded, -1)


def gpu_columns(tables: Tables, names: Names, losses: dict[str, int]) -> tuple[dict[str, NDArray[Any]], bool]:
    """(columns of GPU events for `assemble`, whether graphs were traced as a whole)."""
    graphs = _graph_traces(tables, names)
    parts = [_kernels(tables, names), _copies(tables, names), _memsets(tables, names), graphs]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return timed(columns, "lost_no_time", losses), len(graphs["start"]) > 0


def timed(columns: dict[str, NDArray[Any]], word: str, losses: dict[str, int]) -> dict[str, NDArray[Any]]:
    """Events with both times; the others (NULL: still running when the recording ended, or damage) are counted."""
    good = (columns["start"] >= 0) & (columns["end"] >= 0) & (columns["start"] < _LATEST) & (columns["end"] < _LATEST)
    if good.all():
        return columns
    losses[word] = losses.get(word, 0) + int((~good).sum())
    return {name: column[good] for name, column in columns.items()}


def _part(table: dict[str, NDArray[np.int64]], kind: GpuKind, name: NDArray[np.int32], moved: NDArray[np.int64]) -> Any:
    correlation = correlations(table["globalPid"], table["correlationId"])
    node, graph = table.get("graphNodeId"), table.get("graphId")
    number = np.full(len(correlation), -1, np.int64)
    if node is not None:
        # Launches of one graph share their correlation, which tells replays apart; the graph's own number does not.
        in_graph = (node > 0) & (node != 0xFFFFFFFFFFFFFFFF)
        number = np.where(in_graph & (correlation >= 0), correlation, np.where(in_graph, node & 0x7FFFFFFF, -1))
    if graph is not None:
        number = np.where((number < 0) & (graph > 0), np.where(correlation >= 0, correlation, graph), number)
    return {
        "start": table["start"],
        "end": table["end"],
        "device": np.clip(table["deviceId"], -1, 2**31 - 1),
        "stream": table["streamId"],
        "kind": np.full(len(correlation), int(kind), np.int8),
        "name": name,
        "correlation": correlation,
        "graph": number,
        "bytes": moved,
    }


def _kernels(tables: Tables, names: Names) -> Any:
    wanted = (*_COMMON, "graphNodeId", "graphId", "demangledName", "shortName", "mangledName")
    table = tables.integers(_KERNEL, wanted)
    name = names.ids(table["demangledName"], table["shortName"], table["mangledName"])
    return _part(table, GpuKind.KERNEL, name, np.full(len(name), -1, np.int64))


def _copies(tables: Tables, names: Names) -> Any:
    table = tables.integers(_MEMCPY, (*_COMMON, "graphNodeId", "graphId", "copyKind", "bytes"))
    kinds, inverse = np.unique(table["copyKind"], return_inverse=True)
    name = np.array([names.of(_COPIES.get(int(kind), "Memcpy")) for kind in kinds], np.int32)[inverse]
    return _part(table, GpuKind.MEMCPY, name, table["bytes"])


def _memsets(tables: Tables, names: Names) -> Any:
    table = tables.integers(_MEMSET, (*_COMMON, "graphNodeId", "graphId", "bytes"))
    name = np.full(len(table["start"]), names.of("Memset") if len(table["start"]) else 0, np.int32)
    return _part(table, GpuKind.MEMSET, name, table["bytes"])


def _graph_traces(tables: Tables, names: Names) -> Any:
    """Whole graph executions: one event where its kernels should be (mode Graph)."""
    table = tables.integers(_GRAPH, (*_COMMON, "graphId"))
    name = np.full(len(table["start"]), names.of("CUDA graph (as a whole)") if len(table["start"]) else 0, np.int32)
    return _part(table, GpuKind.KERNEL, name, np.full(len(name), -1, np.int64))


def wait_columns(
    tables: Tables, names: Names, host: dict[str, NDArray[Any]], losses: dict[str, int]
) -> dict[str, NDArray[Any]]:
    """Recorded waits. Their kind is told by the call that made them, else by the recorded type."""
    table = tables.integers(_SYNC, (*_COMMON, "syncType"))
    kind = np.array([_WAIT_TYPES.get(int(t), WaitKind.DEVICE) for t in table["syncType"]], np.int8)
    texts = names.texts()
    waits = {i: k for i, text in enumerate(texts) for end, k in _WAIT_CALLS.items() if text.endswith(end)}
    if waits and len(kind):
        calls = np.flatnonzero((host["correlation"] >= 0) & np.isin(host["name"], list(waits)))
        by_call = dict(zip(host["correlation"][calls].tolist(), host["name"][calls].tolist(), strict=True))
        made = correlations(table["globalPid"], table["correlationId"]).tolist()
        kind = np.array([waits.get(by_call.get(c, -1), k) for c, k in zip(made, kind.tolist(), strict=True)], np.int8)
    columns = {
        "start": table["start"],
        "end": table["end"],
        "device": np.clip(table["deviceId"], -1, 2**31 - 1),
        "stream": np.where(table["streamId"] == 0xFFFFFFFF, -1, table["streamId"]),
        "kind": kind,
    }
    return timed(columns, "lost_waits", losses)


_GPU_FACTS = (
    "id",
    "cuDevice",
    "totalMemory",
    "memoryBandwidth",
    "smCount",
    "clockRate",
    "computeMajor",
    "computeMinor",
)


def device_facts(tables: Tables) -> tuple[Device, ...]:
    """One Device per GPU of the machine. ``memoryBandwidth`` is in bytes/s, ``clockRate`` in Hz."""
    found: dict[int, Device] = {}
    for batch in tables.rows("TARGET_INFO_GPU", (*_GPU_FACTS, "name")):
        for row in batch:
            numbers = dict(zip(_GPU_FACTS, row, strict=False))
            fact = {k: v if isinstance(v, int) and v > 0 else None for k, v in numbers.items()}
            given = [v for v in (numbers["cuDevice"], numbers["id"]) if isinstance(v, int) and v >= 0]
            if not given:
                continue
            major, minor = fact["computeMajor"], numbers["computeMinor"]
            found.setdefault(
                given[0],
                Device(
                    id=given[0],
                    name=str(row[-1] or "")[:80],
                    memory_bytes=fact["totalMemory"],
                    memory_bandwidth=float(fact["memoryBandwidth"]) if fact["memoryBandwidth"] else None,
                    compute_capability=(major, minor) if major and isinstance(minor, int) else None,
                    multiprocessors=fact["smCount"],
                    max_clock_hz=float(fact["clockRate"]) if fact["clockRate"] else None,
                ),
            )
    return tuple(found[key] for key in sorted(found))
