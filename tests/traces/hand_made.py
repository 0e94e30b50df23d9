"""Timelines made by hand, in µs, for tests of analyses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bakeoff.traces.assemble import assemble
from bakeoff.traces.timeline import Compile, Detail, Device, GpuKind, HostKind, Thread, Timeline

ADD = "vectorized_elementwise_kernel"
NCCL = "ncclDevKernel_AllReduce_Sum"


@dataclass(frozen=True, kw_only=True)
class Gpu:
    start: float
    end: float
    name: str = ADD
    stream: int = 7
    device: int = 0
    kind: GpuKind = GpuKind.KERNEL
    correlation: int = -1
    external: int = -1
    graph: int = -1
    bytes: int = -1


@dataclass(frozen=True, kw_only=True)
class Host:
    start: float
    end: float
    name: str = "cudaLaunchKernel"
    kind: HostKind = HostKind.RUNTIME
    thread: int = 0
    correlation: int = -1
    external: int = -1
    detail: int = -1


def timeline(
    gpu: Sequence[Gpu] = (),
    host: Sequence[Host] = (),
    *,
    details: Sequence[Detail] = (),
    devices: Sequence[Device] = (),
    compiles: Sequence[Compile] = (),
    losses: dict[str, int] | None = None,
) -> Timeline:
    """µs → a Timeline."""
    events: list[Gpu | Host] = [*gpu, *host]
    names = list(dict.fromkeys(event.name for event in events))
    number = {name: index for index, name in enumerate(names)}

    def columns(events: Sequence[Any], fields: Sequence[str]) -> dict[str, list[int]]:
        table = {field: [int(getattr(event, field)) for event in events] for field in fields}
        for edge in ("start", "end"):
            table[edge] = [round(getattr(event, edge) * 1000) for event in events]
        table["name"] = [number[event.name] for event in events]
        return table

    threads = max((event.thread for event in host), default=0) + 1
    return assemble(
        format="test",
        names=names,
        gpu=columns(gpu, ("device", "stream", "kind", "correlation", "external", "graph", "bytes")),
        host=columns(host, ("thread", "kind", "correlation", "external", "detail")),
        threads=tuple(Thread(process=1, thread=k) for k in range(threads)),
        details=tuple(details),
        devices=tuple(devices),
        compiles=tuple(compiles),
        losses=losses,
    )
