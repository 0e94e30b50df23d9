"""Damaged run folders: what is left is judged, what is gone is named, and nothing left is an error."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

import bakeoff
from bakeoff.app.merging import compare_runs
from bakeoff.errors import RunFolderError
from bakeoff.model import Result
from bakeoff.runs import RunFolder
from bakeoff.runs.missing import missing_files

from .flow import experiment
from .test_flow import cli


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of three rounds without A/A: blocks 0 to 5."""
    root = tmp_path_factory.mktemp("measured")
    file = experiment(root, budget={"pairs": "3..3", "minutes": 5}, aa=0)
    return Path(bakeoff.run(file, root=root / "runs").run)


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "runs" / measured.name))


def told(result: Result, code: str) -> list[str]:
    return [caution.message for caution in result.warnings if caution.code == code]


def test_a_whole_run_has_lost_nothing(run: Path) -> None:
    info = RunFolder.open(run).info
    assert (info.blocks, missing_files(run, info.blocks)) == (6, ())
    result = bakeoff.compare(run)
    assert told(result, "missing-files") == told(result, "broken-files") == []


@pytest.mark.parametrize("number", [0, 3, 5])
def test_a_lost_block_is_named_wherever_it_stood(run: Path, number: int) -> None:
    whole = bakeoff.compare(run)
    (run / f"requests/{number:03d}.parquet").unlink()
    result = bakeoff.compare(run)
    assert told(result, "missing-files") == [f"files of this run are gone: requests/{number:03d}.parquet"]
    assert max(row.pairs for row in result.comparisons) == 2
    assert whole.stop_reason is not None
    assert result.stop_reason == f"{whole.stop_reason} (since then lost, and not counted here: 1 of 6 blocks)"


def test_lost_and_unreadable_files_beside_each_other(run: Path) -> None:
    (run / "telemetry/002.parquet").unlink()
    (run / "requests/004.parquet").write_bytes(b"PAR1 no more")
    (run / "starts.parquet").unlink()
    result = bakeoff.compare(run)
    assert told(result, "missing-files") == ["files of this run are gone: telemetry/002.parquet; starts.parquet"]
    (broken,) = told(result, "broken-files")
    assert "requests/004.parquet" in broken
    assert result.stop_reason is not None
    assert "1 of 6 blocks" in result.stop_reason
    assert result.resources == ()  # what hangs on starts has no data


def test_starts_that_cannot_be_read_block_no_report(run: Path) -> None:
    path = run / "starts.parquet"
    path.write_bytes(path.read_bytes()[:200])
    (broken,) = told(bakeoff.compare(run), "broken-files")
    assert broken.startswith("left out, because it cannot be read: starts.parquet")
    done = cli("report", str(run), cwd=run)
    assert done.returncode == 0, done.stderr
    assert "starts.parquet" in done.stdout
    with pytest.raises(RunFolderError):
        RunFolder.open(run).starts()


@pytest.mark.parametrize("counted", [True, False])
def test_with_all_blocks_gone_there_is_nothing_to_report(run: Path, counted: bool) -> None:
    folder = RunFolder.open(run)
    if not counted:  # a folder of a version that did not count
        folder.update(blocks=0)
    for file in (run / "requests").iterdir():
        file.unlink()
    with pytest.raises(RunFolderError, match="blocks of this run are gone"):
        bakeoff.compare(run)
    for verb in ("report", "compare"):
        done = cli(verb, str(run), cwd=run)
        assert done.returncode == 2
        assert "are gone" in done.stderr


def test_merged_runs_name_the_run_of_a_lost_file(run: Path) -> None:
    other = Path(shutil.copytree(run, run.parent / "other"))
    folder = RunFolder.open(other)
    folder.update(id="other", created=folder.info.created + "1")
    (other / "requests/001.parquet").unlink()
    result, _ = compare_runs([run, other])
    assert told(result, "missing-files") == ["files of this run are gone: other/requests/001.parquet"]


def test_a_verdict_that_cannot_be_saved_is_told_all_the_same(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: RunFolder, _result: Result) -> Path:
        raise RunFolderError("cannot write (Permission denied)")

    whole = bakeoff.compare(run)
    monkeypatch.setattr(RunFolder, "write_result", full)
    result = bakeoff.compare(run)
    assert told(result, "not-saved") == ["result.json is not renewed: cannot write (Permission denied)"]
    assert msgspec.structs.replace(result, warnings=whole.warnings) == whole


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission(run: Path) -> None:
    run.chmod(0o555)
    try:
        done = cli("compare", str(run), cwd=run.parent)
    finally:
        run.chmod(0o755)
    assert done.returncode in (0, 4), done.stderr
    assert "not renewed" in done.stdout


def test_without_a_name_runs_that_measured_nothing_are_passed_over(run: Path) -> None:
    empty = Path(shutil.copytree(run, run.parent / "29990101-000000-later-abcdef"))
    for file in (empty / "requests").iterdir():
        file.unlink()
    assert RunFolder.latest(run.parent) == run
    shutil.rmtree(run)
    assert RunFolder.latest(empty.parent) == empty


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_an_output_that_nobody_takes_is_one_line(run: Path) -> None:
    import subprocess

    from .test_flow import CLI

    with open("/dev/full", "w") as full:
        done = subprocess.run([*CLI, "report", str(run)], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: cannot write the output (No space left on device)\n"
