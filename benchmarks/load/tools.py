"""The tools that are compared: how each is called, and where it writes what it saw."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from task import Seen, Task, arguments

HERE = Path(__file__).parent


class Tool(Protocol):
    name: str
    environment: dict[str, str]

    def command(self, task: Task) -> list[str]:
        """What to run; results go below `task.out`."""

    def read(self, out: Path) -> tuple[list[Seen], dict[str, float]]:
        """(each request by the tool's own account, more that it says of itself)."""


class Child:
    """The floor or ours: a script beside this one, with the interpreter of this one."""

    def __init__(self, name: str, script: str) -> None:
        self.name = name
        self.environment: dict[str, str] = {}
        self._script = script

    def command(self, task: Task) -> list[str]:
        return [sys.executable, str(HERE / self._script), *arguments(task)]

    def read(self, out: Path) -> tuple[list[Seen], dict[str, float]]:
        told = json.loads(out.read_text())
        seen = [
            Seen(
                start=one["sent"],
                ttft_s=one["chunks"][0] / 1e9 - one["start"],
                gaps_s=[(b - a) / 1e9 for a, b in zip(one["chunks"], one["chunks"][1:], strict=False)],
            )
            for one in told.pop("seen")
        ]
        return seen, told


class Peer:
    """A tool in a virtual environment of its own."""

    def __init__(self, name: str, binary: str, tokenizer: str) -> None:
        self.name = name
        self._binary = binary
        self._tokenizer = tokenizer
        self.environment = {"NO_COLOR": "1", "TOKENIZERS_PARALLELISM": "false"}


class VllmBench(Peer):
    """`vllm bench serve` with --save-detailed: TTFT and every gap of each request, the monotonic clock's start."""

    def command(self, task: Task) -> list[str]:
        load = ["--request-rate", str(task.rate)] if task.rate else ["--max-concurrency", str(task.concurrency)]
        return [
            self._binary, "bench", "serve", "--backend", "openai", "--base-url", task.url, "--model", "mock",
            "--tokenizer", self._tokenizer, "--dataset-name", "random", "--random-input-len", "8",
            "--random-output-len", str(task.tokens), "--num-prompts", str(task.requests), *load, "--ignore-eos",
            "--disable-tqdm", "--ready-check-timeout-sec", "0", "--save-result", "--save-detailed",
            "--result-dir", str(Path(task.out).parent), "--result-filename", Path(task.out).name,
        ]  # fmt: skip

    def read(self, out: Path) -> tuple[list[Seen], dict[str, float]]:
        told = json.loads(out.read_text())
        rows = zip(told["start_times"], told["ttfts"], told["itls"], strict=True)
        # Its last "gap" ends with the usage chunk, which is no token.
        return [Seen(start=start, ttft_s=ttft, gaps_s=gaps) for start, ttft, gaps in rows], {}


class GuideLlm(Peer):
    """`guidellm run` with its JSON output: TTFT, and the mean gap alone."""

    def command(self, task: Task) -> list[str]:
        profile = f"kind=constant,rate={task.rate}" if task.rate else f"kind=concurrent,streams={task.concurrency}"
        return [
            self._binary, "run",
            "--backend", f"kind=openai_http,target={task.url},model=mock,request_format=/v1/completions",
            "--profile", profile, "--constraint", f"kind=max_requests,count={task.requests}",
            "--tokenizer", f"kind=hf_auto,model={self._tokenizer}",
            "--data", f"kind=synthetic_text,prompt_tokens=8,output_tokens={task.tokens}",
            "--output", f"kind=json,path={task.out}", "--disable-console",
        ]  # fmt: skip

    def read(self, out: Path) -> tuple[list[Seen], dict[str, float]]:
        requests = json.loads(out.read_text())["benchmarks"][0]["requests"]["successful"]
        return [
            Seen(
                start=one["request_start_time"],
                ttft_s=one["time_to_first_token_ms"] / 1e3,
                mean_gap_s=_seconds(one["inter_token_latency_ms"]),
            )
            for one in requests
        ], {}


class AiPerf(Peer):
    """`aiperf profile` with its per-request records: TTFT and every gap, and the request id that it sends."""

    def command(self, task: Task) -> list[str]:
        load = ["--request-rate", str(task.rate)] if task.rate else ["--concurrency", str(task.concurrency)]
        return [
            self._binary, "profile", "-m", "mock", "--url", task.url, "--endpoint-type", "completions", "--streaming",
            *load, "--request-count", str(task.requests), "--prompt-input-tokens-mean", "8",
            "--output-tokens-mean", str(task.tokens), "--extra-inputs", "ignore_eos:true",
            "--tokenizer", self._tokenizer, "--ui", "none", "--artifact-dir", f"{task.out}.d",
            "--no-gpu-telemetry", "--no-server-metrics", "--export-level", "records",
        ]  # fmt: skip

    def read(self, out: Path) -> tuple[list[Seen], dict[str, float]]:
        lines = (Path(f"{out}.d") / "profile_export.jsonl").read_text().splitlines()
        return [_aiperf_record(json.loads(line)) for line in lines], {}


def _aiperf_record(told: dict[str, Any]) -> Seen:
    metrics, meta = told["metrics"], told["metadata"]
    gaps = metrics.get("inter_chunk_latency", {"value": []})["value"]
    return Seen(
        start=meta["request_start_ns"] / 1e9,
        ttft_s=metrics["time_to_first_token"]["value"] / 1e3,
        gaps_s=[gap / 1e3 for gap in gaps],
        request_id=meta["x_request_id"],
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3


PEERS: dict[str, type[VllmBench | GuideLlm | AiPerf]] = {"vllm": VllmBench, "guidellm": GuideLlm, "aiperf": AiPerf}


def tools(peers: Sequence[str], tokenizer: str) -> list[Tool]:
    """The floor, ours twice (an A/A pair), and the peers given as NAME=BINARY."""
    chosen: list[Tool] = [Child("floor", "floor.py"), Child("ours", "ours.py"), Child("ours again", "ours.py")]
    for peer in peers:
        name, _, binary = peer.partition("=")
        if name not in PEERS or not Path(binary).is_file():
            raise SystemExit(f"--peer {peer}: write one of {', '.join(PEERS)}, =, and the path of its program")
        chosen.append(PEERS[name](name, binary, tokenizer))
    return chosen
