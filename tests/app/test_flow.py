"""The whole flow on real processes: two mock servers, started, measured, compared, reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import bakeoff
from bakeoff.errors import BakeoffError
from bakeoff.runs import RunFolder

from .flow import experiment, mock_command

CLI = [sys.executable, "-c", "from bakeoff.cli.main import main; main()"]


def cli(*words: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, *words], cwd=cwd, capture_output=True, text=True, env={**os.environ, **environ}, timeout=110, check=False
    )


def only_run(root: Path) -> Path:
    (run,) = (root / "runs").iterdir()
    return run


def servers_of(root: Path) -> list[int]:
    """Pids of mock servers whose command line names this test's folder."""
    return [
        process.pid
        for process in psutil.process_iter(["pid", "cmdline"])
        if str(root) in " ".join(process.info["cmdline"] or []) and process.pid != os.getpid()
    ]


def wait_until_gone(root: Path) -> list[int]:
    for _ in range(300):
        left = servers_of(root)
        if not left:
            return []
        time.sleep(0.05)
    return left


def test_a_run_gives_a_verdict_and_a_complete_folder(tmp_path: Path) -> None:
    result = bakeoff.run(experiment(tmp_path), root=tmp_path / "runs")
    assert result.state == "complete"
    folder = RunFolder.open(Path(result.run))
    # 2 rounds × (base + flash), and one A/A visit in the first round
    assert len(folder.block_infos()) == 5
    assert len(folder.starts()) == 5
    assert all(s.first_token_ns and s.ready_ns and s.stopped_ns and s.peak_anon_bytes for s in folder.starts())
    for data in folder.blocks():
        assert data.block.errors == 0
        assert list(data.columns["output_tokens"]) == [4, 4, 4]
        assert list(data.columns["input_tokens"]) == [24, 24, 24]
    assert {row.metric for row in result.comparisons if row.gate} == {"ttft_s", "tpot_s"}
    assert {row.metric for row in result.resources} >= {"cold_start_s", "peak_memory_bytes"}
    assert json.loads((folder.path / "result.json").read_text())["schema"] == "bakeoff.result/1"
    assert "<svg" in (folder.path / "report.html").read_text()


def test_recomputing_gives_the_same_result(tmp_path: Path) -> None:
    result = bakeoff.run(experiment(tmp_path), root=tmp_path / "runs")
    assert bakeoff.compare(result.run) == result


def test_arms_get_the_same_prompts_with_another_nonce(tmp_path: Path) -> None:
    result = bakeoff.run(experiment(tmp_path), root=tmp_path / "runs")
    by_arm: dict[tuple[int, str, str], list[str]] = {}
    for data in RunFolder.open(Path(result.run)).blocks():
        block = data.block
        by_arm[block.round, block.variant, block.kind] = [str(p) for p in data.columns["prompt"]]
    base, flash, again = by_arm[0, "base", "measure"], by_arm[0, "flash", "measure"], by_arm[0, "base", "aa"]
    for one, two, three in zip(base, flash, again, strict=True):
        assert len({one, two, three}) == 3
        assert one.split()[-8:] == two.split()[-8:] == three.split()[-8:]
    assert not set(base) & set(by_arm[1, "base", "measure"])


def test_an_open_loop_gives_both_arms_one_schedule(tmp_path: Path) -> None:
    load = {"prompts": {"input_tokens": 24}, "output_tokens": 4, "load": {"rate": 40}, "block": {"requests": 6}}
    result = bakeoff.run(experiment(tmp_path, workloads={"open": load}, aa=0), root=tmp_path / "runs")
    offsets: dict[tuple[int, str], list[int]] = {}
    for data in RunFolder.open(Path(result.run)).blocks():
        scheduled = [int(s) for s in data.columns["scheduled_ns"]]
        offsets[data.block.round, data.block.variant] = [s - scheduled[0] for s in scheduled]
    assert offsets[0, "base"] == offsets[0, "flash"]
    assert offsets[0, "base"] != offsets[1, "base"]


def test_servers_by_url_are_measured_from_outside(tmp_path: Path) -> None:
    from bakeoff.mock import LatencyModel, running

    with running(LatencyModel(ttft_s=0.005, tpot_s=0.001)) as one, running(LatencyModel(ttft_s=0.005)) as two:
        done = cli(
            "run", "--base", one.url, "--candidate", two.url, "--model", "mock", "--input-tokens", "24",
            "--output-tokens", "4", "--pairs", "2..2", "--block-requests", "3", "--json", cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode in (0, 4), done.stderr
        result = json.loads(done.stdout)
    assert result["resources"] == []
    folder = RunFolder.open(only_run(tmp_path))
    samples = [s for samples in folder.all_samples().values() for s in samples]
    assert samples
    assert all(s.tree_cpu_s is None for s in samples)  # not ours: unknown, never the client's numbers


def test_one_url_against_itself_never_hits_the_cache(tmp_path: Path) -> None:
    from bakeoff.mock import LatencyModel, running

    with running(LatencyModel(ttft_s=0.005, tpot_s=0.001, prefix_cache=True)) as server:
        done = cli(
            "run", "--base", server.url, "--candidate", server.url, "--model", "mock", "--input-tokens", "24",
            "--output-tokens", "4", "--pairs", "2..2", "--block-requests", "3", "--quiet", cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode in (0, 4), done.stderr
        assert sum(record.cached_tokens for record in server.send_log()) == 0


def test_a_limit_that_nothing_can_meet_fails_the_command(tmp_path: Path) -> None:
    experiment(tmp_path)
    done = cli("run", "experiment.yaml", "--fail-unless", "chat.tpot_s < -99%", "--quiet", cwd=tmp_path)
    assert done.returncode in (1, 4), done.stderr
    assert "--fail-unless" in done.stderr


def test_an_undecided_gate_fails_when_a_decision_is_required(tmp_path: Path) -> None:
    """Two pairs never decide: the anytime-valid interval is still infinite."""
    experiment(tmp_path)
    done = cli("run", "experiment.yaml", "--require-decision", "--quiet", cwd=tmp_path)
    assert done.returncode in (3, 4), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_saves_and_reports_what_there_is_and_resume_completes_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    experiment(tmp_path, base=mock_command("--model-name", tmp_path.name), budget={"pairs": "4..4", "minutes": 5})
    process = subprocess.Popen([*CLI, "run", "experiment.yaml"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    _wait_for_blocks(tmp_path, 2)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "base" in output
    run = only_run(tmp_path)
    assert RunFolder.open(run).info.state == "interrupted"
    kept = len(RunFolder.open(run).block_infos())
    assert (run / "report.html").exists()
    done = cli("run", "--resume", str(run), "--quiet", cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr
    folder = RunFolder.open(run)
    assert folder.info.state == "complete"
    assert len(folder.block_infos()) == 4 * 2 + 1 > kept


def test_kill_9_loses_at_most_the_block_in_flight_and_leaves_no_server(tmp_path: Path) -> None:
    tag = tmp_path / "marker"
    flags = ("--send-log", str(tag))
    experiment(
        tmp_path, base=mock_command(*flags), candidate=mock_command(*flags), budget={"pairs": "4..4", "minutes": 5}
    )
    process = subprocess.Popen([*CLI, "run", "experiment.yaml", "--quiet"], cwd=tmp_path)
    _wait_for_blocks(tmp_path, 3)
    process.kill()
    process.wait()
    assert wait_until_gone(tag) == []
    run = only_run(tmp_path)
    before = RunFolder.open(run).blocks()
    assert len(before) >= 3
    told = cli("report", str(run), cwd=tmp_path)
    assert "Interrupted" in told.stdout
    assert "--resume" in told.stdout
    done = cli("run", "--resume", str(run), "--quiet", cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr
    blocks = RunFolder.open(run).block_infos()
    assert [b.id for b in blocks] == list(range(9))
    assert len({(b.round, b.variant, b.cell, b.kind) for b in blocks}) == 9


def test_a_resumed_run_ends_in_order_at_any_moment(tmp_path: Path) -> None:
    """Again and again: in a start, a warm-up, a block, between them."""
    experiment(tmp_path, budget={"pairs": "40..40", "minutes": 30}, aa=0)
    process = subprocess.Popen(
        [*CLI, "run", "experiment.yaml", "--quiet"], cwd=tmp_path, stdout=subprocess.DEVNULL, text=True
    )
    _wait_for_blocks(tmp_path, 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    run = only_run(tmp_path)
    for attempt, delay_s in enumerate((0.0, 0.15, 0.33, 0.61, 0.97), start=1):
        process = subprocess.Popen(
            [*CLI, "run", "--resume", str(run), "--quiet"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        for _ in range(1000):
            if RunFolder.open(run).info.resumes == attempt:
                break
            time.sleep(0.02)
        time.sleep(delay_s)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
        assert "Traceback" not in said
        assert "RuntimeError" not in said
        folder = RunFolder.open(run)
        assert (folder.info.state, folder.live) == ("interrupted", False)
        assert folder.info.blocks == len(folder.block_infos())
        assert (folder.path / "result.json").exists()
    assert "Still running" not in cli("report", str(run), cwd=tmp_path).stdout


def test_what_an_interrupted_try_sent_is_not_found_in_the_cache_by_the_next_one(tmp_path: Path) -> None:
    """A server that goes on running keeps its prefix cache; the bodies of a round stay the same for both arms."""
    from bakeoff.measure.progress import Progress
    from bakeoff.mock import LatencyModel, running

    class Ends(Progress):
        """Asks for an end in the third block, after two of its five requests."""

        def __init__(self, after: int) -> None:
            self.left = after

        def request_done(self) -> None:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGTERM)

    path = tmp_path / "experiment.yaml"
    with running(LatencyModel(ttft_s=0.005, tpot_s=0.001, prefix_cache=True)) as server:
        reached = {"engine": "openai", "url": server.url, "model": "mock"}
        experiment(tmp_path, variants={"base": reached, "flash": {**reached}}, aa=0, workloads={"chat": {
            "prompts": {"source": "synthetic", "input_tokens": 64}, "output_tokens": 4, "load": {"concurrency": [1]},
            "block": {"requests": 5},
        }})  # fmt: skip
        result = bakeoff.run(path, root=tmp_path / "runs", progress=Ends(12))
        assert result.state == "interrupted"
        assert len(RunFolder.open(Path(result.run)).block_infos()) == 2
        resumed = bakeoff.run(resume=result.run)
        assert resumed.state == "complete"
        assert sum(record.cached_tokens for record in server.send_log()) == 0
    folder = RunFolder.open(Path(result.run))
    assert (folder.info.resumes, folder.info.blocks, folder.info.stop_reason) == (1, 4, resumed.stop_reason)
    bodies = {
        (data.block.round, data.block.variant): [str(p).split()[-8:] for p in data.columns["prompt"]]
        for data in folder.blocks()
    }
    for number in (0, 1):
        assert bodies[number, "base"] == bodies[number, "flash"]
    # And the servers were reached twice, which is no second start.
    assert [c.code for c in resumed.warnings if c.code == "one-start"] == ["one-start"]


def test_running_servers_are_reached_before_anything_is_begun(tmp_path: Path) -> None:
    """Whichever it is that does not answer."""
    import socket

    from bakeoff.mock import LatencyModel, running

    with socket.socket() as held, running(LatencyModel(ttft_s=0.005)) as server:
        held.bind(("127.0.0.1", 0))  # bound and not listening: refuses
        dead = f"http://127.0.0.1:{held.getsockname()[1]}"
        for base, candidate, name in ((dead, server.url, "base"), (server.url, dead, "candidate")):
            done = cli("run", "--base", base, "--candidate", candidate, "--model", "mock", "--quiet", cwd=tmp_path)
            assert done.returncode == 2, done.stderr
            assert f"variants.{name}" in done.stderr
            assert not (tmp_path / "runs").exists()
        assert server.send_log() == []


def _wait_for_blocks(root: Path, count: int) -> None:
    for _ in range(1000):
        if len(list(root.glob("runs/*/requests/*.parquet"))) >= count:
            return
        time.sleep(0.05)
    pytest.fail("no blocks were written")


def test_resuming_a_complete_run_is_refused(tmp_path: Path) -> None:
    result = bakeoff.run(experiment(tmp_path), root=tmp_path / "runs")
    with pytest.raises(BakeoffError, match="complete"):
        bakeoff.run(resume=result.run)


# ── things that go wrong ──────────────────────────────────────────────────────────────────────────────────────────


def failing(tmp_path: Path, *flags: str, **more: Any) -> str:
    """Runs with a candidate that has a fault; returns what the user reads."""
    experiment(tmp_path, candidate=mock_command(*flags), **more)
    done = cli("run", "experiment.yaml", cwd=tmp_path)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("http_401", "401"),
        ("http_404", "404"),
        ("http_500", "500"),
        ("garbage", "garbage"),
        ("truncated", "truncated"),
        ("error_event", "stream_error"),
    ],
)
def test_a_server_that_only_fails_is_named_with_the_reason_and_a_remedy(tmp_path: Path, fault: str, said: str) -> None:
    text = failing(tmp_path, "--fault", fault)
    assert "flash" in text
    assert said in text
    assert "→" in text


def test_a_server_that_dies_twice_ends_its_arm_and_keeps_the_others_data(tmp_path: Path) -> None:
    text = failing(tmp_path, "--fault", "die_after:3", budget={"pairs": "3..3", "minutes": 5})
    assert "flash" in text
    folder = RunFolder.open(only_run(tmp_path))
    assert folder.info.state == "failed"
    assert any(b.variant == "base" and b.errors == 0 for b in folder.block_infos())
    assert (folder.path / "result.json").exists()


def test_a_server_that_never_gets_ready_is_stopped_and_its_log_is_shown(tmp_path: Path) -> None:
    path = experiment(tmp_path, candidate=mock_command("--fault", "never_ready"))
    path.write_text(
        path.read_text().replace("model: mock\nworkloads", "model: mock\n    ready: {timeout: 2s}\nworkloads")
    )
    assert "ready:" in path.read_text()
    done = cli("run", "experiment.yaml", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "flash" in done.stderr
    assert "listening on" in done.stderr  # the log's last lines


def test_a_command_that_does_not_exist_is_found_before_anything_starts(tmp_path: Path) -> None:
    experiment(tmp_path, candidate=["no-such-server", "--port", "{port}"])
    done = cli("run", "experiment.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "no-such-server" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_keys_appear_in_no_file_and_no_message(tmp_path: Path) -> None:
    secret = "sk-planted-9f8e7d6c5b4a"
    keyed = ["--api-key-env", "PLANTED_KEY"]
    path = experiment(tmp_path, base=mock_command(*keyed), candidate=mock_command(*keyed))
    path.write_text(path.read_text().replace("    model: mock\n", "    model: mock\n    api_key: ${PLANTED_KEY}\n"))
    done = cli("run", "experiment.yaml", cwd=tmp_path, PLANTED_KEY=secret)
    assert done.returncode in (0, 4), done.stderr
    assert secret not in done.stdout + done.stderr
    files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert len(files) > 10
    assert [file for file in files if secret.encode() in file.read_bytes()] == []
    wrong = cli("run", "experiment.yaml", cwd=tmp_path, PLANTED_KEY="")
    assert wrong.returncode == 2


def test_a_variable_that_is_not_set_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = experiment(tmp_path)
    path.write_text(path.read_text().replace("model: mock\n", "model: mock\n    api_key: ${NOT_SET_ANYWHERE}\n", 1))
    done = cli("run", "experiment.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "NOT_SET_ANYWHERE" in done.stderr
    assert "experiment.yaml:" in done.stderr


def test_a_server_that_hangs_does_not_outlast_the_time_budget(tmp_path: Path) -> None:
    experiment(tmp_path, candidate=mock_command("--fault", "hang"), budget={"pairs": "2..2", "minutes": 0.05})
    done = cli("run", "experiment.yaml", cwd=tmp_path)  # the helper's own limit is far below the request's 600 s
    assert "Traceback" not in done.stderr
    assert done.returncode in (2, 4), done.stderr


def test_a_budget_that_holds_no_round_is_refused_before_anything_starts(tmp_path: Path) -> None:
    load = {"prompts": {"input_tokens": 24}, "output_tokens": 4, "load": {"rate": 0.05}, "block": {"requests": 16}}
    experiment(tmp_path, workloads={"slow": load}, budget={"pairs": "2..2", "minutes": 1})
    done = cli("run", "experiment.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "one round takes at least" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_too_few_pairs_for_any_decision_are_said_beforehand(tmp_path: Path) -> None:
    experiment(tmp_path)
    done = cli("plan", "experiment.yaml", cwd=tmp_path)
    assert done.returncode == 0
    assert "no gate can be decided" in done.stdout
    result = bakeoff.run(tmp_path / "experiment.yaml", root=tmp_path / "runs")
    (told,) = [caution for caution in result.warnings if caution.code == "too-few-pairs"]
    assert "budget.pairs is 2" in told.message
    assert "budget.pairs to" in told.remedy
    experiment(tmp_path, budget={"pairs": "6..20", "minutes": 5})
    assert "no gate can be decided" not in cli("plan", "experiment.yaml", cwd=tmp_path).stdout


def test_a_run_that_measured_no_pair_is_not_fine(tmp_path: Path) -> None:
    failing(tmp_path, "--fault", "http_500")
    done = cli("compare", str(only_run(tmp_path)), cwd=tmp_path)
    assert done.returncode == 4


def test_options_beside_resume_are_named_as_they_were_typed(tmp_path: Path) -> None:
    done = cli("run", "--resume", "x", "--pairs", "9", "--gates", "ttft_s", cwd=tmp_path)
    assert done.returncode == 2
    assert "--pairs, --gates" in done.stderr
