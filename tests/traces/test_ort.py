"""ONNX Runtime profiles: nodes as operators with what they do, runs as steps, damage."""

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

from .damage import CUT, EDITS, damaged, read_or_refused, sound

REAL = Path(__file__).parents[3] / "shared" / "traces" / "ort"


def node(start: int, length: float, name: str, op: str, **args: Any) -> dict[str, Any]:
    told = {"op_name": op, "provider": "CPUExecutionProvider", **args}
    return {"cat": "Node", "pid": 7, "tid": 8, "dur": length, "ts": start, "ph": "X", "name": name, "args": told}


def session(start: int, length: int, name: str) -> dict[str, Any]:
    return {"cat": "Session", "pid": 7, "tid": 8, "dur": length, "ts": start, "ph": "X", "name": name, "args": {}}


def events() -> list[dict[str, Any]]:
    return [
        session(3, 100, "model_loading_array"),
        node(210, 40, "/l0/mm_kernel_time", "MatMul", input_type_shape=[{"float": [2, 3]}, {"int8": []}]),
        node(251, 9.5, "dq_kernel_time", "DequantizeLinear", output_type_shape=[{"float": [3, 4]}]),
        node(261, 1, "dq_fence_after", "DequantizeLinear"),
        session(200, 70, "model_run"),
        session(300, 50, "model_run"),
        node(310, 20, "/l0/mm_kernel_time", "MatMul"),
    ]


def write(path: Path, found: list[dict[str, Any]]) -> Path:
    """As the profiler does it: one event a line."""
    path.write_text("[\n" + ",\n".join(json.dumps(e) for e in found) + "\n]\n")
    return path


def test_nodes_are_operators_with_their_kind_and_shapes(tmp_path: Path) -> None:
    timeline = read(write(tmp_path / "profile.txt", events()))
    host = timeline.host
    ops = [i for i in range(len(host)) if host.kind[i] == HostKind.OP]
    assert timeline.format == "ort"
    assert [timeline.names[host.name[i]] for i in ops] == ["/l0/mm", "dq", "/l0/mm"]
    details = [timeline.details[host.detail[i]] for i in ops]
    assert [d.op_type for d in details] == ["MatMul", "DequantizeLinear", "MatMul"]
    assert details[0].input_dims == ((2, 3), ())
    assert details[0].input_types == ("float", "int8")
    assert details[1].output_dims == ((3, 4),)
    assert host.end[ops[1]] - host.start[ops[1]] == 9500  # µs, decimals kept
    assert list(timeline.steps.start) == [200_000, 300_000]
    assert list(timeline.steps.number) == [0, 1]
    assert timeline.facts == {"provider": "CPUExecutionProvider"}
    assert len(timeline.gpu) == 0


def test_kernels_of_a_gpu_provider_are_gpu_events(tmp_path: Path) -> None:
    kernel = {"cat": "Kernel", "ts": 220, "dur": 5, "ph": "X", "name": "gemm_kernel", "args": {"stream": "7"}}
    copy = {"cat": "Kernel", "ts": 230, "dur": 5, "ph": "X", "name": "MemcpyHostToDevice", "args": {"device": 2**40}}
    timeline = read(write(tmp_path / "p.json", [*events(), kernel, copy]))
    assert list(timeline.gpu.kind) == [GpuKind.KERNEL, GpuKind.MEMCPY]
    assert list(timeline.gpu.stream) == [7, 0]
    assert list(timeline.gpu.device) == [0, 0]


def test_gzip_and_one_line_files(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(gzip.compress(json.dumps(events()).replace('{"cat": ', '{"cat" :').encode()))
    assert len(read(path).steps) == 2


def test_broken_lines_cost_only_themselves(tmp_path: Path) -> None:
    lines = write(tmp_path / "p.json", events()).read_text().splitlines()
    lines[2] = lines[2][:50]  # cut in the middle of the file
    (tmp_path / "p.json").write_text("\n".join(lines[:-2]))  # and at its end
    timeline = read(tmp_path / "p.json")
    assert timeline.losses["lost_broken_json"] == 1
    assert timeline.lost_events == 1
    assert len(timeline.host) == 5
    assert "ends early" in " ".join(timeline.notes)


@pytest.mark.parametrize("bad", [None, "soon", 1e300, float("nan"), [], True])
def test_events_without_a_usable_time_are_counted(tmp_path: Path, bad: object) -> None:
    broken = {**events()[1], "ts": bad}
    timeline = read(write(tmp_path / "p.json", [*events(), broken]))
    assert timeline.lost_events == 1
    assert len(timeline.host) == 7


def test_a_profile_in_which_nothing_ran(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no node"):
        read(write(tmp_path / "p.json", events()[:1]))


def test_more_events_than_allowed(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="more than 2"):
        read(write(tmp_path / "p.json", events()), limits=Limits(events=2))


def test_deeply_nested_arguments_do_no_harm(tmp_path: Path) -> None:
    text = write(tmp_path / "p.json", events()).read_text()
    bomb = '{"cat" : "Node","ts" :1,"dur" :1,"name" :"x_kernel_time","args" : ' + "[" * 100_000 + "]" * 100_000 + "}"
    (tmp_path / "p.json").write_text(text.replace("[\n", "[\n" + bomb + ",\n", 1))
    timeline = read(tmp_path / "p.json")
    assert timeline.losses.get("lost_broken_json", 0) + timeline.losses.get("unreadable_args", 0) == 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS, cut=CUT)
def test_mutated_files_never_crash(tmp_path: Path, edits: list[tuple[float, int]], cut: float) -> None:
    path = tmp_path / "mutated"
    path.write_bytes(damaged(write(tmp_path / "source", events()).read_bytes(), edits, cut))
    assert sound(read_or_refused(path, "ort"))


@pytest.mark.skipif(not REAL.exists(), reason="the real profiles are not here")
@pytest.mark.parametrize(("file", "nodes", "busy"), [("mlp_fp32", 320, 60.704), ("mlp_int8_unfused_dq", 480, 69.494)])
def test_the_real_pair_is_read_whole(file: str, nodes: int, busy: float) -> None:
    timeline = read(REAL / f"{file}.json")
    host = timeline.host
    ops = host.kind == HostKind.OP
    assert ops.sum() == nodes
    assert len(timeline.steps) == 20
    assert (host.end - host.start)[ops].sum() / 1e6 == pytest.approx(busy, rel=1e-6)
    assert not timeline.losses
