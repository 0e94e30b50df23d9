"""Commands whose standard streams are closed end as they would with streams to nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bakeoff

from ..app.flow import experiment

_CLOSES = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-", "all": "<&- >&- 2>&-"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("streams")
    path = experiment(root, starts="once", resident="all", aa=0)
    run = Path(bakeoff.run(path, root=root / "runs").run)
    run.rename(root / "runs" / "one")
    event = {"cat": "Node", "pid": 7, "tid": 8, "ph": "X", "args": {"op_name": "MatMul"}}
    nodes = [{**event, "name": "a_kernel_time", "ts": 10 * start, "dur": 5} for start in range(3)]
    (root / "trace.json").write_text("[\n" + ",\n".join(map(json.dumps, nodes)) + "\n]\n")
    return root


def shell(command: str, closed: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = f"{sys.executable} -m bakeoff {command} {_CLOSES[closed]}"
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=110, check=False, env=os.environ
    )


# 4: the machine disturbed what was measured, or is not fit to measure; 2: there is no such run.
_CODES = {
    "report runs/one": {0},
    "compare runs/one": {0, 4},
    "plan experiment.yaml": {0},
    "--version": {0},
    "doctor --seconds 0.2": {0, 4},
    "trace trace.json": {0},
    "report missing": {2},
}


@pytest.mark.parametrize(
    ("command", "closed"),
    [
        *((command, closed) for command in _CODES for closed in ("stdout", "all")),
        ("compare runs/one", "stdin"),
        ("compare runs/one", "stderr"),
    ],
)
def test_the_exit_code_is_that_of_open_streams(command: str, closed: str, folder: Path) -> None:
    done = shell(command, closed, folder)
    assert done.returncode in _CODES[command], done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert bool(done.stdout) is (closed in ("stdin", "stderr") and command != "report missing")


def test_a_run_ends_in_order_without_a_stdout(folder: Path) -> None:
    done = shell("run experiment.yaml --quiet --runs closed --fail-if 'ttft_s < -99%'", "stdout", folder)
    (result,) = folder.glob("closed/*/result.json")
    assert bakeoff.compare(result.parent).state == "complete"
    # 4: the machine disturbed it. Never 1, which says that a limit failed.
    assert done.returncode in (0, 4), done.stderr


def test_a_closed_descriptor_is_no_file_of_ours(folder: Path) -> None:
    """What is printed to a closed stdout goes nowhere, whatever was opened meanwhile."""
    words = "import os, sys\nfrom bakeoff.cli.streams import open_closed_streams\nopen_closed_streams()\n"
    words += "own = os.open('own.txt', os.O_CREAT | os.O_WRONLY)\nprint('lost', flush=True)\nassert own > 2"
    done = subprocess.run(
        ["/bin/sh", "-c", f'{sys.executable} -c "{words}" >&- <&-'],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "own.txt").read_bytes() == b""
