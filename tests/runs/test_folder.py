"""Names, locks, resumption and everything that can be wrong with a folder."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bakeoff.errors import RunFolderError
from bakeoff.model import RequestRecord, Sink, Start
from bakeoff.runs import RunFolder
from bakeoff.runs.info import slug
from bakeoff.runs.parts import MAX_FILE_BYTES

from .making import block, folder, record, sample


def test_the_folder_is_named_by_time_and_experiment(tmp_path: Path) -> None:
    run = folder(tmp_path / "runs")
    assert re.fullmatch(r"\d{8}-\d{6}-q4-gegen-q8-groer-[0-9a-f]{6}", run.path.name)
    sink: Sink = run  # the type checker sees to it that a run folder is one
    assert sink is run
    assert run.info.id == run.path.name
    assert run.path.is_absolute()


@pytest.mark.parametrize(
    ("name", "text"), [("../../etc", "etc"), ("", "run"), ("日本", "run"), ("A b__C", "a-b-c"), ("x" * 99, "x" * 40)]
)
def test_a_name_becomes_a_safe_part_of_a_file_name(name: str, text: str) -> None:
    assert slug(name) == text


def test_two_runs_of_one_second_do_not_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = iter(["20250101-000000-x-aaaaaa", "20250101-000000-x-aaaaaa", "20250101-000000-x-bbbbbb"])
    monkeypatch.setattr("bakeoff.runs.folder.new_id", lambda *_: next(ids))
    assert [folder(tmp_path).path.name[-6:] for _ in range(2)] == ["aaaaaa", "bbbbbb"]


def test_latest_is_the_newest_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stamp in ("20250301-120000", "20250302-120000", "20250228-120000"):
        monkeypatch.setattr("bakeoff.runs.folder.new_id", lambda *_, s=stamp: f"{s}-x-000000")
        folder(tmp_path)
    (tmp_path / "20990101-000000-half-made-000000").mkdir()
    assert RunFolder.latest(tmp_path).name == "20250302-120000-x-000000"
    with pytest.raises(RunFolderError, match="there is no run here"):
        RunFolder.latest(tmp_path / "nowhere")


def test_opening_something_else_says_what_to_name(tmp_path: Path) -> None:
    folder(tmp_path)
    with pytest.raises(RunFolderError, match=r"(?s)not a run folder.*name one of the 1 runs inside it"):
        RunFolder.open(tmp_path)


def test_another_schema_or_damage_of_run_json_is_told(tmp_path: Path) -> None:
    run = folder(tmp_path)
    head = run.path / "run.json"
    good = head.read_bytes()
    head.write_bytes(good.replace(b"bakeoff.run/1", b"bakeoff.run/9"))
    with pytest.raises(RunFolderError, match=r"bakeoff.run/9.*\n→ read it with the Bakeoff version"):
        RunFolder.open(run.path)
    for bad in (good[:-40], b"", b"[]", b"\xff\xfe", b'{"schema": "bakeoff.run/1"}', b"[" * 100_000):
        head.write_bytes(bad)
        with pytest.raises(RunFolderError, match=r"run\.json"):
            RunFolder.open(run.path)


def test_unknown_keys_of_a_newer_writer_are_ignored(tmp_path: Path) -> None:
    run = folder(tmp_path)
    head = run.path / "run.json"
    content = msgspec.json.decode(head.read_bytes())
    content["mood"] = "good"
    head.write_bytes(msgspec.json.encode(content))
    assert RunFolder.open(run.path).info == run.info


def test_a_block_is_never_overwritten(tmp_path: Path) -> None:
    run = folder(tmp_path)
    run.write_block(block(0), [record(0)], [])
    with pytest.raises(RunFolderError, match="already written"):
        run.write_block(block(0), [record(1)], [])
    assert run.records(0) == [record(0)]


def test_ids_go_on_after_a_restart(tmp_path: Path) -> None:
    run = folder(tmp_path)
    assert (run.next_block_id(), run.next_start_id()) == (0, 0)
    for block_id in (0, 1, 1000):
        run.write_block(block(block_id), [record(0)], [])
    run.write_start(Start(id=4, variant="base", round=0, group=0))
    again = RunFolder.open(run.path)
    assert (again.next_block_id(), again.next_start_id()) == (1001, 5)
    assert [b.id for b in again.block_infos()] == [0, 1, 1000]
    path, name = again.log_path(7, "../Base One")
    assert name == "logs/007-base-one.log"
    assert path == run.path / name
    path.write_text("killed before its start was written")
    assert again.next_start_id() == 8


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    run = folder(tmp_path)
    (run.path / "telemetry").rmdir()
    (run.path / "telemetry").write_text("in the way")
    with run.lock(), pytest.raises(RunFolderError, match=r"(?s)cannot write.*--resume"):
        run.write_block(block(0), [record(0)], [])
    # Nothing is being measured: there is nothing to go on with.
    with pytest.raises(RunFolderError, match=r"(?s)cannot write.*-o FILE") as told:
        run.write_block(block(0), [record(0)], [])
    assert "--resume" not in str(told.value)
    assert run.blocks() == []


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOLCK])
def test_a_folder_that_cannot_be_locked_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    run = folder(tmp_path)

    def refuse(*_args: object, **_kw: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("bakeoff.runs.locking.fcntl.flock" if code == errno.ENOLCK else "os.open", refuse)
    with pytest.raises(RunFolderError) as told, run.lock():
        pass
    monkeypatch.undo()
    assert os.strerror(code) in str(told.value)
    assert str(run.path) in str(told.value)
    assert told.value.remedy
    with run.lock():
        assert run.update(state="complete").state == "complete"


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = folder(tmp_path)

    def refuse(*_args: object, **_kw: object) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(RunFolderError, match="cannot be read"):
        RunFolder.open(run.path)
    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(RunFolderError, match="cannot be read"):
        RunFolder.latest(tmp_path)
    with pytest.raises(RunFolderError, match="cannot be read"), run.lock():
        pass


def test_leftovers_are_ignored_and_cleared_under_the_lock(tmp_path: Path) -> None:
    run = folder(tmp_path)
    run.write_block(block(0), [record(0)], [])
    leftovers = [run.path / "requests/001.parquet.77.tmp", run.path / "telemetry/001.parquet.77.tmp"]
    leftovers.append(run.path / "run.json.77.tmp")
    for path in leftovers:
        path.write_bytes(b"half")
    again = RunFolder.open(run.path)
    assert len(again.blocks()) == 1
    assert again.next_block_id() == 1
    assert all(path.exists() for path in leftovers)
    with again.lock():
        assert not any(path.exists() for path in leftovers)


def test_a_second_process_is_refused_with_the_pid(tmp_path: Path) -> None:
    run = folder(tmp_path)
    script = (
        "import sys, pathlib; from bakeoff.runs import RunFolder\n"
        "with RunFolder.open(pathlib.Path(sys.argv[1])).lock():\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(RunFolderError, match=rf"process {child.pid} is measuring into this run"), run.lock():
            pytest.fail("two writers at once")
        child.kill()
    with run.lock():  # the lock went with its process
        pass


def test_the_lock_reads_what_another_process_changed(tmp_path: Path) -> None:
    run = folder(tmp_path)
    other = RunFolder.open(run.path)
    assert run.starts() == []
    other.write_start(Start(id=0, variant="base", round=0, group=0))
    other.update(state="interrupted")
    with run.lock():
        assert [s.id for s in run.starts()] == [0]
        assert run.info.state == "interrupted"


# ── parts that cannot be trusted ──────────────────────────────────────────────────────────────────────────────────


def _three_blocks(tmp_path: Path) -> RunFolder:
    run = folder(tmp_path)
    for block_id in range(3):
        run.write_block(block(block_id), [record(0), record(1)], [sample(1)])
    return run


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "foreign", "renamed", "version", "gaps"])
def test_a_bad_part_is_named_and_the_others_stay_readable(tmp_path: Path, damage: str) -> None:
    run = _three_blocks(tmp_path)
    path = run.path / "requests/001.parquet"
    good = path.read_bytes()
    table = pq.read_table(path)
    if damage == "truncated":
        path.write_bytes(good[: len(good) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_bytes(b"PAR1 not really PAR1")
    elif damage == "foreign":
        pq.write_table(pa.table({"a": [1]}), path)
    elif damage == "renamed":
        path.write_bytes((run.path / "requests/002.parquet").read_bytes())
    elif damage == "version":
        pq.write_table(table.replace_schema_metadata({b"bakeoff.schema": b"bakeoff.run/7"}), path)
    else:
        column = pa.array([None, 5], type=pa.int64())
        pq.write_table(table.set_column(table.column_names.index("scheduled_ns"), "scheduled_ns", column), path)
    with pytest.raises(RunFolderError, match=r"001\.parquet.*\n→ restore it from a copy"):
        run.blocks()
    assert [data.block.id for data in run.blocks(skip_broken=True)] == [0, 2]
    assert len(run.skipped) == 1
    assert run.skipped[0].startswith("requests/001.parquet: ")
    assert run.next_block_id() == 3


def test_damaged_telemetry_or_starts_are_named(tmp_path: Path) -> None:
    run = _three_blocks(tmp_path)
    (run.path / "telemetry/001.parquet").write_bytes(b"x")
    with pytest.raises(RunFolderError, match=r"telemetry/001\.parquet"):
        run.all_samples()
    assert sorted(run.all_samples(skip_broken=True)) == [0, 2]
    assert run.skipped[0].startswith("telemetry/001.parquet: ")
    (run.path / "starts.parquet").write_bytes(b"x")
    with pytest.raises(RunFolderError, match=r"starts\.parquet"):
        run.starts()


def test_bytes_flipped_anywhere_never_escape_as_another_error(tmp_path: Path) -> None:
    run = folder(tmp_path)
    run.write_block(block(0), [record(i) for i in range(20)], [])
    path = run.path / "requests/000.parquet"
    good = path.read_bytes()
    outcomes = set()
    for position in range(4, len(good), max(1, len(good) // 150)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 0x55]) + good[position + 1 :])
        for read in (run.blocks, lambda: run.records(0)):
            try:
                read()
                outcomes.add("read")
            except RunFolderError:
                outcomes.add("refused")
    assert "refused" in outcomes


def test_unknown_and_missing_columns_are_no_trouble(tmp_path: Path) -> None:
    run = folder(tmp_path)
    run.write_block(block(0), [record(0), record(1)], [])
    path = run.path / "requests/000.parquet"
    table = pq.read_table(path)
    older = table.drop_columns(["reasoning", "chunk_coalesced", "server_timings", "cached_tokens", "end_ns"])
    pq.write_table(older.append_column("mood", pa.array(["good", "bad"])), path)
    expected = [record(i, chunk_coalesced=[], server_timings={}) for i in range(2)]
    assert run.records(0) == expected
    columns = run.blocks()[0].columns
    assert columns["reasoning"].tolist() == ["", ""]
    assert columns["end_ns"].tolist() == [-1, -1]
    assert "mood" not in columns
    assert set(columns) == set(RequestRecord.__struct_fields__)


def test_a_missing_required_column_is_an_error(tmp_path: Path) -> None:
    run = folder(tmp_path)
    run.write_block(block(0), [record(0)], [])
    path = run.path / "requests/000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["scheduled_ns"]), path)
    with pytest.raises(RunFolderError, match="the column scheduled_ns is missing"):
        run.blocks()


def test_a_value_outside_its_list_is_an_error(tmp_path: Path) -> None:
    run = folder(tmp_path)
    run.write_block(block(0), [record(0)], [])
    path = run.path / "requests/000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index("error"), "error", pa.array(["oops"])), path)
    with pytest.raises(RunFolderError, match="a value does not fit"):
        run.records(0)


def test_a_pipe_or_a_huge_file_is_refused_without_reading(tmp_path: Path) -> None:
    run = folder(tmp_path)
    os.mkfifo(run.path / "requests/000.parquet")
    with (run.path / "requests/001.parquet").open("wb") as huge:
        huge.truncate(MAX_FILE_BYTES + 1)  # sparse: takes no room
    assert run.blocks(skip_broken=True) == []
    assert "not a regular file" in run.skipped[0]
    assert "more than" in run.skipped[1]


def test_a_log_outside_the_folder_is_forgotten(tmp_path: Path) -> None:
    run = folder(tmp_path)
    for start_id, log in enumerate(("/etc/passwd", "logs/../../secret", "logs/000-base.log")):
        run.write_start(Start(id=start_id, variant="base", round=0, group=0, log=log))
    assert [s.log for s in RunFolder.open(run.path).starts()] == [None, None, "logs/000-base.log"]


def test_secrets_stay_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "sk-planted-secret")
    run = folder(tmp_path, api_key="${PROVIDER_KEY}")
    run.write_block(block(0), [record(0)], [sample(1)])
    run.write_start(Start(id=0, variant="base", round=0, group=0))
    run.update(state="complete")
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert len(files) >= 4
    assert not [path for path in files if b"sk-planted-secret" in path.read_bytes()]
    assert b"${PROVIDER_KEY}" in (run.path / "run.json").read_bytes()
