"""What a tool is asked to send, and what it says it saw."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Task:
    """`requests` answers of `tokens` tokens, `concurrency` at a time, or at `rate` [1/s] where one is given."""

    url: str
    out: str
    requests: int
    tokens: int
    concurrency: int = 1
    rate: float = 0.0


@dataclass
class Seen:
    """One request by a tool's own account: start (of whatever clock, for the order) and TTFT [s], gaps between tokens
    [s], or their mean alone where the tool keeps no more."""

    start: float
    ttft_s: float
    gaps_s: list[float] = field(default_factory=list)
    mean_gap_s: float | None = None
    request_id: str | None = None


def body(tokens: int) -> dict[str, Any]:
    """The request of the floor and of ours; peers make their own, of the same lengths."""
    return {
        "model": "mock",
        "prompt": "one two three four five six seven eight",
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def child_task() -> Task:
    """The task on a child's command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    return Task(**vars(parser.parse_args()))


def arguments(task: Task) -> list[str]:
    """The command line of `child_task`."""
    return [word for name, value in vars(task).items() for word in (f"--{name}", str(value))]
