"""Each analysis on a small timeline whose answer is known."""

from __future__ import annotations

from typing import Any

import pytest

from bakeoff.traces import Timeline, analyse
from bakeoff.traces.peaks import peaks_of
from bakeoff.traces.section import Section
from bakeoff.traces.timeline import Compile, Detail, Device, GpuKind, HostKind
from bakeoff.traces.work import work_of

from .hand_made import Gpu, Host, timeline


def _section(found: Timeline, name: str) -> Section:
    section = analyse(found).section(name)
    assert section is not None
    assert section.counted
    assert all(len(row) == len(section.columns) for row in section.rows)
    return section


def _data(found: Timeline, name: str) -> Any:
    return _section(found, name).data


def test_top_kernels_by_total_time() -> None:
    found = timeline([Gpu(start=0, end=10, name="sgemm"), *[Gpu(start=20 * k, end=20 * k + 6) for k in range(1, 4)]])
    top = _data(found, "kernels")["top"]
    assert [(k["category"], k["count"], k["total_ms"]) for k in top] == [("elementwise", 3, 0.018), ("gemm", 1, 0.01)]
    assert top[0]["share_pct"] == pytest.approx(100 * 18 / 28)
    assert top[0]["mean_us"] == pytest.approx(6)


def test_copies_by_direction_with_their_rate() -> None:
    found = timeline(
        [
            Gpu(start=0, end=10, name="Memcpy HtoD", kind=GpuKind.MEMCPY, bytes=100_000),
            Gpu(start=20, end=30, name="Memcpy HtoD", kind=GpuKind.MEMCPY),  # its size is not known
            Gpu(start=40, end=41, name="Memset", kind=GpuKind.MEMSET),
        ]
    )
    kinds = _data(found, "copies")["kinds"]
    assert kinds[0] == {
        "kind": "Memcpy HtoD", "count": 2, "ms": pytest.approx(0.02), "bytes": 100_000, "gb_per_s": pytest.approx(10.0),
    }  # fmt: skip
    assert kinds[1]["bytes"] is None


def test_the_ledger_of_quantisation_names_unfused_weights() -> None:
    section = _section(
        timeline([Gpu(start=0, end=30, name="dequantize_block_q4_K"), Gpu(start=40, end=50, name="sgemm")]),
        "quantisation",
    )
    (entry,) = section.data["entries"]
    assert (entry["kind"], entry["count"], entry["ms"]) == ("dequantise", 1, 0.03)
    assert entry["share_pct"] == pytest.approx(75.0)
    assert section.notes
    fused = timeline([Gpu(start=0, end=30, name="dequantize_x"), Gpu(start=40, end=50, name="gptq_marlin::Marlin<1>")])
    assert not _section(fused, "quantisation").notes
    assert analyse(timeline([Gpu(start=0, end=3)])).section("quantisation") is None


def test_on_a_cpu_the_ledger_is_of_operators() -> None:
    found = timeline(
        [],
        [
            Host(start=1, end=31, name="node1_kernel_time", kind=HostKind.OP, detail=0),
            Host(start=40, end=50, name="node2_kernel_time", kind=HostKind.OP, detail=1),
        ],
        details=[Detail(op_type="DequantizeLinear"), Detail(op_type="MatMul")],
    )
    (entry,) = _data(found, "quantisation")["entries"]
    assert (entry["kind"], entry["ms"], entry["share_pct"]) == ("dequantise", 0.03, 75.0)
    top = _data(found, "operators")["top"]
    assert [row["name"] for row in top] == ["DequantizeLinear", "MatMul"]


def test_operators_by_the_gpu_time_they_caused() -> None:
    host = [
        Host(start=1, end=20, name="aten::mm", kind=HostKind.OP, external=1),
        Host(start=5, end=8, correlation=1),
        Host(start=9, end=10, correlation=2),
        Host(start=101, end=120, name="aten::mm", kind=HostKind.OP, external=2),
        Host(start=111, end=113, correlation=3),
    ]
    gpu = [
        Gpu(start=15, end=25, correlation=1, external=1),
        Gpu(start=30, end=35, correlation=2, external=1),
        Gpu(start=121, end=126, correlation=3, external=2),
        Gpu(start=200, end=210),
    ]
    data = _data(timeline(gpu, host), "op_kernels")
    (row,) = data["top"]
    assert data["linked_gpu_events"] == 3
    assert (row["operator"], row["calls"], row["gpu_events"]) == ("aten::mm", 2, 3)
    assert row["gpu_ms"] == pytest.approx(0.02)
    assert row["share_pct"] == pytest.approx(100 * 20 / 30)
    assert row["to_launch_us"] == pytest.approx((4 + 10) / 2)
    assert row["launch_to_work_us"] == pytest.approx((10 + 10) / 2)


def test_operators_are_charged_for_their_own_time() -> None:
    host = [
        Host(start=1, end=101, name="outer", kind=HostKind.OP),
        Host(start=11, end=51, name="middle", kind=HostKind.OP),
        Host(start=21, end=31, name="inner", kind=HostKind.OP),
        Host(start=31, end=36, name="inner", kind=HostKind.OP),
        Host(start=61, end=71, name="inner", kind=HostKind.OP),
        Host(start=11, end=91, name="elsewhere", kind=HostKind.OP, thread=1),
    ]
    top = {row["name"]: row["self_ms"] * 1000 for row in _data(timeline([], host), "operators")["top"]}
    assert top == pytest.approx({"outer": 50, "middle": 25, "inner": 25, "elsewhere": 80})


def test_graph_and_eager_launches() -> None:
    host = [Host(start=1, end=3, name="cudaGraphLaunch", correlation=5), Host(start=50, end=52, correlation=6)]
    gpu = [
        *[Gpu(start=10 * k, end=10 * k + 5, correlation=5) for k in range(1, 4)],
        Gpu(start=60, end=70, correlation=6),
    ]
    replayed, eager = _data(timeline(gpu, host), "graphs")["rows"]
    assert (replayed["gpu_events"], replayed["calls"], replayed["ms"]) == (3, 1, pytest.approx(0.015))
    assert (eager["gpu_events"], eager["calls"]) == (1, 1)


def test_the_host_side_lists_activities_and_threads() -> None:
    host = [
        Host(start=1, end=41, name="DataLoader", kind=HostKind.ANNOTATION, thread=1),
        Host(start=1, end=21, name="cudaStreamSynchronize"),
        Host(start=30, end=35, correlation=1),
    ]
    data = _data(timeline([Gpu(start=40, end=45, correlation=1)], host), "host")
    assert {row["activity"]: row["ms"] for row in data["activities"]} == pytest.approx(
        {"data loading": 0.04, "synchronise": 0.02, "launch calls": 0.005}
    )
    assert [(row["thread"], row["launched_gpu_events"]) for row in data["threads"]] == [(1, 0), (0, 1)]


def test_compilations_are_listed_with_their_reasons() -> None:
    events = [
        Compile(kind="compile", frame="forward (model.py:1)", seconds=2.5),
        Compile(kind="recompile", frame="forward (model.py:1)", seconds=1.5, reason="tensor size mismatch"),
        Compile(kind="graph break", frame="step (loop.py:9)"),
    ]
    data = _data(timeline([], compiles=events), "compiling")
    assert data["recompiles"] == 1
    assert data["kinds"]["compile"] == {"count": 1, "seconds": 2.5}
    assert data["events"][1]["reason"] == "tensor size mismatch"


MM = Detail(input_dims=((64, 128), (128, 256)), input_types=("c10::Half", "c10::Half"))


def test_roofline_from_shapes_and_the_devices_peaks() -> None:
    host = [
        Host(start=1, end=20, name="aten::mm", kind=HostKind.OP, external=1, detail=0),
        Host(start=5, end=8, correlation=1, external=1),
    ]
    gpu = [Gpu(start=10, end=12, name="sgemm", correlation=1, external=1)]
    found = timeline(gpu, host, details=[MM], devices=[Device(id=0, name="NVIDIA H100 80GB HBM3")])
    data = _data(found, "roofline")
    (group,) = data["groups"]
    flop, size = 2 * 64 * 128 * 256, 2 * (64 * 128 + 128 * 256 + 64 * 256)
    assert group["tflop_per_s"] == pytest.approx(flop / 2e-6 / 1e12)
    assert group["gb_per_s"] == pytest.approx(size / 2e-6 / 1e9)
    assert group["bound"] == "memory"  # 36 FLOP/byte, left of 295
    assert group["of_attainable_pct"] == pytest.approx(100 * (size / 3.35e12) / 2e-6)
    assert data["covered_pct"] == pytest.approx(100)
    unknown = timeline(gpu, host, details=[MM])
    assert _data(unknown, "roofline")["groups"][0]["bound"] is None


def test_work_of_operators() -> None:
    assert work_of("aten::mm", MM) == (2 * 64 * 128 * 256, 2 * (8192 + 32768 + 16384))
    assert work_of("aten::mm", Detail(input_dims=((2, 3), (4, 5)))) is None
    assert work_of("aten::mm", Detail()) is None
    linear = Detail(input_dims=((4, 16, 32), (64, 32), (64,)), input_types=("float",))
    assert work_of("aten::linear", linear) == (2 * 64 * 32 * 64, 4 * (64 * 32 + 32 * 64 + 64 * 64))
    bias = Detail(input_dims=((8,), (2, 4), (4, 8)), input_types=("double",))
    assert work_of("aten::addmm", bias) == (2 * 2 * 4 * 8, 8 * (8 + 32 + 16 + 8))
    assert work_of("aten::add", Detail(input_dims=((4, 1), (1, 8), ()), input_types=("bool",))) == (32.0, 4 + 8 + 32.0)
    assert work_of("aten::add", Detail(input_dims=((4,), (5,)))) is None
    assert work_of("aten::add", Detail(input_dims=((-4,), (5,)))) is None
    assert work_of("aten::copy_", Detail(input_dims=((4,), (4,)), input_types=("float",))) == (0.0, 48.0)
    assert work_of("aten::whatever", MM) is None


def test_peaks_come_from_the_trace_before_the_data_sheet() -> None:
    assert peaks_of(Device(id=0, name="NVIDIA A100-SXM4-80GB")).bytes_per_s == pytest.approx(2.039e12)
    own = peaks_of(Device(id=0, name="NVIDIA H100 PCIe", memory_bandwidth=2.04e12))
    assert (own.bytes_per_s, own.flops_per_s, own.source) == (2.04e12, 756e12, "trace and data sheet")
    assert peaks_of(Device(id=0)).bytes_per_s is None
