"""Writes small Kineto traces: the events of a given era and platform, with times of the test's own."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

HOST, STREAM = 4242, 7
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
GEMM = "ampere_sgemm_128x64_tn"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def gpu(ts: float, dur: float, name: str = KERNEL, *, cat: str = "kernel", **args: Any) -> dict[str, Any]:
    """A GPU event; correlation, device and stream can be given."""
    args = {"device": 0, "stream": STREAM, **args}
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": STREAM, "ts": ts, "dur": dur, "args": args}


def call(ts: float, dur: float, correlation: int, name: str = "cudaLaunchKernel", **args: Any) -> dict[str, Any]:
    """A runtime call."""
    args = {"cbid": 211, "correlation": correlation, **args}
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": name,
        "pid": HOST,
        "tid": HOST,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def op(ts: float, dur: float, name: str = "aten::add", *, cat: str = "cpu_op", **args: Any) -> dict[str, Any]:
    """An operator, an annotation or a Python function."""
    return {"ph": "X", "cat": cat, "name": name, "pid": HOST, "tid": HOST, "ts": ts, "dur": dur, "args": args}


def launched(ts: float, dur: float, correlation: int, name: str = KERNEL, *, early: float = 5) -> list[dict[str, Any]]:
    """A kernel and its launch call, which began ``early`` µs before it."""
    return [call(ts - early, 3, correlation), gpu(ts, dur, name, correlation=correlation)]


def external(number: int) -> dict[str, Any]:
    """The args that name the operator's number."""
    return {"External id": number}


def of_graph(number: int) -> dict[str, Any]:
    """The args that name the graph."""
    return {"graph id": number}


def document(events: list[dict[str, Any]], **around: Any) -> str:
    """The file's text, in the layout that Kineto writes."""
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108}]}
    text = json.dumps({**head, **around, "traceEvents": []}, indent=2)
    body = ",\n".join(json.dumps(event, indent=1) for event in events)
    return text.replace('"traceEvents": []', '"traceEvents": [\n' + body + "\n]")


def write(path: Path, text: str, *, packed: bool = False) -> Path:
    """Writes the text, gzip-packed if asked."""
    data = text.encode("utf-8", "surrogateescape")
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def training(steps: int = 3) -> list[dict[str, Any]]:
    """A believable loop: steps with operators, launches, kernels, copies, and a late host between the steps."""
    events: list[dict[str, Any]] = []
    correlation = 100
    for step in range(steps):
        at = 1_000_000 + 1000 * step
        events.append(op(at, 900, f"ProfilerStep#{step}", cat="user_annotation"))
        events.append(op(at, 300, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", cat="user_annotation"))
        for k in range(4):
            correlation += 1
            ts = at + 310 + 100 * k
            dims: dict[str, Any] = {"Input Dims": [[64, 128], [128, 256]], "Input type": ["float", "float"]}
            events.append(op(ts, 40, "aten::mm", **external(correlation), **dims))
            events.append(call(ts + 10, 5, correlation, **external(correlation)))
            events.append(gpu(ts + 30, 60, GEMM, correlation=correlation, **external(correlation)))
        correlation += 1
        events.append(call(at + 720, 5, correlation, "cudaMemcpyAsync"))
        events.append(
            gpu(at + 740, 20, "Memcpy DtoH (Device -> Pinned)", cat="gpu_memcpy", correlation=correlation, bytes=4096)
        )
    return events
