"""Loads that the run finds itself, on mock servers of known capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bakeoff
from bakeoff.app.foretell import foretell
from bakeoff.app.loading import load_experiment
from bakeoff.app.plan_text import plan_text
from bakeoff.measure.progress import Progress
from bakeoff.measure.runner import Runner
from bakeoff.runs import RunFolder

from .flow import experiment, mock_command
from .test_flow import cli


def workload(load: dict[str, Any], requests: int) -> dict[str, Any]:
    prompts = {"source": "synthetic", "input_tokens": 16}
    return {"chat": {"prompts": prompts, "output_tokens": 4, "load": load, "block": {"requests": requests}}}


def slotted(slots: int, ttft: str = "17ms") -> list[str]:
    """A server of that many slots: 20 ms a request (17 ms and three tokens of 1 ms), so 50 requests/s a slot."""
    return [*mock_command("--slots", str(slots)), "--ttft", ttft]


class Notes(Progress):
    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, text: str) -> None:
        self.told.append(text)


def test_a_sweep_finds_levels_that_both_are_compared_at(tmp_path: Path) -> None:
    notes = Notes()
    file = experiment(
        tmp_path,
        base=slotted(1),
        candidate=slotted(2),
        workloads=workload({"sweep": "concurrency", "high": 8}, requests=12),
        gates=["request_throughput_rps"],
        aa=0,
    )
    result = bakeoff.run(file, root=tmp_path / "runs", progress=notes)
    folder = RunFolder.open(Path(result.run))
    levels = folder.info.experiment.workloads[0].load.levels
    assert levels[0] == 1
    assert 2 <= len(levels) <= 4
    blocks = folder.block_infos()
    probes = [b for b in blocks if b.kind == "probe"]
    assert {b.variant for b in probes} == {"base", "flash"}
    assert min(b.round for b in probes) >= 2  # beyond the rounds that are compared
    measured = {(b.variant, b.cell, b.round) for b in blocks if b.kind == "measure"}
    assert measured == {(v, f"chat/c{level:g}", r) for v in ("base", "flash") for level in levels for r in (0, 1)}
    assert {start.kind for start in folder.starts()} == {"probe", "measure"}
    assert sum("gains nothing beyond about" in note for note in notes.told) == 2
    (edge,) = result.edges
    assert edge.kind == "peak throughput"
    assert edge.levels == levels
    assert edge.base.point is not None
    assert edge.value.point is not None
    assert edge.value.point > edge.base.point  # twice the slots
    assert result.rounds == 2


def test_an_interrupted_search_goes_on_and_a_finished_one_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = experiment(
        tmp_path,
        base=slotted(1),
        candidate=slotted(2),
        workloads=workload({"sweep": "concurrency", "high": 4}, requests=8),
        gates=["request_throughput_rps"],
        aa=0,
    )
    seen = [0]

    class Impatient(Progress):
        def block_done(self, step: Any) -> None:
            seen[0] += 1
            if seen[0] == 4:
                raise KeyboardInterrupt

    result = bakeoff.run(file, root=tmp_path / "runs", progress=Impatient())
    assert result.state == "interrupted"
    assert result.comparisons == ()
    run = Path(result.run)
    first = {b.id for b in RunFolder.open(run).block_infos()}
    assert len(first) == 4
    assert RunFolder.open(run).info.experiment.workloads[0].load.levels == ()

    seen[0] = -1000
    searched: list[Runner] = []
    search = Runner.search

    def counted(self: Runner, *attempt: Any, **words: Any) -> Any:
        searched.append(self)
        return search(self, *attempt, **words)

    monkeypatch.setattr(Runner, "search", counted)

    class Later(Progress):
        def block_done(self, step: Any) -> None:
            if step.kind == "measure":
                raise KeyboardInterrupt

    assert bakeoff.run(resume=run, progress=Later()).state == "interrupted"
    assert len(searched) == 1
    folder = RunFolder.open(run)
    probes = [b for b in folder.block_infos() if b.kind == "probe"]
    old, new = ({(b.variant, b.cell) for b in probes if (b.id in first) == known} for known in (True, False))
    assert old & new == set()  # what was probed before the interruption was not probed again
    levels = folder.info.experiment.workloads[0].load.levels
    assert levels

    done = bakeoff.run(resume=run)
    assert done.state == "complete"
    assert len(searched) == 1
    assert RunFolder.open(run).info.experiment.workloads[0].load.levels == levels


def test_a_variant_that_answers_nothing_ends_the_search_with_its_reason(tmp_path: Path) -> None:
    file = experiment(
        tmp_path,
        candidate=[*mock_command(), "--faults", "http_500"],
        workloads=workload({"sweep": "concurrency", "high": 4}, requests=8),
        aa=0,
    )
    with pytest.raises(bakeoff.BakeoffError, match="failed"):
        bakeoff.run(file, root=tmp_path / "runs")
    (run,) = (tmp_path / "runs").iterdir()
    assert RunFolder.open(run).info.state == "failed"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_edge_of_a_server_with_twice_the_slots_is_higher(tmp_path: Path) -> None:
    limits = {"ttft_s": "250ms"}
    file = experiment(
        tmp_path,
        base=[*slotted(1), "--ttft", "47ms"],  # 50 ms a request: 20 requests/s
        candidate=[*slotted(3), "--ttft", "47ms"],  # 60 requests/s
        workloads=workload({"find": "goodput", "slo": limits, "attainment": 0.8, "low": 4, "high": 128}, requests=30),
        gates=["goodput_rps"],
        budget={"pairs": "2..2", "minutes": 4},
        aa=0,
    )
    result = bakeoff.run(file, root=tmp_path / "runs")
    (edge,) = result.edges
    assert edge.kind == "rate held"
    assert edge.attainment == 0.8
    assert edge.base.point is not None
    assert edge.value.point is not None
    # A slot never serves more than 20 a second for long; how close an arm comes depends on the machine.
    assert 4 < edge.base.point < 40
    assert edge.base.point < edge.value.point < 120
    assert edge.levels[0] < 20 < edge.levels[-1]


def test_a_plan_says_what_will_be_searched(tmp_path: Path) -> None:
    both = workload({"sweep": "concurrency", "high": 8}, requests=12)
    both["edge"] = {**both["chat"], "load": {"find": "goodput", "slo": {"ttft_s": 0.5}}, "block": {"requests": 100}}
    asked = load_experiment(experiment(tmp_path, workloads=both))
    text = plan_text(asked, foretell(asked, tmp_path / "runs"))
    assert "search    chat, 1 to 8 at a time: where more load gives no more throughput" in text
    assert "99 % of the requests meet ttft_s ≤ 0.5 s" in text
    assert "blocks of 402 requests or more; at most 33% of each budget" in text
    assert "requests  as many as the levels found ask for; warm-up apart" in text


def asked_of(folder: Path, load: dict[str, Any], **more: Any) -> tuple[str, ...]:
    budget = {"pairs": "6..40", "minutes": 20, **more.pop("budget", {})}
    spec = workload(load, requests=100)
    spec["chat"].update(more)
    other = mock_command("--tpot", "2ms")
    return foretell(
        load_experiment(experiment(folder, candidate=other, workloads=spec, budget=budget)), folder
    ).warnings


def test_levels_that_cannot_fit_the_budget_are_said_beforehand(tmp_path: Path) -> None:
    find = {"find": "goodput", "slo": {"ttft_s": 0.5}}
    (told,) = asked_of(tmp_path, find)
    assert "chat: up to 6 levels are found" in told
    assert "the search leaves 13.3 min, too little for levels below" in told
    (told,) = asked_of(tmp_path, {**find, "high": 2})
    assert "min in all, and the search leaves 13.3 min" in told
    (told,) = asked_of(tmp_path, find, block={"seconds": 60})
    assert "take 84 blocks, 84 min in all" in told  # 7 rounds × 6 levels × 2 variants of a minute
    (told,) = asked_of(tmp_path, find, budget={"requests": 3000})
    assert "requests in all, and the search leaves 2,000" in told
    assert asked_of(tmp_path, find, budget={"minutes": None}) == ()
    assert asked_of(tmp_path, {"rate": 2}) == ()


def test_few_enough_are_not(tmp_path: Path) -> None:
    assert asked_of(tmp_path, {"sweep": "rate", "low": 64, "high": 128}, budget={"minutes": 600}) == ()


def test_a_search_without_room_is_refused_and_its_run_is_no_measure_of_time(tmp_path: Path) -> None:
    load = {"find": "goodput", "low": 1, "high": 64}
    chat = workload(load, requests=300)
    chat["chat"]["slo"] = {"ttft_s": 1.0}
    file = experiment(tmp_path, workloads=chat, budget={"pairs": "2..2", "minutes": 0.3}, aa=0)
    done = cli("run", file.name, "--quiet", cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "the search of chat ends before a single level: it needs about" in done.stderr
    assert "raise budget.minutes to about" in done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    folder = RunFolder.open(run)
    assert folder.info.state == "failed"
    assert folder.info.stop_reason is not None
    assert folder.info.stop_reason.startswith("budget.minutes: the search of chat")


def test_a_failed_run_forecasts_no_time(tmp_path: Path) -> None:
    file = experiment(tmp_path)
    result = bakeoff.run(file, root=tmp_path / "runs")
    asked = load_experiment(file)
    assert foretell(asked, tmp_path / "runs").from_run == Path(result.run).name
    RunFolder.open(Path(result.run)).update(state="failed")
    assert foretell(asked, tmp_path / "runs").from_run is None
