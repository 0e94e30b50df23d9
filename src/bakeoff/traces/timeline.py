"""The Timeline: one trace of any format as columns of numbers, so that every analysis is a few array operations.

Contract for readers
- All times are int64 nanoseconds on one clock; ``base_ns`` added to them gives Unix time, when the format says so.
- Build a Timeline with `bakeoff.traces.assemble.assemble`: it sorts, clamps, counts and links. Readers deliver columns.
- −1 stands for "the trace does not say" in every integer column but ``start``, ``end``, ``device`` and ``stream``.
- ``correlation`` is the number that a launch call shares with what it launched. It is unique within the trace: a
  reader of several processes folds the process in (for example ``pid << 32 | correlation``).
- ``external`` is the number that an operator shares with its launches and kernels, with the same rule.
- What a reader could not use is counted in ``losses`` (machine-readable word → count); what a person should know is a
  sentence in ``notes``. Nothing is dropped silently. Environment and command lines never enter a Timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    SmallInts = NDArray[np.int32]
    Bytes = NDArray[np.int8]


class GpuKind(IntEnum):
    """What a GPU event is."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2


class HostKind(IntEnum):
    """What a host event is. The finer question, what the thread was busy with, is answered by its name."""

    OP = 0  # an operator: aten::mm, an ONNX Runtime node
    RUNTIME = 1  # a call of the CUDA, HIP or XPU runtime: cudaLaunchKernel
    DRIVER = 2  # a call of the driver below it: cuLaunchKernelEx
    PYTHON = 3  # a Python function
    ANNOTATION = 4  # a range that somebody marked: record_function, NVTX, ProfilerStep#3
    OVERHEAD = 5  # the profiler's own work
    OTHER = 6


class WaitKind(IntEnum):
    """What a stream or the host waited for, where the trace records waits (CUPTI synchronisation records)."""

    EVENT = 0  # the host waits for an event
    STREAM_WAIT = 1  # a stream waits for an event of another one
    STREAM = 2  # the host waits for a stream
    DEVICE = 3  # the host waits for the whole device


@dataclass(frozen=True, kw_only=True, eq=False)
class GpuEvents:
    """What ran on devices, sorted by start. All columns have the same length."""

    start: Ints
    end: Ints  # ≥ start
    device: SmallInts
    stream: Ints
    kind: Bytes  # GpuKind
    name: SmallInts  # index into Timeline.names
    correlation: Ints
    external: Ints
    graph: Ints  # number of the graph (or of its launch) that it was replayed from; −1: launched by itself
    bytes: Ints  # bytes moved (copies and memsets)
    launch: SmallInts  # index into HostEvents of the call that launched it
    op: SmallInts  # index into HostEvents of the operator that launched it

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, kw_only=True, eq=False)
class HostEvents:
    """What ran on host threads, sorted by start."""

    start: Ints
    end: Ints  # ≥ start
    thread: SmallInts  # index into Timeline.threads
    kind: Bytes  # HostKind
    name: SmallInts  # index into Timeline.names
    correlation: Ints
    external: Ints
    detail: SmallInts  # index into Timeline.details: the arguments' shapes

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, kw_only=True, eq=False)
class Waits:
    """Recorded synchronisations, sorted by start; may be empty."""

    start: Ints
    end: Ints
    device: SmallInts
    stream: Ints
    kind: Bytes  # WaitKind

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """Marked iterations (ProfilerStep#3, an NVTX range per step), in order of time and not overlapping."""

    start: Ints
    end: Ints
    number: Ints  # the trace's own number of the step
    label: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, kw_only=True)
class Thread:
    """A host thread. ``name`` is "" when unknown."""

    process: int
    thread: int
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Device:
    """What the trace says about a device; None: it does not say."""

    id: int
    name: str = ""
    memory_bytes: int | None = None
    memory_bandwidth: float | None = None  # bytes/s, the theoretical peak
    compute_capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    max_clock_hz: float | None = None


@dataclass(frozen=True, kw_only=True)
class Detail:
    """An operator's arguments, as far as a roofline needs them: shapes (() for a scalar), types as the trace words."""

    input_dims: tuple[tuple[int, ...], ...] = ()
    input_types: tuple[str, ...] = ()
    output_dims: tuple[tuple[int, ...], ...] = ()
    output_types: tuple[str, ...] = ()
    op_type: str = ""  # ONNX Runtime's op_name
    provider: str = ""  # ONNX Runtime's execution provider


@dataclass(frozen=True, kw_only=True)
class Compile:
    """One event of a compiler: a compilation, a recompilation (with the guard that failed) or a graph break."""

    kind: str  # "compile" | "recompile" | "graph break"
    frame: str  # which function, for example "forward (model.py:12)"
    reason: str = ""
    seconds: float | None = None
    at_ns: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline:
    """One trace.

    format: the reader's name. version: of the producing tool or schema, as the trace says. source: the file's name.
    rank/world_size: of a distributed job; None when the trace does not say.
    losses: word → count of what was clamped, lost or left out, for example {"broken_json": 3, "negative_duration": 1}.
    facts: small texts about the trace worth showing (graph trace mode, profiler versions); never secrets.
    """

    format: str
    version: str = ""
    source: str = ""
    base_ns: int = 0
    names: tuple[str, ...]
    gpu: GpuEvents
    host: HostEvents
    waits: Waits
    steps: Steps
    threads: tuple[Thread, ...] = ()
    devices: tuple[Device, ...] = ()
    details: tuple[Detail, ...] = ()
    compiles: tuple[Compile, ...] = ()
    rank: int | None = None
    world_size: int | None = None
    losses: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def lost_events(self) -> int:
        """Events that could not be read at all (clamped ones were read)."""
        return sum(count for word, count in self.losses.items() if word.startswith("lost_"))

    @cached_property
    def device_ids(self) -> tuple[int, ...]:
        """Devices on which something ran, in order."""
        import numpy as np

        return tuple(int(d) for d in np.unique(self.gpu.device))

    @cached_property
    def memo(self) -> dict[str, Any]:
        """Room for analyses to keep what several of them need (categories by name, nesting of operators)."""
        return {}

    def device(self, device_id: int) -> Device:
        """The facts of a device (empty ones when the trace has none)."""
        return next((d for d in self.devices if d.id == device_id), Device(id=device_id))
