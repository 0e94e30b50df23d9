"""The host's side of an Nsight Systems export: CUDA calls, NVTX ranges, system calls, the profiler's own work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from .nsys_gpu import correlations, process_of, timed
from .nsys_names import Names
from .nsys_tables import Tables
from .timeline import HostKind, Thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Push/pop and start/end ranges, of programs (59, 60) and of imported text files (70, 71).
_RANGES = (59, 60, 70, 71)
# torch's emit_nvtx: "aten::copy_, op_id = 990346", "aten::mm, seq = 12, sizes = [[1, 2], [2, 3]]"
_TORCH_OP = re.compile(r"^(?:aten|c10d?|nccl|prims|torch|[A-Za-z_]\w*)::[\w.]+")
_TAIL = re.compile(r", (?:seq|op_id|sizes|input_op_ids)\b.*$")


class Threads:
    """Host threads, interned by Nsight's global thread id."""

    def __init__(self, labels: dict[int, str]) -> None:
        self._labels = labels
        self._index: dict[int, int] = {}
        self.known: list[Thread] = []

    def of(self, global_ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """Indices into `known` for global thread ids, shape (n,)."""
        values, inverse = np.unique(global_ids, return_inverse=True)
        for value in values.tolist():
            if value not in self._index:
                self._index[value] = len(self.known)
                process = int(process_of(np.array([value]))[0])
                self.known.append(Thread(process=process, thread=value & 0xFFFFFF, name=self._labels.get(value, "")))
        return np.array([self._index[v] for v in values.tolist()], np.int32)[inverse]


def threads_of(tables: Tables, names: Names) -> Threads:
    """Threads with the names that programs gave them."""
    table = tables.integers("ThreadNames", ("globalTid", "nameId"))
    names.load(table["nameId"])
    pairs = zip(table["globalTid"].tolist(), table["nameId"].tolist(), strict=True)
    return Threads({tid: names.string(name)[:80] for tid, name in pairs})


def host_columns(tables: Tables, names: Names, threads: Threads, losses: dict[str, int]) -> dict[str, NDArray[Any]]:
    """Columns of host events for `assemble`."""
    parts = [
        _calls(tables, names, threads, "CUPTI_ACTIVITY_KIND_RUNTIME"),
        _calls(tables, names, threads, "CUPTI_ACTIVITY_KIND_DRIVER"),
        _ranges(tables, names, threads),
        _plain(tables, names, threads, "OSRT_API", HostKind.OTHER),
        _plain(tables, names, threads, "CUDNN_EVENTS", HostKind.OTHER),
        _plain(tables, names, threads, "CUBLAS_EVENTS", HostKind.OTHER),
        _plain(tables, names, threads, "PROFILER_OVERHEAD", HostKind.OVERHEAD),
        _plain(tables, names, threads, "CUPTI_ACTIVITY_KIND_OVERHEAD", HostKind.OVERHEAD),
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return timed(columns, "open_host_range", losses)


def _part(
    table: dict[str, NDArray[np.int64]],
    threads: Threads,
    name: NDArray[np.int32],
    kind: NDArray[np.int8] | HostKind,
    correlation: NDArray[np.int64] | None = None,
) -> dict[str, NDArray[Any]]:
    length = len(name)
    return {
        "start": table["start"],
        "end": table["end"],
        "thread": threads.of(table["globalTid"]),
        "kind": np.full(length, int(kind), np.int8) if isinstance(kind, HostKind) else kind,
        "name": name,
        "correlation": np.full(length, -1, np.int64) if correlation is None else correlation,
    }


def _calls(tables: Tables, names: Names, threads: Threads, base: str) -> dict[str, NDArray[Any]]:
    """CUDA calls; runtime and driver calls stand in one table and are told apart by their names."""
    table = tables.integers(base, ("start", "end", "globalTid", "correlationId", "nameId"))
    name = names.ids(table["nameId"])
    texts = names.texts()
    runtime = np.array([not re.match(r"cu[A-Z]", text) for text in texts], bool)
    kind = np.where(runtime[name], int(HostKind.RUNTIME), int(HostKind.DRIVER)).astype(np.int8)
    return _part(table, threads, name, kind, correlations(table["globalTid"], table["correlationId"]))


def _plain(tables: Tables, names: Names, threads: Threads, base: str, kind: HostKind) -> dict[str, NDArray[Any]]:
    table = tables.integers(base, ("start", "end", "globalTid", "nameId"))
    return _part(table, threads, names.ids(table["nameId"]), kind)


def _ranges(tables: Tables, names: Names, threads: Threads) -> dict[str, NDArray[Any]]:
    """NVTX ranges. Their text stands in the row or in StringIds; torch's operators among them become operators."""
    base = "NVTX_EVENTS"
    table = tables.integers(base, ("start", "end", "globalTid", "eventType", "textId"))
    keep = np.isin(table["eventType"], _RANGES)
    names.load(table["textId"][keep & (table["textId"] >= 0)])
    label: list[int] = []
    kind: list[int] = []
    row = 0
    for batch in tables.rows(base, ("text",)):
        for (text,) in batch:
            if row < len(keep) and keep[row]:
                shown = str(text) if text else names.string(int(table["textId"][row])) or "(no text)"
                op = _TORCH_OP.match(shown)
                label.append(names.of(_TAIL.sub("", shown) if op else shown))
                kind.append(HostKind.OP if op else HostKind.ANNOTATION)
            row += 1
    kept = {column: values[keep][: len(label)] for column, values in table.items()}
    return _part(kept, threads, np.array(label, np.int32), np.array(kind, np.int8))
