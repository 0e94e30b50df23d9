"""What an experiment names is looked into by `plan` and `run` alike, before anything is begun."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import bakeoff
from bakeoff.app.loading import checked_inputs, load_experiment
from bakeoff.cli.main import cli
from bakeoff.errors import BakeoffError

from .flow import experiment

QUESTION = '{"prompt": "1+1=", "answer": "2"}\n'


def prompts(path: str, **more: Any) -> dict[str, Any]:
    workload = {"prompts": {"path": path, **more}, "output_tokens": 4, "load": {"concurrency": 1}}
    return {"workloads": {"chat": workload}}


def task(**keys: Any) -> dict[str, Any]:
    return {"quality": {"tasks": {"sums": keys}}}


def write(name: str, content: bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return make


def both(*makers: Callable[[Path], None]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for maker in makers:
            maker(folder)

    return make


def nothing(_folder: Path) -> None:
    pass


SUMS = write("q.jsonl", QUESTION.encode())
CSV = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,4808,10\n"
BAD = {
    "empty": (write("p.jsonl", b""), prompts("p.jsonl"), "holds no prompt"),
    "folder": (lambda folder: (folder / "d").mkdir(), prompts("d"), "is not a file"),
    "fifo": (lambda folder: os.mkfifo(folder / "f"), prompts("f"), "is not a file"),
    "endless": (nothing, prompts("/dev/zero"), "is not a file"),
    "binary": (write("p.jsonl", bytes(range(128, 256)) * 9), prompts("p.jsonl"), "not valid JSON"),
    "json as jsonl": (write("p.json", b'{\n"a": 1\n}\n'), prompts("p.json"), "3 lines are not prompts"),
    "jsonl as sharegpt": (write("p.json", QUESTION.encode()), prompts("p.json", source="sharegpt"), "array"),
    "csv as mooncake": (write("t.csv", CSV), prompts("t.csv", source="mooncake"), "not valid JSON"),
    "jsonl as azure": (write("t.jsonl", QUESTION.encode()), prompts("t.jsonl", source="azure"), "t.jsonl"),
    "all too long": (
        write("t.csv", CSV),
        prompts("t.csv", source="azure", max_input_tokens=8, overlong="skip"),
        "every prompt is longer",
    ),
    "no question": (write("q.jsonl", b"\n"), task(path="q.jsonl"), "holds no question"),
    "questions in a fifo": (lambda folder: os.mkfifo(folder / "f"), task(path="f"), "is not a file"),
    "endless questions": (nothing, task(path="/dev/zero"), "is not a file"),
    "bad question": (write("q.jsonl", b'{"prompt": "1+1="}\n'), task(path="q.jsonl"), "q.jsonl:1"),
    "choice without choices": (SUMS, task(path="q.jsonl", scorer="choice"), "needs choices"),
    "no such function": (
        both(SUMS, write("scorer.py", b"")),
        task(path="q.jsonl", function="scorer:score"),
        "cannot be loaded",
    ),
    "module that fails": (
        both(SUMS, write("scorer.py", b"1 / 0\n")),
        task(path="q.jsonl", function="scorer:score"),
        "ZeroDivisionError",
    ),
    "module that exits": (
        both(SUMS, write("scorer.py", b"import sys\nsys.exit(0)\n")),
        task(path="q.jsonl", function="scorer:score"),
        "SystemExit",
    ),
    "no reasoning-gym": (nothing, task(), "reasoning-gym is not installed"),
    "no lm-eval": (nothing, task(task="gsm8k"), "lm-eval is not installed"),
}


@pytest.mark.parametrize("case", BAD)
def test_plan_and_run_refuse_it_with_the_same_words_and_begin_nothing(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, keys, words = BAD[case]
    make(tmp_path)
    for library in ("reasoning_gym", "lm_eval"):
        monkeypatch.setitem(sys.modules, library, None)  # as if it were not there
    file = experiment(tmp_path, **keys)
    with pytest.raises(BakeoffError, match=words) as planned:
        CliRunner().invoke(cli, ["plan", str(file)], standalone_mode=False, catch_exceptions=False)
    with pytest.raises(BakeoffError) as refused:
        CliRunner().invoke(
            cli,
            ["run", str(file), "--quiet", "--runs", str(tmp_path / "runs")],
            standalone_mode=False,
            catch_exceptions=False,
        )
    assert str(refused.value) == str(planned.value)
    assert planned.value.exit_code == 2
    assert not (tmp_path / "runs").exists()


def test_a_plan_refuses_budgets_and_prices_as_a_run_does(tmp_path: Path) -> None:
    slow = {"prompts": {"input_tokens": 24}, "output_tokens": 4, "load": {"rate": 0.05}, "block": {"requests": 16}}
    file = experiment(tmp_path, workloads={"slow": slow}, budget={"pairs": "2..2", "minutes": 1})
    with pytest.raises(BakeoffError, match="one round takes at least"):
        CliRunner().invoke(cli, ["plan", str(file)], standalone_mode=False, catch_exceptions=False)


def test_what_is_fit_comes_back_ready_for_use(tmp_path: Path) -> None:
    SUMS(tmp_path)
    (tmp_path / "p.jsonl").write_text('{"prompt": "one"}\n')
    found = checked_inputs(load_experiment(experiment(tmp_path, **prompts("p.jsonl"), **task(path="q.jsonl"))))
    assert set(found.engines) == {"command"}
    assert [(loaded.task.name, len(loaded.items)) for loaded in found.tasks] == [("sums", 1)]


def test_a_scorer_that_exits_ends_no_run(tmp_path: Path) -> None:
    """Its answers could not be graded, and the verdict says why."""
    SUMS(tmp_path)
    (tmp_path / "scorer.py").write_text("import sys\ndef score(answer, item):\n    sys.exit(0)\n")
    file = experiment(tmp_path, aa=0, **task(path="q.jsonl", function="scorer:score"))
    result = bakeoff.run(file, root=tmp_path / "runs")
    assert result.state == "complete"
    (row,) = [score for score in result.scores if score.measure == "accuracy"]
    assert row.outcome == "invalid"
    assert row.reason is not None
    assert "the function raised SystemExit: 0" in row.reason
    assert "mend the function" in row.reason


def test_a_plan_writes_levels_out(tmp_path: Path) -> None:
    fast = {"prompts": {"input_tokens": 24}, "output_tokens": 4, "load": {"rate": [1_000_000, 0.125]}}
    told = CliRunner().invoke(cli, ["plan", str(experiment(tmp_path, workloads={"w": fast}))], standalone_mode=False)
    assert "w/r1000000, w/r0.125" in told.output
