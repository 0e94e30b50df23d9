"""rocprofv3 JSON (``rocprofv3 --output-format json``): dispatches, copies, HIP and RCCL calls, markers. Times in ns.

Of the metadata only the process id is read; command line, configuration and host name stay in the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .assemble import assemble
from .limits import Limits, TraceError
from .opening import whole_content
from .rocprof_schema import Agent, Api, Document, Tool, salvage
from .timeline import Device, GpuKind, HostKind, Thread
from .words import ENDS_EARLY

if TYPE_CHECKING:
    from .timeline import Timeline

_HEAD = re.compile(rb'^\s*\{\s*"rocprofiler-sdk-tool"\s*:')
_MOST_BYTES = 2 << 30
_GPU_AGENT = 2
_LATEST = 1 << 61  # ns: beyond it is no clock
_COPIES = {
    "MEMORY_COPY_HOST_TO_HOST": "Memcpy HtoH",
    "MEMORY_COPY_HOST_TO_DEVICE": "Memcpy HtoD",
    "MEMORY_COPY_DEVICE_TO_HOST": "Memcpy DtoH",
    "MEMORY_COPY_DEVICE_TO_DEVICE": "Memcpy DtoD",
}
_CALLS = (("hip_api", HostKind.RUNTIME), ("hsa_api", HostKind.DRIVER), ("rccl_api", HostKind.OTHER))


class RocprofReader:
    """Reads the JSON of rocprofv3, plain or gzip."""

    name = "rocprof"

    def recognises(self, head: bytes, path: Path) -> bool:
        return _HEAD.match(head) is not None

    def read(self, path: Path, limits: Limits) -> Timeline:
        """Raises TraceError when nothing ran on a GPU, or the file is larger than is read."""
        content, cut_short = whole_content(path, limits, at_most=min(_MOST_BYTES, limits.raw_bytes))
        notes: list[str] = []
        losses: dict[str, int] = {}
        try:
            tools = msgspec.json.decode(content, type=Document).tools
        except (msgspec.DecodeError, RecursionError) as error:
            cut_short = cut_short or "truncated" in str(error) or not content.rstrip().endswith(b"}")
            tools, lost = salvage(content, limits.events)
            losses["lost_broken_json"] = lost
            notes.append("the JSON is broken: records were read one by one, as far as they are whole")
        if cut_short:
            notes.append(ENDS_EARLY)
        columns = _Columns(limits, losses)
        for tool in tools:
            columns.add(tool, path)
        return columns.timeline(path, notes)


class _Columns:
    """Records of all processes in the file, gathered column by column."""

    def __init__(self, limits: Limits, losses: dict[str, int]) -> None:
        self._limits = limits
        self._losses = losses
        self._names: dict[str, int] = {}
        self._threads: dict[tuple[int, int], int] = {}
        self._devices: dict[int, Device] = {}
        gpu = ("start", "end", "device", "stream", "kind", "name", "correlation", "bytes")
        self._gpu: dict[str, list[int]] = {name: [] for name in gpu}
        host = ("start", "end", "thread", "kind", "name", "correlation")
        self._host: dict[str, list[int]] = {name: [] for name in host}

    def add(self, tool: Tool, path: Path) -> None:
        """Takes the records of one process. Raises TraceError beyond the limit of events."""
        records = tool.buffer_records
        total = len(records.kernel_dispatch) + len(records.memory_copy) + len(records.marker_api)
        total += sum(len(getattr(records, table)) for table, _ in _CALLS)
        if total + len(self._gpu["start"]) + len(self._host["start"]) > self._limits.events:
            raise TraceError(
                f"the profile holds more than {self._limits.events} events",
                where=str(path),
                remedy="profile a shorter window (--collection-period)",
            )
        agents = {agent.id.handle: self._device(agent) for agent in tool.agents if agent.type == _GPU_AGENT}
        kernels = {symbol.kernel_id: symbol.text for symbol in tool.kernel_symbols}
        for kernel in records.kernel_dispatch:
            info = kernel.dispatch_info
            name = kernels.get(info.kernel_id) or f"kernel {info.kernel_id}"
            stream = kernel.stream_id.handle if kernel.stream_id is not None else info.queue_id.handle
            self._gpu_event(tool, kernel, GpuKind.KERNEL, name, (agents.get(info.agent_id.handle, 0), stream, -1))
        for copy in records.memory_copy:
            name = _COPIES.get(tool.strings.operation(copy.kind, copy.operation), "Memcpy")
            device = agents.get(copy.dst_agent_id.handle, agents.get(copy.src_agent_id.handle, 0))
            stream = copy.stream_id.handle if copy.stream_id is not None else -1
            self._gpu_event(tool, copy, GpuKind.MEMCPY, name, (device, stream, copy.bytes))
        for table, kind in _CALLS:
            for call in getattr(records, table):
                self._host_event(tool, call, kind, tool.strings.operation(call.kind, call.operation))
        markers = {entry.key: entry.value for entry in tool.strings.marker_api}
        for marker in records.marker_api:
            text = markers.get(marker.correlation_id.internal) or tool.strings.operation(marker.kind, marker.operation)
            self._host_event(tool, marker, HostKind.ANNOTATION, text)

    def _device(self, agent: Agent) -> int:
        number = agent.gpu_index if agent.gpu_index >= 0 else agent.node_id
        known = Device(
            id=number,
            name=(agent.product_name or agent.name)[:80],
            multiprocessors=agent.cu_count or None,
            max_clock_hz=agent.max_engine_clk_fcompute * 1e6 or None,  # the file says MHz
        )
        self._devices.setdefault(number, known)
        return number

    def _sound(self, record: Api) -> bool:
        if 0 <= record.start_timestamp < _LATEST and 0 <= record.end_timestamp < _LATEST:
            return True
        self._losses["lost_no_time"] = self._losses.get("lost_no_time", 0) + 1
        return False

    def _gpu_event(self, tool: Tool, record: Api, kind: GpuKind, name: str, place: tuple[int, int, int]) -> None:
        if not self._sound(record):
            return
        device, stream, moved = place
        values = (
            record.start_timestamp,
            record.end_timestamp,
            device,
            min(stream, _LATEST),
            kind,
            self._name(name),
            _correlation(tool, record),
            min(moved, _LATEST),
        )
        for column, value in zip(self._gpu.values(), values, strict=True):
            column.append(value)

    def _host_event(self, tool: Tool, record: Api, kind: HostKind, name: str) -> None:
        if not self._sound(record):
            return
        thread = self._threads.setdefault((tool.metadata.pid, record.thread_id), len(self._threads))
        correlation = _correlation(tool, record) if kind in (HostKind.RUNTIME, HostKind.DRIVER) else -1
        values = (record.start_timestamp, record.end_timestamp, thread, kind, self._name(name or "?"), correlation)
        for column, value in zip(self._host.values(), values, strict=True):
            column.append(value)

    def _name(self, text: str) -> int:
        text = text[: self._limits.name_chars]
        if text not in self._names and len(self._names) >= self._limits.names:
            text = next(iter(self._names))
        return self._names.setdefault(text, len(self._names))

    def timeline(self, path: Path, notes: list[str]) -> Timeline:
        """Raises TraceError when there is nothing."""
        if not self._gpu["start"] and not self._host["start"]:
            raise TraceError(
                "this rocprofv3 file holds no dispatch, copy or call",
                where=str(path),
                remedy="record with --kernel-trace --memory-copy-trace --hip-trace",
            )
        if self._gpu["start"] and not any(kind == HostKind.RUNTIME for kind in self._host["kind"]):
            notes.append("no HIP calls were recorded (--hip-trace): the causes of idle time stay unknown")
        rest: dict[str, Any] = {
            "threads": tuple(Thread(process=pid, thread=tid) for pid, tid in self._threads),
            "devices": tuple(self._devices[key] for key in sorted(self._devices)),
            "notes": tuple(notes),
        }
        return assemble(
            format="rocprof",
            source=path.name,
            names=tuple(self._names),
            gpu=self._gpu,
            host=self._host,
            losses=self._losses,
            **rest,
        )


def _correlation(tool: Tool, record: Api) -> int:
    """Unique over the processes of a file."""
    number = record.correlation_id.internal
    return (tool.metadata.pid & 0x7FFFFF) << 40 | number & 0xFFFFFFFFFF if number > 0 else -1


READER = RocprofReader()
