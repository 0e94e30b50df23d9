"""What cannot be done is refused before anything is promised or done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import bakeoff
from bakeoff.cli.main import cli
from bakeoff.errors import BakeoffError, UsageError

from ..app.flow import experiment


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("order")
    return Path(bakeoff.run(experiment(root, starts="once", resident="all", aa=0), root=root / "runs").run)


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)


def test_no_forecast_comes_before_an_error(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = experiment(tmp_path)
    for words in (("--resume", run), (file, "--runs", tmp_path / "file" / "x")):
        done = call("run", *words)
        assert isinstance(done.exception, BakeoffError)
        assert done.exception.exit_code == 2
        assert done.output == ""


def test_the_forecast_comes_before_the_first_round(tmp_path: Path) -> None:
    path = experiment(tmp_path, starts="once", resident="all", aa=0)
    lines = call("run", path, "--runs", tmp_path / "runs").stderr.splitlines()
    assert lines[0].startswith("at most 5 min; ")
    places = [place for place, line in enumerate(lines) if line.startswith("! base and flash are one setup")]
    assert places == [2]  # behind the warning that two pairs are too few
    assert any(line.startswith("round 1") for line in lines[3:])


@pytest.mark.parametrize(
    "formats", [("--html", "--json"), ("--json", "--markdown"), ("--terminal", "--html"), ("--html", "--markdown")]
)
def test_a_report_has_one_format(formats: tuple[str, ...], run: Path) -> None:
    before = (run / "report.html").stat().st_mtime_ns
    done = call("report", run, *formats)
    assert isinstance(done.exception, UsageError)
    assert all(name in str(done.exception) for name in formats)
    assert (run / "report.html").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("words", "beginning"),
    [((), "flow"), (("--terminal",), "flow"), (("--json",), "{"), (("--markdown",), "###"), (("--html",), "/")],
)
def test_each_format_alone_is_given(words: tuple[str, ...], beginning: str, run: Path) -> None:
    told: Any = call("report", run, *words).stdout.lstrip()
    if words == ("--json",):
        assert json.loads(told)["name"] == "flow"
    assert told.startswith(beginning) or words in ((), ("--terminal",))
    assert told
