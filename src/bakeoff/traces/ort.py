"""ONNX Runtime profiles: a bare JSON array of sessions, nodes and, with a GPU provider, kernels. Times in µs.

Every node is an operator on the host. Where no kernels are recorded the nodes are the work itself: a CPU's timeline.
A node's name is the graph's; what it does is its ``op_name`` (a Detail), which is what categories go by.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .assemble import assemble
from .json_repair import repaired
from .limits import Limits, TraceError
from .opening import whole_content
from .timeline import Detail, Device, GpuKind, HostKind, Steps, Thread
from .words import ENDS_EARLY

if TYPE_CHECKING:
    from .timeline import Timeline

_HEAD = re.compile(rb'^\s*\[\s*\{\s*"cat"\s*:\s*"(?:Session|Node|Api|Kernel)"')
_STEP = "model_run"
_SUFFIX = re.compile(r"_kernel_time$|_fence_(?:before|after)$")
_MOST = float(1 << 52)  # µs; beyond it the nanoseconds of a double and of an int64 part ways
_MOST_SHAPES = 64


class OrtEvent(msgspec.Struct):
    """One event, whatever its fields hold."""

    cat: Any = None
    name: Any = None
    ts: Any = None
    dur: Any = None
    pid: Any = None
    tid: Any = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


_WHOLE = msgspec.json.Decoder(list[OrtEvent])
_ONE = msgspec.json.Decoder(OrtEvent)
_ARGS = msgspec.json.Decoder(dict[str, Any])


def _events(content: bytes) -> tuple[list[OrtEvent], dict[str, int]]:
    """(the events, what was lost). A broken file is read line by line: the profiler writes one event a line."""
    try:
        return _WHOLE.decode(content), {}
    except (msgspec.DecodeError, RecursionError):
        pass
    found: list[OrtEvent] = []
    losses = {"lost_broken_json": 0, "repaired_json": 0}
    for line in content.splitlines():
        text = line.strip().removeprefix(b"[").removesuffix(b"]").strip().rstrip(b",")
        if not text:
            continue
        if (event := _single(text)) is not None:
            found.append(event)
        elif (event := _single(repaired(text))) is not None:
            found.append(event)
            losses["repaired_json"] += 1
        else:
            losses["lost_broken_json"] += 1
    return found, losses


def _single(text: bytes) -> OrtEvent | None:
    try:
        return _ONE.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


class OrtReader:
    """Reads what ``SessionOptions.enable_profiling`` writes."""

    name = "ort"

    def recognises(self, head: bytes, path: Path) -> bool:
        return _HEAD.match(head) is not None

    def read(self, path: Path, limits: Limits) -> Timeline:
        """Raises TraceError when the file holds no node, or more events than the limits allow."""
        content, cut_short = whole_content(path, limits)
        events, losses = _events(content)
        if len(events) > limits.events:
            raise TraceError(
                f"the profile holds more than {limits.events} events", where=str(path), remedy="profile fewer runs"
            )
        columns = _Columns(limits)
        for event in events:
            columns.add(event)
        if not columns.nodes and not columns.gpu["start"]:
            raise TraceError(
                "this ONNX Runtime profile holds no node: nothing was run while it recorded",
                where=str(path),
                remedy="run the model at least once before the session ends",
            )
        columns.losses |= {word: columns.losses.get(word, 0) + count for word, count in losses.items()}
        cut_short = cut_short or not content.rstrip().endswith(b"]")
        notes = (ENDS_EARLY,) if cut_short else ()
        return columns.timeline(path, notes)


class _Columns:
    """Events gathered column by column."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._names: dict[str, int] = {}
        self._details: dict[Detail, int] = {}
        self._threads: dict[tuple[int, int], int] = {}
        self._steps: list[tuple[int, int]] = []
        self._providers: dict[str, int] = {}
        self.host: dict[str, list[int]] = {k: [] for k in ("start", "end", "thread", "kind", "name", "detail")}
        self.gpu: dict[str, list[int]] = {k: [] for k in ("start", "end", "device", "stream", "kind", "name")}
        self.losses: dict[str, int] = {}
        self.nodes = 0

    def add(self, event: OrtEvent) -> None:
        """Takes one event; what has no time is counted as lost."""
        start, length = _number(event.ts), _number(event.dur)
        if start is None or length is None or not isinstance(event.name, str):
            self._lose("lost_unusable")
            return
        # Microseconds: integers, or with decimals when a newer clock gives them.
        begin, end = round(start * 1000), round((start + length) * 1000)
        args = self._args(event.args) if event.cat in ("Node", "Kernel") else {}
        if event.cat == "Kernel":
            self._add_kernel(event.name, begin, end, args)
            return
        kind, name = HostKind.ANNOTATION, event.name
        if event.cat == "Node":
            kind = HostKind.OP if name.endswith("_kernel_time") else HostKind.OTHER
            self.nodes += kind is HostKind.OP
            name = _SUFFIX.sub("", name) or name
        elif event.cat == "Session" and name == _STEP:
            self._steps.append((begin, end))
        self.host["start"].append(begin)
        self.host["end"].append(end)
        self.host["thread"].append(self._thread(event))
        self.host["kind"].append(kind)
        self.host["name"].append(self._name(name))
        self.host["detail"].append(self._detail(event, args) if kind is HostKind.OP else -1)

    def _add_kernel(self, name: str, begin: int, end: int, args: Mapping[str, Any]) -> None:
        copy = GpuKind.MEMCPY if re.match(r"(?i)memcpy", name) else GpuKind.KERNEL
        self.gpu["start"].append(begin)
        self.gpu["end"].append(end)
        self.gpu["device"].append(_small(args.get("device_id", args.get("device")), 0, 4095))
        self.gpu["stream"].append(_small(args.get("stream"), 0))
        self.gpu["kind"].append(copy)
        self.gpu["name"].append(self._name(name))

    def _args(self, raw: msgspec.Raw) -> dict[str, Any]:
        try:
            return _ARGS.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            self._lose("unreadable_args")
            return {}

    def _lose(self, word: str) -> None:
        self.losses[word] = self.losses.get(word, 0) + 1

    def _name(self, text: str) -> int:
        text = text[: self._limits.name_chars]
        if text not in self._names and len(self._names) >= self._limits.names:
            text = next(iter(self._names))
            self._lose("unnamed")
        return self._names.setdefault(text, len(self._names))

    def _thread(self, event: OrtEvent) -> int:
        key = (_small(event.pid, -1), _small(event.tid, -1))
        return self._threads.setdefault(key, len(self._threads))

    def _detail(self, event: OrtEvent, args: Mapping[str, Any]) -> int:
        dims_in, types_in = _shapes(args.get("input_type_shape"))
        dims_out, types_out = _shapes(args.get("output_type_shape"))
        provider = str(args.get("provider") or "")[:80]
        self._providers[provider] = self._providers.get(provider, 0) + 1
        detail = Detail(
            input_dims=dims_in,
            input_types=types_in,
            output_dims=dims_out,
            output_types=types_out,
            op_type=str(args.get("op_name") or "")[:80],
            provider=provider,
        )
        return self._details.setdefault(detail, len(self._details))

    def timeline(self, path: Path, notes: tuple[str, ...]) -> Timeline:
        import numpy as np

        runs = sorted(self._steps)
        kept = [run for i, run in enumerate(runs) if i == 0 or run[0] >= runs[i - 1][1]]
        if len(kept) < len(runs):
            self.losses["overlapping_steps"] = len(runs) - len(kept)
        provider = max(self._providers, key=lambda p: self._providers[p], default="")
        return assemble(
            format="ort",
            source=path.name,
            names=tuple(self._names),
            gpu=self.gpu,
            host=self.host,
            steps=Steps(
                start=np.array([a for a, _ in kept], np.int64),
                end=np.array([b for _, b in kept], np.int64),
                number=np.arange(len(kept), dtype=np.int64),
                label=tuple(_STEP for _ in kept),
            ),
            losses=self.losses,
            threads=tuple(Thread(process=pid, thread=tid) for pid, tid in self._threads),
            devices=(Device(id=0),) if self.gpu["start"] else (),
            details=tuple(self._details),
            notes=notes,
            facts={"provider": provider} if provider else {},
        )


def _number(value: object) -> float | None:
    """A time in µs that the nanosecond columns can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -_MOST < value < _MOST else None


def _small(value: object, default: int, most: int = 1 << 62) -> int:
    """A whole number up to `most` (a stream, a process), also where the file writes it as text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 18:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return default
    return value if 0 <= value <= most else default


def _shapes(value: object) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """``[{"float": [16, 256]}, {"int8": []}]`` → ((16, 256), ()), ("float", "int8")."""
    if not isinstance(value, list):
        return (), ()
    dims: list[tuple[int, ...]] = []
    types: list[str] = []
    for entry in value[:_MOST_SHAPES]:
        if isinstance(entry, dict) and len(entry) == 1:
            [(kind, shape)] = entry.items()
            listed = shape if isinstance(shape, list) else []
            dims.append(tuple(d for d in listed[:16] if isinstance(d, int) and 0 <= d < 1 << 40))
            types.append(str(kind)[:40])
    return tuple(dims), tuple(types)


READER = OrtReader()
