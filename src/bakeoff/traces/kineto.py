"""Kineto JSON: what PyTorch's profiler writes (Chrome trace format), from 2021 to today, on CUDA, ROCm, XPU and CPU.

``ts`` and ``dur`` are µs, whatever ``displayTimeUnit`` says. A launch and its kernels share ``args.correlation``; where
events lack it, the flow arrows (``ac2g``, ``async_cpu_to_gpu``, ``async``) take its place.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .limits import Limits, TraceError

if TYPE_CHECKING:
    from .json_array import EventArray
    from .kineto_columns import KinetoColumns
    from .kineto_events import Event
    from .timeline import Timeline

_MARKS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"baseTimeNanoseconds"', b'"distributedInfo"')
_PHASES = re.compile(rb'"ph"\s*:\s*"[XBEiMsftbneC]"')
# A bare array is Kineto's when its categories are; other tools write bare arrays of the same shape.
_CATEGORIES = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|kernel|cuda_runtime|user_annotation|python_function|Operator|Kernel)"'
)


class KinetoReader:
    """The reader of Kineto JSON, plain or gzip."""

    name = "kineto"

    def recognises(self, head: bytes, path: Path) -> bool:
        """By its keys: a Chrome trace object, or a bare array of events with Kineto's categories."""
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if start[:1] == b"{":
            return any(mark in head for mark in _MARKS)
        return start[:1] == b"[" and bool(_PHASES.search(head)) and bool(_CATEGORIES.search(head))

    def read(self, path: Path, limits: Limits) -> Timeline:
        """Streams the file; raises TraceError when it holds no usable event."""
        from .kineto_columns import KinetoColumns

        array, decoder = _events(path, limits)
        columns = KinetoColumns(limits, str(path))
        for block in array.blocks():
            columns.add(block)
        if columns.unlinked:
            flows, _ = _events(path, limits)
            for block in flows.blocks():
                columns.add_flows(block)
        losses = {
            **columns.losses,
            "lost_broken_json": array.lost,
            "lost_unusable": columns.losses.get("lost_unusable", 0) + decoder.unusable,
            "repaired_json": array.repaired,
        }
        if not columns.total and array.lost:
            raise TraceError(
                "none of its events can be read", where=str(path), remedy="the file is damaged; export the trace again"
            )
        return _timeline(path, array, columns, losses)


READER = KinetoReader()


def _events(path: Path, limits: Limits) -> tuple[EventArray[Event], Any]:
    from .json_array import EventArray
    from .kineto_events import EventDecoder

    decoder = EventDecoder()
    return EventArray(path, limits, decoder), decoder


def _timeline(path: Path, array: EventArray[Event], columns: KinetoColumns, losses: dict[str, int]) -> Timeline:
    from .assemble import assemble
    from .kineto_meta import base_ns, device_facts, distributed, facts
    from .words import ENDS_EARLY, counted

    gpu, host, waits = columns.tables()
    notes = []
    if array.cut_short:
        notes.append(ENDS_EARLY)
    if array.repaired:
        mended = counted(array.repaired, "event")
        notes.append(f"{mended} read only after mending the text (bad quotes, N/A, control characters)")
    if columns.used_flows:
        notes.append("launches are linked to kernels by flow arrows: the events carry no correlation")
    rank, world_size = distributed(array.metadata, array.metadata_text)
    return assemble(
        format="kineto",
        source=path.name,
        version=facts(array.metadata).get("schemaVersion", ""),
        base_ns=base_ns(array.metadata, array.metadata_text),
        names=columns.names.texts,
        gpu=gpu,
        host=host,
        waits=waits,
        threads=columns.threads_with_names(),
        devices=device_facts(array.metadata),
        details=columns.details(),
        rank=rank,
        world_size=world_size,
        losses=losses,
        notes=tuple(notes),
        facts={key: value for key, value in facts(array.metadata).items() if key != "schemaVersion"},
    )
