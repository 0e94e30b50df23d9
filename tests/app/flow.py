"""Experiments on the mock server, small enough for a test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

FAST = ["--ttft", "5ms", "--tpot", "1ms"]


def mock_command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "bakeoff.mock", "--port", "{port}", *FAST, *flags]


def experiment(
    folder: Path, *, base: list[str] | None = None, candidate: list[str] | None = None, **more: object
) -> Path:
    """Writes an experiment file: two mocks, one cell, 2 rounds; `more` overrides top-level keys."""
    content: dict[str, Any] = {
        "name": "flow",
        "variants": {
            "base": {"engine": "command", "command": base or mock_command(), "model": "mock"},
            "flash": {"engine": "command", "command": candidate or mock_command(), "model": "mock"},
        },
        "workloads": {
            "chat": {
                "prompts": {"source": "synthetic", "input_tokens": 24},
                "output_tokens": 4,
                "load": {"concurrency": [1]},
                "block": {"requests": 3},
            }
        },
        "budget": {"pairs": "2..2", "minutes": 5},
        "warmup": {"min_requests": 1, "max_requests": 2},
        "aa": 1,
        **more,
    }
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path
