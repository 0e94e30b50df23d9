"""rocprofv3 JSON: dispatches, copies, calls, markers; rescue of broken files; what is not read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from bakeoff.traces import TraceError, read
from bakeoff.traces.limits import Limits
from bakeoff.traces.timeline import GpuKind, HostKind
from bakeoff.traces.words import ENDS_EARLY

from .damage import CUT, EDITS, damaged, read_or_refused, sound

REAL = Path(__file__).parents[3] / "shared" / "traces" / "rocprof"
SECRET = "planted-secret-on-a-command-line"


def record(kind: int, operation: int, start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    return {
        "size": 184,
        "kind": kind,
        "operation": operation,
        "thread_id": 900,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": start,
        "end_timestamp": end,
        **more,
    }


def dispatch(start: int, end: int, kernel: int, correlation: int) -> dict[str, Any]:
    info = {"agent_id": {"handle": 50}, "queue_id": {"handle": 3}, "kernel_id": kernel}
    return record(2, 1, start, end, correlation, dispatch_info=info, stream_id={"handle": 4})


def document() -> dict[str, Any]:
    agents = [
        {"id": {"handle": 49}, "type": 1, "node_id": 0, "name": "CPU"},
        {
            "id": {"handle": 50},
            "type": 2,
            "node_id": 2,
            "gpu_index": 1,
            "name": "gfx950",
            "product_name": "Instinct",
            "cu_count": 256,
            "max_engine_clk_fcompute": 2200,
        },
    ]
    kinds = [
        {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "X", "MEMORY_COPY_HOST_TO_DEVICE"]},
        {"kind": "HIP", "operations": ["hipLaunchKernel", "hipMemcpy"]},
        {"kind": "KERNEL_DISPATCH", "operations": ["A", "B"]},
        {"kind": "MARKER", "operations": ["roctxRangePushA"]},
    ]
    records = {
        "kernel_dispatch": [dispatch(1000, 1500, 7, 1), dispatch(1600, 1700, 8, 2)],
        "memory_copy": [record(0, 2, 1800, 1900, 3, dst_agent_id={"handle": 50}, src_agent_id={"handle": 49}, bytes=9)],
        "hip_api": [record(1, 0, 900, 950, 1), record(1, 1, 1750, 1950, 3)],
        "marker_api": [record(3, 0, 800, 2000, 10)],
        "hsa_api": [],
        "rccl_api": [],
    }
    tool = {
        "metadata": {"pid": 900, "command": ["python", SECRET], "node": {"hostname": SECRET}},
        "agents": agents,
        "strings": {"buffer_records": kinds, "marker_api": [{"key": 10, "value": "step 1"}]},
        "kernel_symbols": [
            {"kernel_id": 7, "kernel_name": "_Z4gemm.kd", "demangled_kernel_name": "Cijk_gemm(float*)"},
            {"kernel_id": 8, "kernel_name": "ncclDevKernel_Generic", "demangled_kernel_name": ""},
        ],
        "buffer_records": records,
    }
    return {"rocprofiler-sdk-tool": [tool]}


def test_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(json.dumps(document()).encode()))
    timeline = read(path)
    gpu, host = timeline.gpu, timeline.host
    assert timeline.format == "rocprof"
    shown = [timeline.names[i] for i in gpu.name]
    assert shown == ["Cijk_gemm(float*)", "ncclDevKernel_Generic", "Memcpy HtoD"]
    assert list(gpu.kind) == [GpuKind.KERNEL, GpuKind.KERNEL, GpuKind.MEMCPY]
    assert list(gpu.device) == [1, 1, 1]
    assert list(gpu.stream) == [4, 4, -1]
    assert list(gpu.bytes) == [-1, -1, 9]
    calls = [timeline.names[host.name[i]] if i >= 0 else None for i in gpu.launch]
    assert calls == ["hipLaunchKernel", None, "hipMemcpy"]
    assert timeline.names[host.name[host.kind == HostKind.ANNOTATION][0]] == "step 1"
    assert timeline.device(1).name == "Instinct"
    assert timeline.device(1).max_clock_hz == 2.2e9
    assert SECRET not in repr(timeline.__dict__)


def test_a_cut_file_gives_what_is_whole(tmp_path: Path) -> None:
    text = json.dumps(document())
    path = tmp_path / "trace.json"
    path.write_text(text[: text.index('"memory_copy"') - 30])
    timeline = read(path)
    assert [timeline.names[i] for i in timeline.gpu.name] == ["Cijk_gemm(float*)"]
    assert timeline.losses["lost_broken_json"] == 1
    assert "one by one" in " ".join(timeline.notes)
    assert ENDS_EARLY in timeline.notes


def test_broken_in_the_middle_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document()).replace('"start_timestamp": 1000', '"start_timestamp": 10x00'))
    assert ENDS_EARLY not in read(path).notes


def test_a_broken_record_costs_only_itself(tmp_path: Path) -> None:
    text = json.dumps(document()).replace('"start_timestamp": 1000', '"start_timestamp": 10x00')
    path = tmp_path / "trace.json"
    path.write_text(text)
    timeline = read(path)
    assert len(timeline.gpu) == 2
    assert timeline.lost_events == 1
    assert len(timeline.host) == 3


def test_two_processes_with_the_same_correlation_ids(tmp_path: Path) -> None:
    one, two = document()["rocprofiler-sdk-tool"][0], document()["rocprofiler-sdk-tool"][0]
    two["metadata"]["pid"] = 901
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [one, two]}))
    timeline = read(path)
    processes = [timeline.threads[timeline.host.thread[i]].process for i in timeline.gpu.launch if i >= 0]
    assert sorted(processes) == [900, 900, 901, 901]


def test_without_calls_the_causes_are_said_to_be_unknown(tmp_path: Path) -> None:
    found = document()
    found["rocprofiler-sdk-tool"][0]["buffer_records"]["hip_api"] = []
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(found))
    assert "--hip-trace" in " ".join(read(path).notes)


def test_impossible_times_and_too_many_events(tmp_path: Path) -> None:
    found = document()
    found["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"].append(dispatch(2**61, 2**61 + 1, 7, 9))
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(found))
    assert read(path).losses["lost_no_time"] == 1
    with pytest.raises(TraceError, match="more than 2"):
        read(path, limits=Limits(events=2))


def test_an_empty_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"rocprofiler-sdk-tool": []}')
    with pytest.raises(TraceError, match="no dispatch"):
        read(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS, cut=CUT)
def test_mutated_files_never_crash(tmp_path: Path, edits: list[tuple[float, int]], cut: float) -> None:
    path = tmp_path / "mutated"
    path.write_bytes(damaged(json.dumps(document()).encode(), edits, cut))
    assert sound(read_or_refused(path, "rocprof"))


@pytest.mark.skipif(not REAL.exists(), reason="the real profiles are not here")
def test_the_real_file() -> None:
    timeline = read(REAL / "rocprofv3_908.json.gz")
    assert len(timeline.gpu) == 43_915
    assert timeline.devices[0].name == "AMD Instinct MI350X"
    assert not timeline.losses
