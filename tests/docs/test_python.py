"""The Python in the documentation compiles; the short pieces are run, against mock servers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bakeoff
from bakeoff.mock import LatencyModel, RunningMock, running

from .pages import CodeBlock, code_blocks

PYTHON = code_blocks("python")
FAST = LatencyModel(ttft_s=0.005, tpot_s=0.001)


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.id)
def test_python_compiles(block: CodeBlock) -> None:
    assert compile(block.text, block.id, "exec").co_code


def _run(marker: str) -> dict[str, Any]:
    """The names that the block with this text in it defines."""
    (block,) = [b for b in PYTHON if b.page == "python.md" and marker in b.text]
    names: dict[str, Any] = {}
    exec(compile(block.text, block.id, "exec"), names)  # noqa: S102  # our own documentation
    return names


@pytest.fixture(scope="module")
def mocks() -> Iterator[tuple[RunningMock, RunningMock]]:
    with running(FAST) as base, running(FAST) as other:
        yield base, other


@pytest.fixture(scope="module")
def made(mocks: tuple[RunningMock, RunningMock], tmp_path_factory: pytest.TempPathFactory) -> bakeoff.Result:
    """The result of the page's experiment in code, run against two mocks."""
    base, other = mocks
    (block,) = [b for b in PYTHON if "experiment = Experiment(" in b.text]
    root = tmp_path_factory.mktemp("runs")
    text = block.text.replace("http://127.0.0.1:8000", base.url).replace("http://127.0.0.1:8001", other.url)
    text = text.replace("bakeoff.run(experiment)", f"bakeoff.run(experiment, root={str(root)!r})")
    names: dict[str, Any] = {}
    exec(compile(text, block.id, "exec"), names)  # noqa: S102  # our own documentation
    result = names["result"]
    assert isinstance(result, bakeoff.Result)
    return result


def test_the_experiment_in_code_runs(made: bakeoff.Result) -> None:
    assert made.state == "complete"
    assert made.rounds == 2


def test_results_and_raw_blocks_are_read_as_shown(made: bakeoff.Result) -> None:
    assert isinstance(_run("def slower_gates")["slower_gates"](made.run), list)
    medians = _run("def median_ttft_ms")["median_ttft_ms"](made.run)
    assert {variant for _, variant, _ in medians} == {"base", "candidate"}
    assert all(value > 0 for value in medians.values())


def test_reports_come_in_every_named_format(made: bakeoff.Result) -> None:
    for name, beginning in (("html", "<!doctype html>"), ("markdown", "###"), ("json", "{"), ("terminal", "base →")):
        assert bakeoff.report(made.run, name).startswith(beginning)  # type: ignore[arg-type]  # each of them is one


def test_errors_are_told_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    _run("no-such-file.yaml")
    assert "there is no such file" in capsys.readouterr().out


def test_the_mock_answers_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    _run("with running(")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+ http://127\.0\.0\.1:\d+\n", capsys.readouterr().out)


def test_progress_is_told_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    _run("class Told")["Told"]().round_done(1, None, ("chat TTFT +1 %",))
    assert "chat TTFT +1 %" in capsys.readouterr().out


def test_the_notebook_form_works_where_a_loop_runs(
    mocks: tuple[RunningMock, RunningMock], made: bakeoff.Result, tmp_path: Path
) -> None:
    from bakeoff.runs import RunFolder

    experiment = RunFolder.open(Path(made.run)).info.experiment
    cell = _run("async def cell")["cell"]
    result = asyncio.run(cell(experiment, str(tmp_path / "runs")))
    assert result.state == "complete"
