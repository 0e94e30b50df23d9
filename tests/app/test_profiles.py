"""`profile: true`: a profiled pass of each variant after the measuring, and what it tells."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bakeoff.app import compare, run
from bakeoff.measure.progress import Progress
from bakeoff.measure.timings_trace import timings_trace
from bakeoff.model import RequestRecord, Result
from bakeoff.runs import RunFolder
from bakeoff.runs.profiles import read_profiles
from bakeoff.traces import read
from bakeoff.traces.diff import diff

from .flow import experiment

SERVER = Path(__file__).with_name("profiling_server.py")


def arm(folder: Path, *flags: str, **more: Any) -> dict[str, Any]:
    command = [sys.executable, str(SERVER), "--port", "{port}", "--folder", str(folder), *flags]
    return {"engine": "command", "command": command, "profile": {"folder": str(folder)}, **more}


class Noted(Progress):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def measured(folder: Path, base: dict[str, Any], flash: dict[str, Any]) -> tuple[Result, list[str]]:
    progress = Noted()
    path = experiment(folder, variants={"base": base, "flash": flash}, profile=True, aa=0)
    return run(path, root=folder / "runs", progress=progress), progress.notes


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, list[str]]:
    """A whole run; both servers write into one folder, and only what is new belongs to a pass."""
    folder = tmp_path_factory.mktemp("profiled")
    shared = folder / "profiles"
    shared.mkdir()
    (shared / "old.pt.trace.json").write_text('{"traceEvents": []}')
    return measured(folder, arm(shared), arm(shared, "--dequantise"))


def test_the_difference_of_two_profiles_is_a_suspected_cause(profiled: tuple[Result, list[str]]) -> None:
    result, notes = profiled
    assert notes == []
    assert [caution for caution in result.warnings if caution.code == "not-profiled"] == []
    (finding,) = [f for f in result.findings if f.cause == "trace"]
    assert finding.candidate == "flash"
    assert finding.status == "suspected"
    assert finding.title == (
        "profiled pass: dequantise (void kDequantizeBlockwise<float>): +50.0 µs per token, "
        "100 % of the gap; none of it in base"
    )
    assert any(line.startswith("busy · dequantise: +50.0 µs per token") for line in finding.evidence)
    folder = RunFolder.open(Path(result.run))
    profiles = {profile.variant: profile for profile in read_profiles(folder.path / "traces")}
    assert {p.source for p in profiles.values()} == {"profiler"}
    assert [p.output_tokens for p in profiles.values()] == [16, 16]  # 4 requests of 4 tokens
    for profile in profiles.values():
        assert [Path(name).name for name in profile.files if "old" in name] == []
        assert len(read(folder.path / next(f for f in profile.files if f.endswith(".gz"))).gpu) > 0
    told = json.loads((folder.path / "traces" / "diff-flash.json").read_text())
    assert told["unit"] == "token"
    assert "kDequantizeBlockwise" in (folder.path / "traces" / "diff-flash.html").read_text()


def test_the_pass_is_measured_nowhere_and_recomputing_tells_the_same(profiled: tuple[Result, list[str]]) -> None:
    result, _ = profiled
    folder = RunFolder.open(Path(result.run))
    assert {block.kind for block in folder.block_infos()} == {"measure"}
    assert len(folder.block_infos()) == 4
    assert [start.kind for start in folder.starts()].count("probe") == 2
    again = compare(result.run)
    assert again.findings == result.findings
    (folder.path / "traces" / "findings.json").unlink()  # made anew from the traces
    assert compare(result.run).findings == result.findings


def test_a_variant_without_a_profiler_costs_only_its_profile(tmp_path: Path) -> None:
    plain = arm(tmp_path / "b")
    del plain["profile"]
    result, notes = measured(tmp_path, arm(tmp_path / "a"), plain)
    assert result.state == "complete"
    assert [f for f in result.findings if f.cause == "trace"] == []
    assert len(notes) == 1
    assert notes[0].startswith("flash is not profiled: no profiler of its server is set up")
    (told,) = [caution for caution in result.warnings if caution.code == "not-profiled"]
    assert told.severity == "note"
    assert "not profiled: flash: no profiler of its server is set up" in told.message
    assert told in compare(result.run).warnings
    assert "flash: no profiler of its server is set up" in Path(result.run, "report.html").read_text()


def test_a_profiler_that_refuses_costs_only_the_profile(tmp_path: Path) -> None:
    wrong = arm(tmp_path / "b", profile={"folder": str(tmp_path / "b"), "start": "/begin"})
    result, notes = measured(tmp_path, arm(tmp_path / "a"), wrong)
    assert result.state == "complete"
    assert len(notes) == 1
    assert notes[0].startswith("flash is not profiled: ")


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({}, "is missing"),
        ({"folder": "/x", "start": "begin"}, "must start with '/'"),
        ({"folder": "/x", "begin": "/y"}, "unknown setting"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, profile: dict[str, str], message: str) -> None:
    from bakeoff.engines.command import ENGINE

    settings = {**arm(tmp_path), "profile": profile}
    del settings["engine"]
    problems = ENGINE.problems(settings, tmp_path)
    assert len(problems) == 1
    assert message in problems[0].message


def test_a_folder_of_another_machine_is_refused(tmp_path: Path) -> None:
    from bakeoff.engines.openai import ENGINE

    problems = ENGINE.problems({"url": "https://api.example.com", "profile": {"folder": "/x"}}, tmp_path)
    assert [problem.key for problem in problems] == [("profile",)]


def answered(prompt_ms: float, predicted_ms: float, at_ms: int) -> RequestRecord:
    ms = 1_000_000
    return RequestRecord(
        index=0,
        prompt_id=0,
        scheduled_ns=at_ms * ms,
        sent_ns=at_ms * ms,
        first_token_ns=(at_ms + 60) * ms,
        last_token_ns=(at_ms + 160) * ms,
        end_ns=(at_ms + 161) * ms,
        server_timings={"prompt_ms": prompt_ms, "predicted_ms": predicted_ms},
    )


def test_timings_of_answers_make_a_trace(tmp_path: Path) -> None:
    paths = []
    for name, prompt_ms in (("base", 50.0), ("slow", 20.0)):
        document = timings_trace([answered(prompt_ms, 90.0, 1000), answered(prompt_ms, 95.0, 1200)])
        paths.append(tmp_path / name)
        paths[-1].write_text(json.dumps(document))
    found = diff(*(read(path) for path in paths))
    rows = {row.label: (row.base_ms, row.candidate_ms) for row in found.rows}
    assert found.steps == (2, 2)
    assert rows["busy · prefill"] == pytest.approx((100.0, 40.0))
    assert rows["busy · decode"] == pytest.approx((185.0, 185.0))
    assert timings_trace([answered(50.0, 90.0, 0), RequestRecord(index=1, prompt_id=1, scheduled_ns=0)]) is None
    assert timings_trace([]) is None
