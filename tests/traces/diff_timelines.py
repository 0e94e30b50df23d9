"""Small timelines made by hand or by hypothesis, for the differences of traces."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from bakeoff.traces import Timeline
from bakeoff.traces.assemble import assemble
from bakeoff.traces.timeline import Compile, GpuKind, HostKind, Thread

US = 1000

KERNELS = (
    "void gemm_kernel<float>",
    "ncclDevKernel_AllReduce",
    "flash_fwd_kernel",
    "vectorized_elementwise_kernel",
    "nothing_known_about_it",
)


def gpu_timeline(
    kernels: Sequence[tuple[int, int, str, int | None]],
    *,
    copies: Sequence[tuple[int, int]] = (),
    host: Sequence[tuple[int, int, str]] = (),
    steps: Sequence[tuple[int, int]] = (),
    stream: Sequence[int] = (),
    device: int = 0,
    **rest: Any,
) -> Timeline:
    """kernels: (start, end, name, when it was launched or None) in µs; host: data loading and other ranges; steps:
    marked on the host. The launching call takes 1 µs."""
    names: dict[str, int] = {}

    def name(text: str) -> int:
        return names.setdefault(text, len(names))

    gpu: dict[str, list[int]] = {
        k: [] for k in ("start", "end", "device", "stream", "kind", "name", "correlation", "bytes")
    }
    calls: dict[str, list[int]] = {k: [] for k in ("start", "end", "thread", "kind", "name", "correlation")}

    def call(start: int, end: int, kind: HostKind, text: str, correlation: int = -1) -> None:
        for key, value in zip(calls, (start * US, end * US, 0, kind, name(text), correlation), strict=True):
            calls[key].append(value)

    for number, (start, end, text, launched) in enumerate(kernels):
        place = stream[number] if number < len(stream) else 7
        correlation = number + 1 if launched is not None else -1
        values = (start * US, end * US, device, place, GpuKind.KERNEL, name(text), correlation, -1)
        for key, value in zip(gpu, values, strict=True):
            gpu[key].append(value)
        if launched is not None:
            call(launched, launched + 1, HostKind.RUNTIME, "cudaLaunchKernel", correlation)
    for start, end in copies:
        values = (start * US, end * US, device, 9, GpuKind.MEMCPY, name("Memcpy HtoD (Pageable -> Device)"), -1, 64)
        for key, value in zip(gpu, values, strict=True):
            gpu[key].append(value)
    for start, end, text in host:
        call(start, end, HostKind.ANNOTATION, text)
    for number, (start, end) in enumerate(steps):
        call(start, end, HostKind.ANNOTATION, f"ProfilerStep#{number}")
    return assemble(
        format="test",
        names=tuple(names) or ("",),
        gpu=gpu if gpu["start"] else {},
        host=calls if calls["start"] else {},
        threads=(Thread(process=1, thread=1),),
        **rest,
    )


def cpu_timeline(ops: Sequence[tuple[int, int, str]], steps: Sequence[tuple[int, int]] = (), **rest: Any) -> Timeline:
    """Operators in µs, without any GPU."""
    names = {text: i for i, text in enumerate(dict.fromkeys(text for _, _, text in ops))}
    marks = {f"ProfilerStep#{i}": len(names) + i for i in range(len(steps))}
    rows = [(a * US, b * US, 0, HostKind.OP, names[text]) for a, b, text in ops]
    rows += [(a * US, b * US, 0, HostKind.ANNOTATION, mark) for (a, b), mark in zip(steps, marks.values(), strict=True)]
    columns = dict(zip(("start", "end", "thread", "kind", "name"), zip(*rows, strict=True), strict=True))
    return assemble(
        format="test",
        names=(*names, *marks),
        gpu={},
        host={key: list(value) for key, value in columns.items()},
        threads=(Thread(process=1, thread=1),),
        **rest,
    )


def compile_timeline(events: Sequence[tuple[str, str, float | None]]) -> Timeline:
    """(kind, frame, seconds)."""
    compiles = tuple(Compile(kind=kind, frame=frame, seconds=seconds) for kind, frame, seconds in events)
    return assemble(format="torch_trace", names=(), gpu={}, host={}, compiles=compiles)


_KERNEL = st.tuples(
    st.integers(0, 5000),
    st.integers(0, 400),
    st.sampled_from(KERNELS),
    st.one_of(st.none(), st.integers(0, 5000)),
    st.integers(7, 9),
)


@st.composite
def gpu_timelines(draw: st.DrawFn, steps: bool | None = None) -> Timeline:
    """Kernels on up to three streams, overlapping or not, launched at any time or unlinked; copies; host ranges."""
    kernels = draw(st.lists(_KERNEL, min_size=1, max_size=25))
    copies = draw(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 300)), max_size=4))
    ranges = st.tuples(st.integers(0, 5000), st.integers(0, 900), st.sampled_from(["DataLoader", "my range"]))
    host = draw(st.lists(ranges, max_size=5))
    marked = draw(st.booleans()) if steps is None else steps
    edges = sorted(draw(st.sets(st.integers(0, 5000), min_size=2, max_size=6))) if marked else []
    return gpu_timeline(
        [(start, start + length, name, launched) for start, length, name, launched, _ in kernels],
        copies=[(start, start + length) for start, length in copies],
        host=[(start, start + length, name) for start, length, name in host],
        steps=list(pairwise(edges)),
        stream=[place for *_, place in kernels],
    )


@st.composite
def cpu_timelines(draw: st.DrawFn) -> Timeline:
    """Operators of one thread, nested or not."""
    op = st.tuples(st.integers(0, 3000), st.integers(1, 500), st.sampled_from(["aten::mm", "Add", "strange::op"]))
    ops = draw(st.lists(op, min_size=1, max_size=20))
    edges = sorted(draw(st.sets(st.integers(0, 3500), max_size=5)))
    return cpu_timeline([(start, start + length, name) for start, length, name in ops], list(pairwise(edges)))
