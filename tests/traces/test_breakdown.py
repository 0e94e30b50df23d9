"""The device's time: unions, causes of idle time, windows, and sums that hold for any trace."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bakeoff.traces import TraceError, analyse
from bakeoff.traces.breakdown import device_times
from bakeoff.traces.busy import busy_ns_by_category, busy_union, step_windows
from bakeoff.traces.conformance import check_timeline
from bakeoff.traces.gaps import CAUSES, device_gaps, launch_latency_ns
from bakeoff.traces.intervals import covered, length, overlap, union
from bakeoff.traces.timeline import GpuKind, HostKind

from .hand_made import NCCL, Gpu, Host, timeline

US = 1000


def test_busy_is_a_union_over_streams_and_kinds() -> None:
    found = timeline(
        [
            Gpu(start=0, end=10),
            Gpu(start=5, end=20, stream=8),
            Gpu(start=30, end=40, kind=GpuKind.MEMCPY, name="Memcpy"),
            Gpu(start=38, end=39, kind=GpuKind.MEMSET, name="Memset"),
            Gpu(start=90, end=100),
        ]
    )
    times = analyse(found).total
    assert times.span_ms == pytest.approx(0.1)
    assert times.busy_ms == pytest.approx(0.04)
    assert times.idle_pct == pytest.approx(60.0)
    assert times.kernel_ms == pytest.approx(0.035)  # a sum: overlapping kernels count each
    assert times.kernel_union_ms == pytest.approx(0.03)
    assert times.efficiency_pct == pytest.approx(30.0)
    assert (times.gpu_events, times.kernels, times.copies, times.streams) == (5, 3, 2, 2)
    assert times.overlap_pct is None


def _causes(gpu: list[Gpu], host: list[Host]) -> list[str]:
    gaps = device_gaps(timeline(gpu, host), 0)
    return [CAUSES[cause] for cause in gaps.cause]


def test_a_late_launch_is_the_hosts() -> None:
    gpu = [Gpu(start=0, end=10, correlation=1), Gpu(start=110, end=120, correlation=2)]
    host = [Host(start=-5 + 10, end=8, correlation=1), Host(start=100, end=105, correlation=2)]
    assert _causes(gpu, host) == ["host"]


def test_a_short_gap_after_an_early_launch_is_launch_latency() -> None:
    gpu = [Gpu(start=20, end=30, correlation=1), Gpu(start=35, end=40, correlation=2)]
    host = [Host(start=1, end=3, correlation=1), Host(start=4, end=6, correlation=2)]
    assert _causes(gpu, host) == ["launch"]


def test_a_long_gap_after_an_early_launch_on_another_stream_is_a_dependency() -> None:
    host = [Host(start=1, end=3, correlation=1), Host(start=4, end=6, correlation=2)]
    gpu = [Gpu(start=20, end=30, correlation=1), Gpu(start=230, end=240, correlation=2, stream=9)]
    assert _causes(gpu, host) == ["dependency"]
    gpu = [Gpu(start=20, end=30, correlation=1, name=NCCL), Gpu(start=230, end=240, correlation=2)]
    assert _causes(gpu, host) == ["dependency"]
    gpu = [Gpu(start=20, end=30, correlation=1), Gpu(start=230, end=240, correlation=2)]
    assert _causes(gpu, host) == ["unknown"]  # nothing on record explains it


def test_gaps_between_graph_kernels_and_before_unlinked_ones() -> None:
    gpu = [
        Gpu(start=20, end=30, correlation=1),
        Gpu(start=33, end=40, correlation=1),
        Gpu(start=60, end=70, correlation=2),
        Gpu(start=80, end=90, correlation=99),
    ]
    calls = [
        Host(start=1, end=3, name="cudaGraphLaunch", correlation=1),
        Host(start=5, end=6, name="cudaGraphLaunch", correlation=2),
    ]
    assert _causes(gpu, calls) == ["graph", "graph", "unknown"]
    calls[1] = Host(start=45, end=50, name="cudaGraphLaunch", correlation=2)
    assert _causes(gpu, calls) == ["graph", "host", "unknown"]


def test_launch_latency_is_measured_where_launches_meet_an_idle_device() -> None:
    gpu, host = [], []
    for k in range(40):
        host.append(Host(start=100 * k + 1, end=100 * k + 4, correlation=k + 1))
        gpu.append(Gpu(start=100 * k + 8, end=100 * k + 50, correlation=k + 1))
    assert launch_latency_ns(timeline(gpu, host)) == 7 * US
    assert launch_latency_ns(timeline(gpu[:5], host[:5])) == 10 * US  # too few: the usual one


def test_a_late_host_is_asked_what_it_did() -> None:
    host = [
        Host(start=1, end=3, correlation=1),
        Host(start=20, end=60, name="enumerate(DataLoader)#__next__", kind=HostKind.ANNOTATION),
        Host(start=30, end=40, name="aten::stack", kind=HostKind.OP),
        Host(start=60, end=70, name="cudaStreamSynchronize"),
        Host(start=70, end=80, name="cudaMalloc"),
        Host(start=80, end=95, name="aten::add", kind=HostKind.OP),
        Host(start=90, end=95, correlation=2),
        Host(start=0, end=100, name="main.py(3): loop", kind=HostKind.PYTHON),
    ]
    gpu = [Gpu(start=5, end=10, correlation=1), Gpu(start=98, end=100, correlation=2)]
    found = analyse(timeline(gpu, host)).total.host_idle_ms_by_activity
    us = {name: round(ms * 1000) for name, ms in found.items() if ms}
    assert us == {
        "data loading": 40,
        "synchronise": 10,
        "allocation": 10,
        "launch calls": 5,
        "operators": 10,
        "Python": 13,
    }


def test_communication_overlaps_only_with_other_kernels() -> None:
    found = timeline(
        [
            Gpu(start=0, end=100, name=NCCL, stream=9),
            Gpu(start=20, end=45),
            Gpu(start=30, end=40, stream=8),
            Gpu(start=50, end=60, kind=GpuKind.MEMCPY, name="Memcpy DtoD"),
        ]
    )
    report = analyse(found)
    assert report.total.overlap_pct == pytest.approx(25.0)
    section = report.section("communication")
    assert section is not None
    assert section.data["devices"][0]["exposed_ms"] == pytest.approx(0.075)


def test_launch_delay_is_signed_and_the_queue_counts_launches() -> None:
    gpu = [Gpu(start=12, end=20, correlation=1), Gpu(start=30, end=40, correlation=2)]
    host = [Host(start=10, end=15, correlation=1), Host(start=11, end=16, correlation=2)]
    section = analyse(timeline(gpu, host)).section("launches")
    assert section is not None
    (row,) = section.data["devices"]
    assert row["delay_us"]["min"] == pytest.approx(-3.0)
    assert row["delay_us"]["max"] == pytest.approx(14.0)
    assert row["before_return"] == 1
    assert row["queue_max"] == 2
    assert row["queue_mean"] == pytest.approx((1 + 2 + 18) / 20)


def test_steps_follow_each_other_without_a_hole() -> None:
    gpu, host = [], []
    for step in range(3):
        at = 1000 * step
        host.append(Host(start=at, end=at + 900, name=f"ProfilerStep#{step + 4}", kind=HostKind.ANNOTATION))
        host.append(Host(start=at + 10, end=at + 15, correlation=step + 1))
        gpu.append(Gpu(start=at + 400, end=at + 600, correlation=step + 1))
    found = timeline(gpu, host)
    assert step_windows(found, 0) == [
        (4, 400 * US, 1400 * US),
        (5, 1400 * US, 2400 * US),
        (6, 2400 * US, 2600 * US),
    ]
    section = analyse(found).section("steps")
    assert section is not None
    assert [row["idle_pct"] for row in section.data["steps"]] == [80.0, 80.0, 0.0]


def test_overlapping_step_marks_are_left_out_and_counted() -> None:
    marks = [Host(start=s, end=s + 100, name=f"ProfilerStep#{s}", kind=HostKind.ANNOTATION) for s in (1, 50, 120)]
    found = timeline([Gpu(start=1, end=2)], marks)
    assert found.steps.number.tolist() == [1, 120]
    assert found.losses == {"overlapping_steps": 1}
    assert any("overlap" in note for note in analyse(found).notes)


def test_devices_are_told_apart_and_summed() -> None:
    report = analyse(timeline([Gpu(start=0, end=10), Gpu(start=30, end=40), Gpu(start=0, end=100, device=1)]))
    assert [device.device for device in report.devices] == [0, 1]
    assert [round(device.idle_pct) for device in report.devices] == [50, 0]
    assert report.total.span_ms == pytest.approx(0.14)
    assert report.total.idle_pct == pytest.approx(100 * 20 / 140)


def test_without_gpu_events_the_hosts_side_is_told() -> None:
    report = analyse(timeline([], [Host(start=1, end=9, name="aten::mm", kind=HostKind.OP)]))
    numbers = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert numbers["devices"] == []
    assert numbers["total"]["span_ms"] is None
    assert numbers["total"]["idle_pct"] is None
    assert numbers["total"]["gpu_events"] == 0
    assert numbers["sections"]["operators"]["top"][0]["name"] == "aten::mm"
    assert any("no GPU events" in note for note in numbers["notes"])


def test_a_trace_with_nothing_in_it_is_refused() -> None:
    with pytest.raises(TraceError, match="nothing to analyse"):
        analyse(timeline())


def test_events_of_no_length_divide_by_nothing() -> None:
    report = analyse(timeline([Gpu(start=5, end=5, name=NCCL)]))
    assert report.total.idle_pct == 0.0
    assert report.total.overlap_pct is None
    json.dumps(report.to_json(), allow_nan=False)


EDGES = st.tuples(st.integers(0, 60), st.integers(0, 15))
NAMES = ("vectorized_elementwise_kernel", "sgemm", NCCL, "no_such_thing")
GPU = st.builds(
    lambda edges, name, stream, kind, correlation: Gpu(
        start=edges[0], end=edges[0] + edges[1], name=name, stream=stream, kind=kind, correlation=correlation
    ),
    EDGES, st.sampled_from(NAMES), st.integers(1, 3), st.sampled_from(list(GpuKind)), st.integers(-1, 6),
)  # fmt: skip
HOST = st.builds(
    lambda edges, name, kind, correlation: Host(
        start=edges[0], end=edges[0] + edges[1], name=name, kind=kind, correlation=correlation
    ),
    EDGES,
    st.sampled_from(("cudaLaunchKernel", "cudaGraphLaunch", "cudaMalloc", "DataLoader", "aten::mm", "ProfilerStep#1")),
    st.sampled_from(list(HostKind)),
    st.integers(-1, 6),
)  # fmt: skip


@given(st.lists(GPU, min_size=1, max_size=12), st.lists(HOST, max_size=12))
def test_sums_hold_for_any_trace(gpu: list[Gpu], host: list[Host]) -> None:
    found = timeline(gpu, host)
    check_timeline(found)
    report = analyse(found)
    json.dumps(report.to_json(), allow_nan=False)
    for times in report.devices:
        # By brute force, µs by µs.
        busy = {us for event in gpu for us in range(int(event.start), int(event.end))}
        assert times.busy_ms * 1000 == pytest.approx(len(busy))
        assert sum(times.idle_ms_by_cause.values()) == pytest.approx(times.idle_ms, abs=1e-9)
        assert sum(times.busy_ms_by_category.values()) == pytest.approx(times.busy_ms, abs=1e-5)
        assert sum(times.host_idle_ms_by_activity.values()) == pytest.approx(times.idle_ms_by_cause["host"], abs=1e-9)
        assert times.efficiency_pct <= 100 + 1e-9


@given(
    st.lists(GPU, min_size=1, max_size=12),
    st.lists(HOST, max_size=6),
    st.tuples(st.integers(0, 40), st.integers(1, 60)),
)
def test_windows_cut_without_losing_time(gpu: list[Gpu], host: list[Host], cut: tuple[int, int]) -> None:
    found = timeline(gpu, host)
    window = (cut[0] * US, (cut[0] + cut[1]) * US)
    times = device_times(found, 0, window)
    assert times.span_ms == pytest.approx(cut[1] / 1000)
    assert sum(times.idle_ms_by_cause.values()) == pytest.approx(times.idle_ms, abs=1e-9)
    assert length(busy_union(found, 0, window)) == pytest.approx(times.busy_ms * 1e6)
    assert sum(busy_ns_by_category(found, 0, window).values()) == pytest.approx(times.busy_ms * 1e6, abs=10)


INTERVALS = st.lists(EDGES, max_size=10)


@given(INTERVALS, INTERVALS)
def test_interval_arithmetic_against_counting(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    def arrays(edges: list[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        start = np.array([a for a, _ in edges], np.int64)
        return start, start + np.array([b for _, b in edges], np.int64)

    def points(edges: list[tuple[int, int]]) -> set[int]:
        return {x for a, b in edges for x in range(a, a + b)}

    one, two = union(*arrays(first)), union(*arrays(second))
    assert length(one) == len(points(first))
    assert (one[0][1:] > one[1][:-1]).all()
    assert overlap(one, two) == len(points(first) & points(second))
    start, end = arrays(second)
    expected = [len(points(first) & set(range(a, a + b))) for a, b in second]
    assert covered(one, start, end).tolist() == expected
