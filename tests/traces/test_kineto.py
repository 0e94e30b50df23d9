"""The Kineto reader: eras, platforms, and all the ways in which real files are broken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bakeoff.traces import Limits, Timeline, TraceError, analyse, read
from bakeoff.traces.timeline import GpuKind, HostKind, WaitKind

from .kineto_files import GEMM, KERNEL, call, document, external, gpu, launched, of_graph, op, training, write


def _read(tmp_path: Path, events: list[dict[str, Any]], **around: Any) -> Timeline:
    return read(write(tmp_path / "trace.json", document(events, **around)))


def _read_text(tmp_path: Path, text: str) -> Timeline:
    return read(write(tmp_path / "trace.json", text))


def test_times_are_microseconds_whatever_the_display_unit_says(tmp_path: Path) -> None:
    for unit in ("ms", "ns"):
        timeline = _read(tmp_path, launched(10, 2.5, 1), displayTimeUnit=unit)
        assert timeline.gpu.start.tolist() == [10_000]
        assert timeline.gpu.end.tolist() == [12_500]


def test_unix_times_with_fractions_lose_no_digit(tmp_path: Path) -> None:
    # As doubles these two are 0.25 µs apart or equal.
    text = document([gpu(1, 0.123)]).replace('"ts": 1', '"ts": 1712195495519689.047')
    timeline = _read_text(tmp_path, text)
    assert timeline.gpu.start.tolist() == [1712195495519689047]
    assert timeline.gpu.end.tolist() == [1712195495519689047 + 123]


@pytest.mark.parametrize("after", [False, True])
def test_the_time_base_may_stand_before_or_after_the_events(tmp_path: Path, after: bool) -> None:
    text = document(launched(10, 2, 1))
    base = '"baseTimeNanoseconds": 1711964646000000000'
    text = text[: text.rindex("}")] + f", {base}}}" if after else text.replace("{", "{" + base + ",", 1)
    timeline = _read_text(tmp_path, text)
    assert timeline.base_ns == 1711964646000000000
    assert len(timeline.gpu) == 1


def test_the_names_of_2021_are_read(tmp_path: Path) -> None:
    events = [
        {**op(0, 90, "ProfilerStep#5"), "cat": "Operator", "tid": "4242"},
        {**op(5, 50, "aten::add"), "cat": "Operator", "tid": "4242", "args": {"External id": 3}},
        {**call(10, 5, 77), "cat": "Runtime", "tid": "4242", "args": {"correlation": 77, "external id": 3}},
        {**gpu(20, 5), "cat": "Kernel", "tid": "stream 7", "args": {"correlation": 77, "external id": 3}},
        {**gpu(30, 5, "Memcpy HtoD"), "cat": "Memcpy", "tid": "stream 20", "args": {"bytes": 8}},
        {**gpu(40, 5, "Memset (Device)"), "cat": "Memset", "tid": "stream 7", "args": {}},
    ]
    timeline = _read(tmp_path, events)
    assert timeline.gpu.kind.tolist() == [GpuKind.KERNEL, GpuKind.MEMCPY, GpuKind.MEMSET]
    assert timeline.gpu.stream.tolist() == [7, 20, 7]
    assert timeline.gpu.device.tolist() == [0, 0, 0]
    assert timeline.host.kind.tolist() == [HostKind.ANNOTATION, HostKind.OP, HostKind.RUNTIME]
    assert timeline.steps.number.tolist() == [5]
    assert timeline.names[timeline.host.name[timeline.gpu.op[0]]] == "aten::add"
    assert {thread.thread for thread in timeline.threads} == {4242}


def test_hip_xpu_and_driver_calls_are_launches(tmp_path: Path) -> None:
    events = [
        {**call(1, 1, 1, "hipLaunchKernel"), "args": {"correlation": 1, "stream": "0x0", "size": "2560"}},
        {**call(2, 1, 2, "urEnqueueKernelLaunch"), "cat": "xpu_runtime"},
        {**call(3, 1, 3, "cuLaunchKernelEx"), "cat": "cuda_driver"},
        gpu(10, 1, correlation=1),
        gpu(20, 1, correlation=2),
        gpu(30, 1, correlation=3),
    ]
    timeline = _read(tmp_path, events)
    assert timeline.gpu.launch.tolist() == [0, 1, 2]


def test_strange_process_numbers_are_taken(tmp_path: Path) -> None:
    events = [
        {**op(1, 1), "pid": "Spans", "tid": "PyTorch Profiler"},
        {**op(2, 1), "pid": -1, "tid": -1},
        {**gpu(5, 1), "pid": -1, "args": {}},
    ]
    timeline = _read(tmp_path, events)
    assert len(timeline.host) == 2
    assert timeline.gpu.device.tolist() == [-1]


def test_negative_durations_are_clamped_and_counted(tmp_path: Path) -> None:
    timeline = _read(tmp_path, [gpu(10, -3), gpu(20, 5)])
    assert (timeline.gpu.end - timeline.gpu.start).tolist() == [0, 5000]
    assert timeline.losses == {"negative_duration": 1}
    assert timeline.lost_events == 0


def test_events_without_a_time_are_left_out_and_counted(tmp_path: Path) -> None:
    timeline = _read(tmp_path, [gpu(0, 3), gpu(1712195495519689, 5), {**gpu(1, 1), "ts": None}])
    assert timeline.gpu.start.tolist() == [1712195495519689000]
    assert timeline.losses == {"lost_no_time": 1, "lost_unusable": 1}
    assert timeline.lost_events == 2


def test_a_trace_may_begin_at_zero(tmp_path: Path) -> None:
    timeline = _read(tmp_path, [gpu(0, 3), gpu(10, 5)])
    assert timeline.gpu.start.tolist() == [0, 10_000]
    assert timeline.lost_events == 0


def test_an_external_id_that_hits_a_stranger_is_not_believed(tmp_path: Path) -> None:
    events = [
        op(0, 10, "aten::stranger", **external(7)),
        op(100, 50, "aten::outer", **external(1)),
        op(110, 20, "aten::inner", **external(2)),
        call(115, 5, 7, **external(7)),
        gpu(200, 5, correlation=7, **external(7)),
    ]
    timeline = _read(tmp_path, events)
    assert timeline.names[timeline.host.name[timeline.gpu.op[0]]] == "aten::inner"


def test_graph_kernels_are_told_from_eager_ones(tmp_path: Path) -> None:
    events = [
        call(1, 2, 10, "cudaGraphLaunch"),
        *[gpu(10 + k, 1, correlation=10) for k in range(3)],
        *[gpu(20 + k, 1, correlation=11) for k in range(2)],  # launched before the trace began
        gpu(30, 1, correlation=12),
        gpu(40, 1, correlation=13, **of_graph(5)),
        *launched(60, 1, 14),
    ]
    timeline = _read(tmp_path, events)
    assert timeline.gpu.graph.tolist() == [10, 10, 10, 11, 11, -1, 5, -1]


def test_flows_link_where_correlations_are_missing(tmp_path: Path) -> None:
    def flow(ph: str, ts: float, pid: int, tid: int) -> dict[str, Any]:
        return {"ph": ph, "id": 9, "pid": pid, "tid": tid, "ts": ts, "cat": "async_cpu_to_gpu", "name": "x", "bp": "e"}

    launch = {**call(1, 2, 0), "args": {}}
    timeline = _read(tmp_path, [launch, gpu(10, 1), flow("s", 1, 4242, 4242), flow("f", 10, 0, 7)])
    assert timeline.gpu.launch.tolist() == [0]
    assert any("flow" in note for note in timeline.notes)


def test_recorded_waits_are_kept(tmp_path: Path) -> None:
    wait = {**gpu(5, 2, "Stream Wait Event", cat="cuda_sync"), "args": {"cuda_sync_kind": "Stream Wait Event"}}
    timeline = _read(tmp_path, [gpu(1, 1), wait])
    assert timeline.waits.kind.tolist() == [WaitKind.STREAM_WAIT]


def test_rank_devices_and_threads_are_read(tmp_path: Path) -> None:
    named = {"ph": "M", "name": "thread_name", "pid": 4242, "tid": 4242, "ts": 1, "args": {"name": "main"}}
    info = {"backend": "nccl", "rank": 3, "world_size": 8}
    timeline = _read(tmp_path, [op(1, 2), named, gpu(5, 1)], distributedInfo=info)
    assert (timeline.rank, timeline.world_size) == (3, 8)
    assert timeline.threads[0].name == "main"
    assert timeline.device(0).name == "NVIDIA A100-SXM4-80GB"


def test_a_merge_of_several_ranks_is_told(tmp_path: Path) -> None:
    other = {**call(30, 2, 1), "pid": 9999, "tid": 9999}
    timeline = _read(tmp_path, [*launched(10, 1, 1), other, gpu(40, 2, correlation=1, device=1), *launched(60, 1, 2)])
    assert timeline.losses == {"mixed_processes": 2}
    assert any("mixes ranks" in note for note in analyse(timeline).notes)
    threads = [{**call(30, 2, 5), "tid": 9999}, gpu(40, 2, correlation=5)]
    assert not _read(tmp_path, [*launched(10, 1, 1), *threads]).losses


def test_shapes_are_kept_once(tmp_path: Path) -> None:
    timeline = _read(tmp_path, training())
    assert len(timeline.details) == 1
    assert timeline.details[0].input_dims == ((64, 128), (128, 256))
    mm = [i for i in range(len(timeline.host)) if timeline.names[timeline.host.name[i]] == "aten::mm"]
    assert timeline.host.detail[mm].tolist() == [0] * 12


BROKEN = {
    "unescaped quote": ('"name": "aten::add"', '"name": "aten::"quoted" add"', 0, 1),
    "stray backslash": ('"name": "aten::add"', r'"name": "C:\path\add"', 0, 1),
    "control character": ('"name": "aten::add"', '"name": "aten::\x01\n add"', 0, 1),
    "bare N/A": ('"name": "aten::add"', '"name": "aten::add", "note": N/A', 0, 1),
    "bare NaN": ('"name": "aten::add"', '"name": "aten::add", "note": -nan', 0, 1),
    "bad UTF-8": ('"name": "aten::add"', '"name": "aten::\udcff add"', 0, 1),
    "lost quote": ('"name": "aten::add"', '"name: "aten::add"', 1, 0),
    "lost colon": ('"name": "aten::add"', '"name" "aten::add"', 1, 0),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_events_are_mended_or_lost_alone(tmp_path: Path, kind: str) -> None:
    old, new, lost, mended = BROKEN[kind]
    events = [*training(), op(1_000_500, 5), *launched(2_000_000, 5, 900)]
    text = document(events)
    assert text.count(old) == 1
    timeline = _read_text(tmp_path, text.replace(old, new))
    whole = _read_text(tmp_path, text)
    assert len(timeline.gpu) == len(whole.gpu)
    assert len(timeline.host) == len(whole.host) - lost
    assert timeline.losses.get("lost_broken_json", 0) == lost
    assert timeline.losses.get("repaired_json", 0) == mended
    told = [*timeline.notes, *analyse(timeline).notes]
    assert any(("could not be read: 1 event (" if lost else "1 event read only after mending") in note for note in told)


def test_many_broken_events_cost_only_themselves(tmp_path: Path) -> None:
    text = document([*[op(k, 1, "aten::bad" if k % 10 == 0 else "aten::good") for k in range(500)], gpu(900, 1)])
    timeline = _read_text(tmp_path, text.replace('"name": "aten::bad"', '"name" = "aten::bad"'))
    assert timeline.losses == {"lost_broken_json": 50}
    assert len(timeline.host) == 450
    assert len(timeline.gpu) == 1


@pytest.mark.parametrize(
    "end", [",\n]}", ",\n", "", ', {"ph": "X", "cat": "kernel", "name": "cut', "]", '\n], "INFO": ["a "log" line"]}']
)
def test_the_end_may_be_ragged(tmp_path: Path, end: str) -> None:
    text = document(training())
    text = text[: text.rindex("]")].rstrip() + end
    timeline = _read_text(tmp_path, text)
    assert len(timeline.gpu) == 15
    cut = "]" not in end
    assert any("ends early" in note for note in timeline.notes) == cut
    assert timeline.lost_events == (1 if "cut" in end else 0)


def test_log_lines_in_the_metadata_do_no_harm(tmp_path: Path) -> None:
    base = '"distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 4}, "baseTimeNanoseconds": 5000,'
    text = document(training()).replace("{", '{ "INFO": ["say "hi" \\q", "x\x02"], ' + base, 1)
    timeline = _read_text(tmp_path, text)
    assert len(timeline.gpu) == 15
    assert (timeline.rank, timeline.world_size, timeline.base_ns) == (2, 4, 5000)


def test_lists_of_objects_inside_events_are_no_damage(tmp_path: Path) -> None:
    events = training()
    events[1]["args"] = {"pairs": [{"a": 1}, {"b": [{"c": 2}, {"d": 3}]}]}
    text = document([*events, {**op(5, 1), "args": {"x": [{"y": 1}, {"z": 2}]}}])
    timeline = _read_text(tmp_path, text)
    assert not timeline.losses
    assert len(timeline.gpu) == 15


def test_a_huge_window_mark_is_no_loss(tmp_path: Path) -> None:
    mark = '{"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 1e400}'
    text = document([*training(), {"ph": "i", "name": "mark"}])
    text = text.replace(text[text.rindex("{\n") : text.rindex("}\n]") + 1], mark)
    timeline = _read_text(tmp_path, text)
    assert not timeline.losses
    assert len(timeline.gpu) == 15


def test_events_of_unexpected_types_are_read_as_far_as_they_make_sense(tmp_path: Path) -> None:
    odd = [
        {**gpu(50, 5), "args": []},
        {**gpu(60, 5), "args": {"correlation": {"x": 1}, "stream": [1], "device": 1.0}},
        {**gpu(70, 5), "ts": "70.5", "dur": "2"},
        {**gpu(80, 5), "ts": [1]},
        {**op(1, 2), "name": 7},
    ]
    timeline = _read(tmp_path, [*odd, *launched(90, 5, 3)])
    assert timeline.gpu.start.tolist() == [50_000, 60_000, 70_500, 90_000]
    assert timeline.losses == {"lost_unusable": 1}
    assert "7" in timeline.names


def test_a_bare_array_of_events_is_read(tmp_path: Path) -> None:
    timeline = _read_text(tmp_path, json.dumps(training()))
    assert timeline.format == "kineto"
    assert len(timeline.gpu) == 15


def test_gzip_is_told_by_content_and_may_have_several_members(tmp_path: Path) -> None:
    data = document(training()).encode()
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(data[:700]) + gzip.compress(data[700:]) + b"\0" * 512)
    assert len(read(path).gpu) == 15


def test_a_cut_gzip_file_gives_what_it_has(tmp_path: Path) -> None:
    packed = gzip.compress(document(training(steps=400)).encode())
    path = tmp_path / "trace.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    timeline = read(path)
    assert 0 < len(timeline.gpu) < 2000
    assert any("ends early" in note for note in timeline.notes)


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 4096])
def test_the_size_of_the_pieces_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = document([*training(), op(1_000_500, 5)], displayTimeUnit="ms").replace('"aten::add"', '"a "b" c"')
    text = text[: text.rindex("}")] + ', "deviceInfo": [{"a": 1}, {"b": 2}], "baseTimeNanoseconds": 77}'
    whole = _read_text(tmp_path, text)
    monkeypatch.setattr("bakeoff.traces.opening.PIECE_BYTES", size)
    pieces = _read_text(tmp_path, text)
    assert pieces.base_ns == whole.base_ns == 77
    assert pieces.losses == whole.losses == {"repaired_json": 1}
    for mine, other in ((pieces.gpu, whole.gpu), (pieces.host, whole.host)):
        assert [pieces.names[i] for i in mine.name] == [whole.names[i] for i in other.name]
        for column in vars(whole.gpu).keys() & vars(mine).keys() - {"name"}:
            np.testing.assert_array_equal(getattr(mine, column), getattr(other, column))


REFUSED = {
    "empty": (b"", "empty"),
    "white space": (b" \n\t ", "empty"),
    "not JSON": (b"hello, this is a text\n" * 50, "not a trace of a known format"),
    "another JSON": (b'{"a": [1, 2, 3]}', "not a trace of a known format"),
    "no events key": (b'{"schemaVersion": 1, "deviceProperties": [', "no list of events"),
    "all broken": (b'{"schemaVersion": 1, "traceEvents": [ {"ph" "X"}, {"ph" "X"} ]}', "none of its events"),
    "deep nesting": (b'{"schemaVersion": 1, "traceEvents": [' + b"[" * 200_000, "none of its events"),
    "deep objects": (b'{"schemaVersion": 1, "traceEvents": [' + b'{"args":' * 100_000, "none of its events"),
    "gzip rubbish": (b"\x1f\x8b" + b"rubbish" * 100, "broken at its start"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_trace_is_refused_with_one_clear_answer(tmp_path: Path, kind: str) -> None:
    content, words = REFUSED[kind]
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        read(path)
    assert words in caught.value.message
    assert caught.value.where == str(path)
    assert caught.value.remedy


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.json", tmp_path):
        with pytest.raises(TraceError):
            read(path)


def test_bombs_are_refused_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    head = b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "'
    path.write_bytes(gzip.compress(head + b"a" * (80 << 20)))
    with pytest.raises(TraceError, match="bomb"):
        read(path)
    with pytest.raises(TraceError, match="one event is longer"):
        read(path, limits=Limits(ratio=10_000, event_bytes=1 << 20))
    with pytest.raises(TraceError, match="longer than"):
        read(path, limits=Limits(ratio=10_000, raw_bytes=1 << 20))


def test_too_many_events_or_names_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.json", document([op(k, 1, f"op{k}") for k in range(50)]))
    with pytest.raises(TraceError, match="more than 20 events"):
        read(path, limits=Limits(events=20))
    with pytest.raises(TraceError, match="different names"):
        read(path, limits=Limits(names=20))
    assert max(map(len, read(path, limits=Limits(name_chars=3)).names)) == 3


def test_the_gpu_kernels_names_are_kept(tmp_path: Path) -> None:
    timeline = _read(tmp_path, [*launched(10, 1, 1), *launched(20, 1, 2, GEMM)])
    assert [timeline.names[i] for i in timeline.gpu.name] == [KERNEL, GEMM]
