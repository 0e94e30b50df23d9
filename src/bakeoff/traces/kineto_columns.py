"""Kineto events, block by block, into columns."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from .interning import Names
from .kineto_events import GPU_KINDS, HOST_KINDS, WAIT_KINDS, Args, Event, integer, nanoseconds
from .kineto_values import dims, externals, integers, small, times, types
from .limits import Limits, TraceError
from .timeline import Detail, GpuKind, HostKind, Thread, WaitKind

_NO_ARGS = Args()
_FLOWS = frozenset({"ac2g", "async_cpu_to_gpu", "async"})
_DETAILS = 200_000


class Growing:
    """Columns that grow block by block; each block is kept as arrays of the final type."""

    def __init__(self, **kinds: Any) -> None:
        self._kinds = kinds
        self._blocks: dict[str, list[Any]] = {name: [] for name in kinds}
        self.length = 0

    def add(self, **columns: Any) -> None:
        """One block; every column is a sequence of the same length."""
        for name, kind in self._kinds.items():
            self._blocks[name].append(np.asarray(columns[name], kind))
        self.length += len(columns["start"])

    def columns(self) -> dict[str, Any]:
        """The whole columns; the blocks are given up one by one, so that memory does not double."""
        return {
            name: np.concatenate(self._blocks.pop(name)) if self._blocks[name] else np.empty(0, kind)
            for name, kind in self._kinds.items()
        }


def _places(events: list[Event], args: list[Args]) -> dict[str, Any]:
    """Device and stream: from the args, else from the pid and tid (which were ``"stream 7"`` in 2021)."""
    both = list(zip(events, args, strict=True))
    return {
        "device": small(integers([e.pid if a.device is None else a.device for e, a in both])),
        "stream": integers([e.tid if a.stream is None else a.stream for e, a in both]),
    }


class KinetoColumns:
    """All that is taken from the events of one file."""

    def __init__(self, limits: Limits, source: str) -> None:
        i64, i32, i8 = np.int64, np.int32, np.int8
        self.names = Names(limits)
        self.losses: dict[str, int] = {}
        self.total = 0
        self.unlinked = False  # GPU events without a correlation: flows may link them
        self.used_flows = False
        self.gpu = Growing(
            start=i64, end=i64, device=i32, stream=i64, kind=i8, name=i32, correlation=i64, external=i64, graph=i64,
            bytes=i64,
        )  # fmt: skip
        self.host = Growing(
            start=i64, end=i64, thread=i32, kind=i8, name=i32, correlation=i64, external=i64, detail=i32
        )
        self.waits = Growing(start=i64, end=i64, device=i32, stream=i64, kind=i8)
        self._limits = limits
        self._source = source
        self._threads: dict[tuple[int, int], int] = {}
        self._thread_names: dict[tuple[int, int], str] = {}
        self._details: dict[tuple[bytes, bytes], int] = {}
        self._flow_ids: dict[tuple[int, int, int, bool], int] = {}  # (time, pid, tid, is it the GPU's end) → id

    def add(self, events: list[Event]) -> None:
        """Sorts one block's events into the tables."""
        by_category: defaultdict[str, list[Event]] = defaultdict(list)
        for event in events:
            if event.ph == "X":
                by_category[event.cat].append(event)
            elif event.ph == "M":
                self._meta(event)
        self.total += len(events)
        for category, group in by_category.items():
            word = category.lower()
            if (gpu_kind := GPU_KINDS.get(word)) is not None:
                self._add_gpu(gpu_kind, group)
            elif (host_kind := HOST_KINDS.get(word)) is not None:
                self._add_host(host_kind, group)
            elif word == "cuda_sync":
                self._add_waits(group)
        if self.gpu.length + self.host.length > self._limits.events:
            raise TraceError(
                f"there are more than {self._limits.events:,} events in it",
                where=self._source,
                remedy="profile a shorter window",
            )

    def _timed(self, events: list[Event]) -> tuple[list[Event], Any, Any]:
        """The events that have a time, with their start and end in ns; others are counted as lost."""
        start, known = times([event.ts for event in events])
        length, lasting = times([0 if event.dur is None else event.dur for event in events])
        good = known & lasting
        if not good.all():
            self.losses["lost_unusable"] = self.losses.get("lost_unusable", 0) + int((~good).sum())
            events = [event for event, is_good in zip(events, good, strict=True) if is_good]
            start, length = start[good], length[good]
        return events, start, start + length

    def _add_gpu(self, kind: GpuKind, events: list[Event]) -> None:
        events, start, end = self._timed(events)
        args = [event.args or _NO_ARGS for event in events]
        names = self.names
        correlation = integers([a.correlation for a in args])
        self.unlinked |= bool((correlation < 0).any())
        graph = integers([a.graph for a in args])
        self.gpu.add(
            start=start,
            end=end,
            **_places(events, args),
            kind=np.full(len(events), kind),
            name=[names[event.name] for event in events],
            correlation=correlation,
            external=externals(args),
            graph=np.where(graph > 0, graph, -1),
            bytes=integers([a.bytes for a in args]),
        )

    def _add_host(self, kind: HostKind, events: list[Event]) -> None:
        events, start, end = self._timed(events)
        args = [event.args or _NO_ARGS for event in events]
        names, threads = self.names, self._threads
        none = np.full(len(events), -1)
        kinds = np.full(len(events), kind)
        if kind == HostKind.OP:  # in 2021 a step was an operator like any other
            kinds[[event.name.startswith("ProfilerStep#") for event in events]] = HostKind.ANNOTATION
        called = kind in (HostKind.RUNTIME, HostKind.DRIVER)
        pid, tid = integers([event.pid for event in events]), integers([event.tid for event in events])
        self.host.add(
            start=start,
            end=end,
            thread=[threads.setdefault(key, len(threads)) for key in zip(pid.tolist(), tid.tolist(), strict=True)],
            kind=kinds,
            name=[names[event.name] for event in events],
            correlation=integers([a.correlation for a in args]) if called else none,
            external=externals(args),
            detail=[self._detail(a) for a in args] if kind == HostKind.OP else none,
        )

    def _add_waits(self, events: list[Event]) -> None:
        events, start, end = self._timed(events)
        args = [event.args or _NO_ARGS for event in events]
        self.waits.add(
            start=start,
            end=end,
            **_places(events, args),
            kind=[
                WAIT_KINDS.get((a.sync or e.name).lower(), WaitKind.EVENT) for e, a in zip(events, args, strict=True)
            ],
        )

    def _detail(self, args: Args) -> int:
        if not args.dims:
            return -1
        key = bytes(args.dims), bytes(args.types)
        number = self._details.get(key)
        if number is None:
            if len(self._details) >= _DETAILS:
                return -1
            number = self._details[key] = len(self._details)
        return number

    def _meta(self, event: Event) -> None:
        if event.name == "thread_name" and event.args is not None and len(self._thread_names) < 100_000:
            self._thread_names[integer(event.pid), integer(event.tid)] = str(event.args.name or "")[:200]

    def add_flows(self, events: list[Event]) -> None:
        """Second pass, only where GPU events lack a correlation: the flow arrows' ends."""
        for event in events:
            if event.ph in ("s", "f") and event.cat in _FLOWS and len(self._flow_ids) < self._limits.events:
                time, number = nanoseconds(event.ts), integer(event.id)
                if time is not None and number >= 0:
                    self._flow_ids[time, integer(event.pid), integer(event.tid), event.ph == "f"] = number

    def tables(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """(GPU events, host events, waits), whole."""
        gpu, host, waits = self.gpu.columns(), self.host.columns(), self.waits.columns()
        if self._flow_ids:
            threads = np.array(list(self._threads) or [(0, 0)], np.int64)
            thread = threads[host["thread"]]
            linked = self._link(gpu, gpu["device"], gpu["stream"], arrow_end=True)
            if linked:
                self._link(host, thread[:, 0], thread[:, 1], arrow_end=False)
                self.used_flows = True
        return gpu, host, waits

    def _link(self, table: dict[str, Any], pid: Any, tid: Any, *, arrow_end: bool) -> int:
        """Flow ids as correlations, where there is none."""
        lacking = np.flatnonzero(table["correlation"] < 0)
        if not arrow_end:
            lacking = lacking[np.isin(table["kind"][lacking], (HostKind.RUNTIME, HostKind.DRIVER))]
        keys = zip(table["start"][lacking].tolist(), pid[lacking].tolist(), tid[lacking].tolist(), strict=True)
        found = np.array([self._flow_ids.get((*key, arrow_end), -1) for key in keys], np.int64)
        table["correlation"][lacking] = found
        return int((found >= 0).sum())

    def threads_with_names(self) -> tuple[Thread, ...]:
        """All host threads, in the order of their numbers."""
        return tuple(
            Thread(process=pid, thread=tid, name=self._thread_names.get((pid, tid), "")) for pid, tid in self._threads
        )

    def details(self) -> tuple[Detail, ...]:
        """Shapes and types, decoded once for each different text."""
        return tuple(Detail(input_dims=dims(shapes), input_types=types(words)) for shapes, words in self._details)
