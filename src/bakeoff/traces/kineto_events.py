"""The events of a Kineto JSON file: their shapes, and how a block of them is decoded whatever odd types it holds."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from .timeline import GpuKind, HostKind, WaitKind

Number = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """What is used of an event's args; the rest is skipped without being built."""

    external: Number = msgspec.field(default=None, name="External id")
    external_old: Number = msgspec.field(default=None, name="external id")
    correlation: Number = None
    device: Number = None
    stream: Number = None
    bytes: Number = None
    graph: Number = msgspec.field(default=None, name="graph id")
    sync: str | None = msgspec.field(default=None, name="cuda_sync_kind")
    name: Number = None  # of a process or thread (metadata events)
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input type")


class Event(msgspec.Struct, gc=False):
    """One event. Times in µs, as number or text."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Number = None
    tid: Number = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None
    id: Number = None


class _Loose(msgspec.Struct, gc=False):
    """The same with nothing said about types."""

    ph: Any = ""
    cat: Any = ""
    name: Any = ""
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Any = None
    id: Any = None


# Lower-cased, so that the names of 2021 ("Kernel", "Operator") are the same words.
GPU_KINDS = {
    "kernel": GpuKind.KERNEL,
    "concurrent_kernel": GpuKind.KERNEL,
    "mtia_ccp_events": GpuKind.KERNEL,
    "hpu_op": GpuKind.KERNEL,
    "xpu_kernel": GpuKind.KERNEL,
    "gpu_memcpy": GpuKind.MEMCPY,
    "memcpy": GpuKind.MEMCPY,
    "xpu_memcpy": GpuKind.MEMCPY,
    "gpu_memset": GpuKind.MEMSET,
    "memset": GpuKind.MEMSET,
    "xpu_memset": GpuKind.MEMSET,
}
HOST_KINDS = {
    "cpu_op": HostKind.OP,
    "operator": HostKind.OP,
    "cuda_runtime": HostKind.RUNTIME,
    "runtime": HostKind.RUNTIME,
    "xpu_runtime": HostKind.RUNTIME,
    "mtia_runtime": HostKind.RUNTIME,
    "glow_runtime": HostKind.RUNTIME,
    "privateuse1_runtime": HostKind.RUNTIME,
    "cuda_driver": HostKind.DRIVER,
    "xpu_driver": HostKind.DRIVER,
    "privateuse1_driver": HostKind.DRIVER,
    "python_function": HostKind.PYTHON,
    "user_annotation": HostKind.ANNOTATION,
    "overhead": HostKind.OVERHEAD,
}
WAIT_KINDS = {
    "event sync": WaitKind.EVENT,
    "stream wait event": WaitKind.STREAM_WAIT,
    "stream sync": WaitKind.STREAM,
    "context sync": WaitKind.DEVICE,
    "device sync": WaitKind.DEVICE,
}
# Numbers in texts such as "stream 7", "0x1f", "12".
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|-?\d+")


_DOUBLE_HOLDS_US = 2.0**42  # up to here a double's step is under 0.5 ns


class EventDecoder:
    """Decodes arrays of events.

    exact: keep times with a fraction as text, so that no digit is lost: a double holds µs since 1970 only to 0.25 µs.
    Switches itself on with the first such time.
    unusable: events that are sound JSON but hold no event (no object, impossible numbers).
    """

    def __init__(self) -> None:
        self.unusable = 0
        self._list = msgspec.json.Decoder(list[Event])
        self._exact = msgspec.json.Decoder(list[Event], float_hook=str)
        self._raws = msgspec.json.Decoder(list[msgspec.Raw])
        self.exact = False

    def __call__(self, text: bytes | memoryview) -> list[Event]:
        """Raises msgspec.DecodeError (not its subclass ValidationError) or RecursionError for broken JSON."""
        try:
            if not self.exact:
                events = self._list.decode(text)
                # One in sixteen tells: a file writes all its times in one way.
                if not any(type(event.ts) is float and event.ts > _DOUBLE_HOLDS_US for event in events[::16]):
                    return events
                self.exact = True
            return self._exact.decode(text)
        except msgspec.ValidationError:
            raws = self._raws.decode(text)
        events = []
        for raw in raws:
            event = _loosely(bytes(raw))
            if event is not None:
                events.append(event)
            elif _is_range(bytes(raw)):
                self.unusable += 1
        return events


class _Phase(msgspec.Struct, gc=False):
    ph: Any = "X"


def _is_range(text: bytes) -> bool:
    """False for what is no event with a duration (marks such as "Record Window End" hold impossible times)."""
    try:
        return bool(msgspec.json.decode(text, type=_Phase).ph == "X")
    except (msgspec.DecodeError, RecursionError):
        return True


def _loosely(text: bytes) -> Event | None:
    """An event of unexpected types, as far as it makes sense."""
    try:
        return msgspec.json.decode(text, type=Event, strict=False)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        loose = msgspec.json.decode(text, type=_Loose)
    except (msgspec.DecodeError, RecursionError):
        return None
    args = loose.args if isinstance(loose.args, dict) else {}
    return Event(
        ph=str(loose.ph),
        cat=str(loose.cat),
        name=str(loose.name),
        pid=_plain(loose.pid),
        tid=_plain(loose.tid),
        ts=_plain(loose.ts),
        dur=_plain(loose.dur),
        args=Args(
            external=_plain(args.get("External id")),
            external_old=_plain(args.get("external id")),
            correlation=_plain(args.get("correlation")),
            device=_plain(args.get("device")),
            stream=_plain(args.get("stream")),
            bytes=_plain(args.get("bytes")),
            graph=_plain(args.get("graph id")),
            name=_plain(args.get("name")),
        ),
        id=_plain(loose.id),
    )


def _plain(value: Any) -> Number:
    return value if isinstance(value, int | float | str) else None


_BIG = 1 << 62


def integer(value: Number, default: int = -1) -> int:
    """A whole number from whatever stands for one: 7, 7.0, "stream 7", "0x1f"; ``default`` for anything else."""
    if isinstance(value, str):
        match = _NUMBER.search(value[:64])
        if match is None:
            return default
        value = int(match[0], 0) if "x" in match[0].lower() else int(match[0])
    if value is None or not -_BIG < value < _BIG:  # also not for NaN
        return default
    return int(value)


def nanoseconds(value: Any) -> int | None:
    """µs as number or text → whole ns without loss of digits; None when it is no time."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        whole, point, fraction = value.partition(".")
        if point and whole.lstrip("-").isdigit() and fraction.isdigit() and len(whole) < 17:
            # Three decimals are ns; further ones are below the clock's resolution.
            size = int((fraction + "000")[:3])
            return int(whole) * 1000 + (-size if whole.startswith("-") else size)
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int):
        return value * 1000 if abs(value) < _BIG // 1000 else None
    if isinstance(value, float) and abs(value) < _BIG // 1000:
        return round(value * 1000)
    return None
