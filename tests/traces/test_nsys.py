"""Nsight Systems exports: tables by name, joins, waits, graphs, damage, locks, and what is never read."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from bakeoff.traces import Timeline, TraceError, read
from bakeoff.traces.limits import Limits
from bakeoff.traces.timeline import GpuKind, HostKind, WaitKind

from .damage import CUT, EDITS, damaged, read_or_refused, sound
from .nsys_files import PID, SECRET, TID, NsysFile, write_nsys

REAL = Path(__file__).parents[3] / "shared" / "traces" / "nsys"

SMALL = NsysFile(
    kernels=[(2000, 3000, "void gemm_kernel<float>(int)", 11), (3500, 4000, "ncclDevKernel_AllReduce", 12)],
    copies=[(4100, 4200, 1, 4096, 13), (4300, 4400, 8, 64, 14)],
    memsets=[(4500, 4600, 128)],
    calls=[
        (1000, 1100, "cudaLaunchKernel_v7000", 11),
        (1200, 1300, "cuLaunchKernelEx", 12),
        (1350, 1400, "cudaMemcpyAsync_ptsz_v7000", 13),
        (1500, 5000, "cudaStreamSynchronize_v3020", 15),
    ],
    ranges=[(900, 5100, "step 3", 59), (950, 1150, "aten::mm, op_id = 17", 59), (5, None, "domain", 75)],
    waits=[(1510, 4990, 2, 15)],
)


def names(timeline: Timeline, column: np.ndarray) -> list[str]:
    return [timeline.names[i] for i in column]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("suffix", ["", "_V3"])
def test_every_schema_gives_the_same_timeline(tmp_path: Path, old: bool, suffix: str) -> None:
    content = NsysFile(**{**SMALL.__dict__, "old": old, "suffix": suffix})
    timeline = read(write_nsys(tmp_path / "p.bin", content))  # recognised by content, not by name
    gpu = timeline.gpu
    assert timeline.format == "nsys"
    assert timeline.facts["schema"] == ("2.9.1" if old else "3.25.0")
    assert timeline.base_ns == 1_700_000_000_000_000_000
    assert names(timeline, gpu.name) == [
        "void gemm_kernel<float>(int)",
        "ncclDevKernel_AllReduce",
        "Memcpy HtoD",
        "Memcpy DtoD",
        "Memset",
    ]
    assert list(gpu.kind) == [GpuKind.KERNEL, GpuKind.KERNEL, GpuKind.MEMCPY, GpuKind.MEMCPY, GpuKind.MEMSET]
    assert list(gpu.bytes) == [-1, -1, 4096, 64, 128]
    launches = ["" if i < 0 else timeline.names[timeline.host.name[i]] for i in gpu.launch]
    assert launches == ["cudaLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync", "", ""]
    assert timeline.devices[0].memory_bandwidth == 3.35e12
    assert timeline.devices[0].compute_capability == (9, 0)
    assert timeline.lost_events == 0


def test_host_side_threads_ranges_and_operators(tmp_path: Path) -> None:
    timeline = read(write_nsys(tmp_path / "p.sqlite", SMALL))
    host = timeline.host
    kinds = {timeline.names[n]: HostKind(k) for n, k in zip(host.name, host.kind, strict=True)}
    assert kinds == {
        "cudaLaunchKernel": HostKind.RUNTIME,
        "cuLaunchKernelEx": HostKind.DRIVER,
        "cudaMemcpyAsync": HostKind.RUNTIME,
        "cudaStreamSynchronize": HostKind.RUNTIME,
        "step 3": HostKind.ANNOTATION,
        "aten::mm": HostKind.OP,
    }
    assert {(t.process, t.thread, t.name) for t in timeline.threads} == {(PID, TID, "main")}
    assert list(timeline.steps.number) == [3]
    first_op = timeline.gpu.op[0]
    assert timeline.names[host.name[first_op]] == "aten::mm"


@pytest.mark.parametrize("recorded", [1, 2, 3, 4])
def test_a_wait_is_what_its_call_says(tmp_path: Path, recorded: int) -> None:
    content = NsysFile(**{**SMALL.__dict__, "waits": [(1510, 4990, recorded, 15)]})
    waits = read(write_nsys(tmp_path / "p.sqlite", content)).waits
    assert list(waits.kind) == [WaitKind.STREAM]


def test_a_wait_without_its_call_is_what_the_record_says(tmp_path: Path) -> None:
    content = NsysFile(**{**SMALL.__dict__, "waits": [(10, 20, 1, 77), (30, 40, 4, 78)]})
    waits = read(write_nsys(tmp_path / "p.sqlite", content)).waits
    assert list(waits.kind) == [WaitKind.EVENT, WaitKind.DEVICE]


def test_graph_kernels_are_told_by_their_node(tmp_path: Path) -> None:
    content = NsysFile(**{**SMALL.__dict__, "graph_nodes": {1: 99}})
    timeline = read(write_nsys(tmp_path / "p.sqlite", content))
    assert list(timeline.gpu.graph >= 0) == [False, True, False, False, False]


def test_whole_graphs_count_as_busy_and_are_named(tmp_path: Path) -> None:
    content = NsysFile(graphs=[(100, 900, 5, 21)], calls=[(10, 20, "cudaGraphLaunch_v10000", 21)])
    timeline = read(write_nsys(tmp_path / "p.sqlite", content))
    assert len(timeline.gpu) == 1
    assert timeline.gpu.graph[0] >= 0
    assert "--cuda-graph-trace=node" in " ".join(timeline.notes)


def test_graph_launches_without_kernels_are_said(tmp_path: Path) -> None:
    content = NsysFile(**{**SMALL.__dict__, "calls": [(10, 20, "cudaGraphLaunch_v10000", 21)]})
    assert "--cuda-graph-trace=node" in " ".join(read(write_nsys(tmp_path / "p.sqlite", content)).notes)


def test_private_tables_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_nsys(tmp_path / "p.sqlite", SMALL)
    asked: list[str] = []
    connect = sqlite3.connect

    def traced(database: str, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(database, **options)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    timeline = read(path)
    assert asked
    assert not [q for q in asked if "SYSTEM_ENV" in q or "META_DATA_CAPTURE" in q or "ProcessStreams" in q]
    assert SECRET not in repr(timeline.__dict__)


def test_a_database_that_is_no_profile(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE runs (id INTEGER)")
    db.close()
    with pytest.raises(TraceError, match="not a profile"):
        read(path)


def test_damaged_databases_are_refused(tmp_path: Path) -> None:
    whole = write_nsys(tmp_path / "p.sqlite", SMALL).read_bytes()
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(TraceError) as caught:
        read(cut)
    assert caught.value.remedy


def test_a_schema_that_is_no_text(tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "p.sqlite", SMALL)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE StringIds", b"CREATE TABL\xd7\xd7StringIds"))
    with pytest.raises(TraceError, match="damaged"):
        read(path)


def test_more_events_than_allowed(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="more than the 3"):
        read(write_nsys(tmp_path / "p.sqlite", SMALL), limits=Limits(events=3))


def test_a_file_that_another_program_has_locked(tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "p.sqlite", SMALL)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert len(read(path).gpu) == 5
    finally:
        holder.close()


def test_rows_that_still_lie_in_a_write_ahead_log(tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "p.sqlite", SMALL)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 3100 WHERE start = 2000")
    try:
        assert read(path).gpu.end[0] == 3100
    finally:
        writer.close()


def test_nothing_is_written_beside_a_read_only_file(tmp_path: Path) -> None:
    folder = tmp_path / "ro"
    folder.mkdir()
    path = write_nsys(folder / "a file?#%.sqlite", SMALL)
    path.chmod(0o444)
    folder.chmod(0o555)
    try:
        assert len(read(path).gpu) == 5
        assert [p.name for p in folder.iterdir()] == [path.name]
    finally:
        folder.chmod(0o755)


def test_views_of_the_file_are_not_run(tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "p.sqlite", NsysFile(kernels=SMALL.kernels))
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE NVTX_EVENTS")
        db.execute(
            "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) "
            "SELECT start, start AS end, 59 AS eventType, 'x' AS text, 1 AS globalTid, NULL AS textId FROM n"
        )
    db.close()
    assert len(read(path).gpu) == 2


def test_texts_nulls_and_extreme_numbers_in_number_columns(tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "p.sqlite", SMALL)
    with sqlite3.connect(path) as db:
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        db.execute(f"INSERT INTO {table} (start, end) VALUES ('soon', 5)")  # noqa: S608 - a name of this file
        db.execute(f"INSERT INTO {table} (start, end) VALUES (10, NULL)")  # noqa: S608 - a name of this file
        db.execute(
            f"INSERT INTO {table} (start, end, deviceId, streamId, correlationId, globalPid, graphNodeId) "  # noqa: S608
            f"VALUES ({2**63 - 1}, {-(2**63)}, {2**62}, {-(2**63)}, {2**63 - 1}, {2**63 - 1}, {-5})"
        )
    db.close()
    timeline = read(path)
    assert len(timeline.gpu) == 5
    assert timeline.losses["lost_no_time"] == 3
    assert timeline.lost_events == 3


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS, cut=CUT)
def test_mutated_files_never_crash(tmp_path: Path, edits: list[tuple[float, int]], cut: float) -> None:
    source = tmp_path / "source.sqlite"
    if not source.exists():
        write_nsys(source, SMALL)
    path = tmp_path / "mutated"
    path.write_bytes(damaged(source.read_bytes(), edits, cut, keep=16))
    assert sound(read_or_refused(path, "nsys"))


@pytest.mark.skipif(not REAL.exists(), reason="the real profiles are not here")
def test_the_h100_profile_gives_its_reference_values() -> None:
    timeline = read(REAL / "schema_3_25_h100_before.sqlite")
    gpu = timeline.gpu
    mine = (gpu.device == 0) & (gpu.kind == GpuKind.KERNEL)
    start, end = gpu.start[mine], gpu.end[mine]
    reached = np.maximum.accumulate(end)
    span = reached[-1] - start[0]
    busy = span - np.maximum(0, start[1:] - reached[:-1]).sum()
    nccl = np.array(["nccl" in timeline.names[i] for i in gpu.name[mine]])
    assert span / 1e6 == pytest.approx(299.85, rel=1e-3)
    assert busy / 1e6 == pytest.approx(270.86, rel=1e-3)
    assert (end - start)[nccl].sum() / 1e6 == pytest.approx(17.17, rel=1e-3)
    assert set(np.unique(timeline.waits.kind)) == {WaitKind.EVENT, WaitKind.STREAM_WAIT, WaitKind.STREAM}


@pytest.mark.skipif(not REAL.exists(), reason="the real profiles are not here")
@pytest.mark.parametrize(
    ("file", "events"),
    [("schema_2_9_1_saxpy", 20), ("schema_3_13_2_cloverleaf", 1591), ("schema_3_24_two_kernels", 3)],
)
def test_older_and_newer_schemas_link_every_event(file: str, events: int) -> None:
    timeline = read(REAL / f"{file}.sqlite")
    assert len(timeline.gpu) == events
    assert (timeline.gpu.launch >= 0).all()
    assert timeline.devices[0].memory_bandwidth
