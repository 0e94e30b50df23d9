"""The server's own counters through a whole run: what the mock did is what the blocks say, in every dialect."""

from __future__ import annotations

import re
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import bakeoff
from bakeoff.model import Block, Health, Result
from bakeoff.runs import RunFolder

from .flow import experiment, mock_command

DIALECTS = ("vllm", "sglang", "llamacpp", "tgi")


def run(tmp_path: Path, dialect: str, *flags: str, prompts: dict[str, Any] | None = None, **more: Any) -> Result:
    command = mock_command("--metrics-dialect", dialect, *flags)
    workload = {
        "prompts": {"source": "synthetic", "input_tokens": 64, **(prompts or {})},
        "output_tokens": 5,
        "load": {"concurrency": [2]},
        "block": {"requests": 8},
        **more,
    }
    file = experiment(tmp_path, base=command, candidate=command, workloads={"chat": workload}, aa=0)
    return bakeoff.run(file, root=tmp_path / "runs")


def blocks(result: Result) -> list[Block]:
    return RunFolder.open(Path(result.run)).block_infos()


def codes(result: Result) -> set[str]:
    return {caution.code for caution in result.warnings}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_the_server_counted_is_what_was_sent(tmp_path: Path, dialect: str) -> None:
    result = run(tmp_path, dialect)
    for block in blocks(result):
        found = block.counters
        assert found["generation_tokens"] == 8 * 5
        assert found["prompt_tokens"] == pytest.approx(8 * 64, rel=0.1)  # and a template's few tokens
        if dialect != "llamacpp":
            assert found["requests"] == 8
        if dialect in ("vllm", "sglang"):
            assert found["ttft_count"] == 8
            assert 0 < found["ttft_s"] < found["e2e_s"]
        if dialect == "vllm":
            assert found["preemptions"] == 0
    assert codes(result).isdisjoint({"foreign-traffic", "server-restarted", "counters-partial", "cache-hits"})


@pytest.mark.parametrize("dialect", ["vllm", "llamacpp"])
def test_unique_prompts_hit_no_cache(tmp_path: Path, dialect: str) -> None:
    result = run(tmp_path, dialect, "--prefix-cache")
    assert {block.cache_hit_tokens for block in blocks(result)} == {0}
    assert codes(result).isdisjoint({"cache-hits", "cache-use"})


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "llamacpp"])
def test_a_declared_prefix_is_reused_as_far_as_it_is_shared(tmp_path: Path, dialect: str) -> None:
    shared = {"input_tokens": 128, "shared_prefix": 0.5}
    result = run(tmp_path, dialect, "--prefix-cache", prompts=shared, load={"concurrency": [1]})
    for block in blocks(result):
        assert block.cache_hit_tokens is not None
        assert block.cache_query_tokens
        # Seven of eight prompts find half of themselves, in whole blocks of 16 tokens.
        assert 7 * 32 <= block.cache_hit_tokens <= 7 * 80
        assert 0.2 < block.cache_hit_tokens / block.cache_query_tokens <= 7 / 8 * 0.5 + 0.05
    assert "cache-use" in codes(result)
    assert codes(result).isdisjoint({"cache-contamination", "cache-unequal"})


def test_a_block_that_is_measured_again_does_not_find_its_first_try_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Health, "contended", True)
    result = run(tmp_path, "vllm", "--prefix-cache", prompts={"shared_prefix": 0.5}, load={"concurrency": [1]})
    found = blocks(result)
    assert len(found) > 4  # two rounds of two arms, and what was repeated
    assert {block.cache_hit_tokens for block in found} == {7 * 32}
    assert "cache-contamination" not in codes(result)


def test_one_arm_without_a_prefix_cache_is_a_finding(tmp_path: Path) -> None:
    command = mock_command("--prefix-cache")
    workload = {
        "prompts": {"source": "synthetic", "input_tokens": 128, "shared_prefix": 0.5},
        "output_tokens": 4,
        "load": {"concurrency": [1]},
        "block": {"requests": 6},
    }
    file = experiment(tmp_path, base=mock_command(), candidate=command, workloads={"chat": workload}, aa=0)
    result = bakeoff.run(file, root=tmp_path / "runs")
    assert "cache-unequal" in codes(result)


def test_what_waits_in_the_server_is_seen(tmp_path: Path) -> None:
    result = run(tmp_path, "vllm", "--slots", "1", "--ttft", "20ms", load={"concurrency": [4]}, block={"requests": 8})
    (found,) = [c for c in result.warnings if c.code == "queueing"]
    assert "share of TTFT" in found.message
    for block in blocks(result):
        assert block.counters["queue_s"] > 0.02 * 4  # of four at a time three wait for one other at least


def test_another_client_is_noticed(tmp_path: Path) -> None:
    """It sends while the blocks run, to every server that it finds listening."""
    stop = threading.Event()
    folder = tmp_path / "runs"

    def intrude() -> None:
        body = b'{"model":"mock","prompt":"hello","max_tokens":2,"stream":false}'
        while not stop.wait(0.01):
            for port in ports(folder):
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}/v1/completions", body, {"Content-Type": "application/json"}
                )
                try:
                    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
                        answer.read()
                except OSError:
                    continue

    thread = threading.Thread(target=intrude)
    thread.start()
    try:
        result = run(tmp_path, "vllm", "--ttft", "30ms", block={"requests": 16})
    finally:
        stop.set()
        thread.join()
    (found, *_) = [c for c in result.warnings if c.code == "foreign-traffic"]
    assert found.severity == "invalid"


def ports(folder: Path) -> list[int]:
    """Of the servers whose logs say where they listen."""
    logs = [log.read_text("utf-8", "replace") for log in folder.glob("*/logs/*.log")]
    return [int(port) for text in logs for port in re.findall(r"listening on http://[^\s:]+:(\d+)", text)]
