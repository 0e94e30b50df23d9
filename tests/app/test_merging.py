"""Plans from earlier runs, and verdicts from several: on run folders that were really measured (mock servers)."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import bakeoff
from bakeoff.app.foretell import plan
from bakeoff.app.plan_text import plan_text
from bakeoff.app.sensitivity import assumed
from bakeoff.cli.main import cli
from bakeoff.compare.targets import all_targets
from bakeoff.errors import UsageError
from bakeoff.model import Experiment

from .flow import experiment

PAIRS = 5


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of five pairs; both servers stay up, so that it takes a second."""
    root = tmp_path_factory.mktemp("measured")
    path = experiment(root, budget={"pairs": PAIRS, "minutes": 5}, starts="once", resident="all", aa=0)
    return Path(bakeoff.run(path, root=root / "runs").run)


@pytest.fixture
def two(measured: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two runs in one environment."""
    return _copied(measured, tmp_path / "one", id="one"), _copied(measured, tmp_path / "two", id="two")


def _copied(run: Path, place: Path, *, cpu: str | None = None, **changes: Any) -> Path:
    shutil.copytree(run, place)
    head = json.loads((place / "run.json").read_text())
    head |= changes
    if cpu is not None:
        head["environment"]["machine"]["cpu"] = cpu
    (place / "run.json").write_text(json.dumps(head))
    return place


def digests(*folders: Path) -> dict[str, str]:
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def call(*words: str | Path) -> Any:
    """What the command printed, its exit code as `return_value`, or its error as `exception`."""
    return CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)


def test_two_runs_are_one_verdict_and_stay_as_they_were(two: tuple[Path, Path]) -> None:
    before = digests(*two)
    result = bakeoff.compare(*two)
    assert digests(*two) == before
    assert result.rounds == 2 * PAIRS
    assert {r.pairs for r in result.comparisons if r.gate} == {2 * PAIRS}
    assert result.run == "one + two"
    (told,) = [w for w in result.warnings if w.code == "merged"]
    assert f"one ({PAIRS} rounds), two ({PAIRS} rounds)" in told.message


def test_other_machines_are_named_and_refused_unless_told(measured: Path, tmp_path: Path) -> None:
    here = _copied(measured, tmp_path / "here", id="here")
    there = _copied(measured, tmp_path / "there", id="there", cpu="another <b>")
    own = json.loads((here / "run.json").read_text())["environment"]["machine"]["cpu"]
    refused = call("compare", here, there)
    assert isinstance(refused.exception, UsageError)
    assert f"    machine.cpu: {own} | another <b>" in str(refused.exception)
    report = tmp_path / "merged.html"
    told = call("compare", here, there, "--merge-anyway", "-o", report)
    assert "merged although the environments differ: machine.cpu" in told.stdout
    page = report.read_text()
    assert "another &lt;b&gt;" in page
    assert 'id="timeline"' not in page  # two clocks
    assert 'id="pairs"' in page


def test_merged_results_as_json_and_limits(two: tuple[Path, Path], tmp_path: Path) -> None:
    found = call("compare", *two, "--json", "-o", tmp_path / "m.json")
    assert json.loads(found.stdout)["rounds"] == 2 * PAIRS
    assert json.loads((tmp_path / "m.json").read_text())["schema"] == "bakeoff.result/1"
    assert call("compare", *two, "-o", tmp_path / "m.pdf").exception.message.startswith("cannot tell the format")
    failed = call("compare", *two, "--fail-unless", "chat.tpot_s < -99%")
    assert failed.return_value in (1, 4)  # 4 where the machine was busy: then all gates are invalid
    assert "failed  --fail-unless 'chat.tpot_s < -99%'" in failed.output


def test_a_run_is_not_merged_with_itself(measured: Path, tmp_path: Path) -> None:
    copy = _copied(measured, tmp_path / "copy")
    with pytest.raises(UsageError, match="named twice"):
        bakeoff.compare(measured, copy)


def test_one_run_can_be_written_as_a_report_too(measured: Path, tmp_path: Path) -> None:
    run = _copied(measured, tmp_path / "run")
    assert call("compare", run, "-o", tmp_path / "r.md").exception is None
    assert "Pairs in order of time" in (tmp_path / "r.md").read_text()


def asked(folder: Path) -> Experiment:
    return bakeoff.app.load_experiment(experiment(folder, budget={"pairs": "6..20", "minutes": 5}))


def test_a_plan_without_earlier_runs_says_what_it_assumes(tmp_path: Path) -> None:
    question = asked(tmp_path)
    found = plan(question, tmp_path / "runs").sensitivity
    assert [(one.cell, one.metric, one.source) for one in found] == [
        ("chat/c1", "ttft_s", "assumed"),
        ("chat/c1", "tpot_s", "assumed"),
    ]
    one = found[0]
    assert one.pairs == 20
    assert one.noise == pytest.approx((0.02**2 + 0.35**2 / 3) ** 0.5)  # blocks of three requests
    assert one.detectable is not None
    assert one.beyond_margin is not None
    assert one.beyond_margin == pytest.approx((1 + one.detectable) * 1.03 - 1)
    text = plan_text(question, plan(question, tmp_path / "runs"))
    assert "with 20 pairs, 4 times in 5" in text
    assert "chat/c1 TTFT" in text


def test_noise_of_an_earlier_run_of_this_machine_is_taken(measured: Path, tmp_path: Path) -> None:
    question = asked(tmp_path)
    run = measured.name
    own = plan(question, measured.parent).sensitivity
    assert {one.source for one in own} == {f"{run}, this cell"}
    spreads = {r.metric: r.spread for r in bakeoff.compare(measured).comparisons if r.gate}
    assert {one.metric: one.noise for one in own} == pytest.approx(spreads)
    assert plan(question, measured.parent).round_s is None  # its starts were other ones: the time is not known


def test_noise_of_another_machine_or_engine_is_not(measured: Path, tmp_path: Path) -> None:
    _copied(measured, tmp_path / "runs" / "20990101-000000-x-000000", cpu="another")
    assert {one.source for one in plan(asked(tmp_path), tmp_path / "runs").sensitivity} == {"assumed"}


def test_noise_of_another_cell_is_said_to_be_that(measured: Path, tmp_path: Path) -> None:
    question = bakeoff.app.load_experiment(
        experiment(
            tmp_path,
            workloads={
                "long": {
                    "prompts": {"source": "synthetic", "input_tokens": 64},
                    "output_tokens": 4,
                    "load": {"concurrency": [2]},
                    "block": {"requests": 8},
                }
            },
        )
    )
    assert {one.source for one in plan(question, measured.parent).sensitivity} == {f"{measured.name}, another cell"}


def test_tails_are_assumed_noisier_and_larger_blocks_quieter(tmp_path: Path) -> None:
    question = bakeoff.app.load_experiment(experiment(tmp_path, gates=["ttft_s", "ttft_s.p99", "peak_memory_bytes"]))
    by_name = {(t.metric.name, t.statistic): assumed(question, t) for t in all_targets(question) if t.gate}
    assert by_name["ttft_s", "p99"] > by_name["ttft_s", "p50"] > by_name["peak_memory_bytes", "peak"]


def test_the_plan_verb_prints_it(measured: Path, tmp_path: Path) -> None:
    path = experiment(tmp_path, method="fixed", budget={"pairs": 12, "minutes": 5})
    text = call("plan", path, "--runs", measured.parent).stdout
    assert "12, one look at the end" in text
    assert f"{measured.name}, this cell" in text
    plain = json.loads(call("plan", path, "--runs", measured.parent, "--json").stdout)
    assert [one["pairs"] for one in plain["sensitivity"]] == [12, 12]


def test_a_fixed_run_measures_exactly_its_pairs_and_is_looked_at_once(tmp_path: Path) -> None:
    path = experiment(
        tmp_path, method="fixed", budget={"pairs": "2..3", "minutes": 5}, starts="once", resident="all", aa=0
    )
    result = bakeoff.run(path, root=tmp_path / "runs")
    assert result.rounds == 3
    assert all("fixed n, paired t" in r.method for r in result.comparisons if r.gate)
    assert not [w for w in result.warnings if w.code == "fixed-n-short"]
