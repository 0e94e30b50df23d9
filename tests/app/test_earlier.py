"""Which earlier run a plan takes the noise of a pair from: copies of one run, each with another past."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import bakeoff
from bakeoff.app import earlier
from bakeoff.app.foretell import plan
from bakeoff.app.loading import load_experiment
from bakeoff.model import Experiment
from bakeoff.runs import RunFolder

from .flow import experiment, mock_command

BUDGET = {"pairs": 5, "minutes": 5}
CHANGED = mock_command("--tpot", "2ms")
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("measured")
    path = experiment(root, candidate=CHANGED, budget=BUDGET, starts="once", resident="all", aa=0)
    return Path(bakeoff.run(path, root=root / "runs").run)


def nothing(_document: dict[str, Any]) -> None:
    pass


def past(measured: Path, root: Path, day: int, head: Edit = nothing, result: Edit = nothing) -> str:
    """A copy of the run as one of that day, all its rows sound unless `result` says otherwise."""
    run = root / f"202001{day:02}-000000-flow-000000"
    shutil.copytree(measured, run)
    for name, edit in (("run.json", head), ("result.json", result)):
        document = json.loads((run / name).read_text())
        if name == "run.json":
            document["id"] = run.name
        for row in document.get("comparisons", ()):
            row["outcome"] = "inconclusive"
        edit(document)
        (run / name).write_text(json.dumps(document))
    return run.name


def flags(*words: str) -> Edit:
    """A run whose candidate had other flags."""

    def edit(head: dict[str, Any]) -> None:
        head["experiment"]["variants"][1]["settings"]["command"] += list(words)

    return edit


def level(number: float) -> Edit:
    """A run at another load, of that number."""

    def edit(head: dict[str, Any]) -> None:
        for workload in head["experiment"]["workloads"]:
            workload["output_tokens"] = number

    return edit


def servers(*addresses: str, model: str = "m") -> Edit:
    def edit(head: dict[str, Any]) -> None:
        for variant, url in zip(head["experiment"]["variants"], addresses, strict=True):
            variant |= {"engine": "openai", "settings": {"url": url, "model": model}}

    return edit


def asked(folder: Path, **more: Any) -> Experiment:
    return load_experiment(experiment(folder, candidate=CHANGED, budget={"pairs": "6..20"}, **more))


def sources(question: Experiment, root: Path) -> set[str]:
    return {one.source for one in plan(question, root).sensitivity}


def test_the_same_experiment_goes_before_the_same_cell_and_that_before_another(measured: Path, tmp_path: Path) -> None:
    question = asked(tmp_path)
    other = past(measured, tmp_path / "runs", 9, level(9))
    assert sources(question, tmp_path / "runs") == {f"{other}, another cell"}
    cell = past(measured, tmp_path / "runs", 5, flags("--seed", "1"))
    assert sources(question, tmp_path / "runs") == {f"{cell}, this cell with other settings"}
    own = past(measured, tmp_path / "runs", 2)
    assert sources(question, tmp_path / "runs") == {f"{own}, this cell"}
    newer = past(measured, tmp_path / "runs", 3)
    assert sources(question, tmp_path / "runs") == {f"{newer}, this cell"}


def test_another_program_or_model_is_another_server(measured: Path, tmp_path: Path) -> None:
    def program(head: dict[str, Any]) -> None:
        for variant in head["experiment"]["variants"]:
            variant["settings"]["command"] = ["vllm", "serve", "x"]

    def model(head: dict[str, Any]) -> None:
        head["experiment"]["variants"][0]["settings"]["model"] = "another"

    past(measured, tmp_path / "runs", 1, program)
    past(measured, tmp_path / "runs", 2, model)
    assert sources(asked(tmp_path), tmp_path / "runs") == {"assumed"}


@pytest.mark.parametrize(
    ("addresses", "model", "same"),
    [
        (("http://127.0.0.1:8000", "http://127.0.0.1:8001"), "m", True),
        (("http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1/chat/completions"), "m", True),
        (("http://127.0.0.1:8000", "http://127.0.0.1:8002"), "m", False),
        (("http://10.0.0.1:8000", "http://10.0.0.1:8001"), "m", False),
        (("http://127.0.0.1:8000", "http://127.0.0.1:8001"), "another", False),
    ],
)
def test_servers_by_url_are_the_same_at_one_address_with_one_model(
    addresses: tuple[str, str], model: str, same: bool, measured: Path, tmp_path: Path
) -> None:
    past(measured, tmp_path / "runs", 1, servers(*addresses, model=model))
    variants = {
        "base": {"engine": "openai", "url": "http://127.0.0.1:8000", "model": "m"},
        "candidate": {"engine": "openai", "url": "http://127.0.0.1:8001", "model": "m"},
    }
    assert (sources(asked(tmp_path, variants=variants), tmp_path / "runs") != {"assumed"}) is same


def test_invalid_rows_are_no_source(measured: Path, tmp_path: Path) -> None:
    def invalid(result: dict[str, Any]) -> None:
        for row in result["comparisons"]:
            if row["metric"] == "ttft_s":
                row["outcome"] = "invalid"

    run = past(measured, tmp_path / "runs", 1, result=invalid)
    found = {one.metric: one.source for one in plan(asked(tmp_path), tmp_path / "runs").sensitivity}
    assert found == {"ttft_s": "assumed", "tpot_s": f"{run}, this cell"}


def test_cells_with_failed_requests_are_no_source(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past(measured, tmp_path / "runs", 1)
    blocks = RunFolder.blocks

    def failing(self: Any, **how: Any) -> Any:
        found = blocks(self, **how)
        found[3] = dataclasses.replace(found[3], block=msgspec.structs.replace(found[3].block, errors=1))
        return found

    monkeypatch.setattr(RunFolder, "blocks", failing)
    assert sources(asked(tmp_path), tmp_path / "runs") == {"assumed"}


def test_a_run_that_was_not_judged_is_no_source(measured: Path, tmp_path: Path) -> None:
    run = past(measured, tmp_path / "runs", 1)
    (tmp_path / "runs" / run / "result.json").unlink()
    assert sources(asked(tmp_path), tmp_path / "runs") == {"assumed"}


def test_older_runs_than_are_looked_at_are_no_source(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past(measured, tmp_path / "runs", 1)
    for day in (2, 3):
        past(measured, tmp_path / "runs", day, servers("http://a:1", "http://a:2"))
    monkeypatch.setattr(earlier, "_LOOK_BACK", 2)
    assert sources(asked(tmp_path), tmp_path / "runs") == {"assumed"}
