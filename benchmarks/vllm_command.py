"""One run against the real vLLM server (CPU build), started, stopped and measured through engine `command`.

Needs a vLLM that `--vllm` names and a model folder that it can serve. The variants: eager mode with vLLM's defaults,
and the same with prefix caching off, which should make no difference where every prompt is new.

Run: python benchmarks/vllm_command.py --vllm PATH/bin/vllm --model FOLDER
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vllm", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    serve = [
        options.vllm, "serve", options.model, "--host", "127.0.0.1", "--port", "{port}", "--max-model-len", "1024",
        "--enforce-eager", "--dtype", "float32", "--served-model-name", "gemma",
    ]  # fmt: skip
    common = {
        "engine": "command",
        "model": "gemma",
        "ready": {"path": "/health", "timeout": "600s"},
        "stop_timeout": "30s",
        "env": {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"},
    }
    experiment = {
        "name": "vllm",
        "variants": {
            "base": {**common, "command": serve},
            "no-prefix-cache": {**common, "command": [*serve, "--no-enable-prefix-caching"]},
        },
        "workloads": {
            "chat": {
                "prompts": {"source": "synthetic", "input_tokens": 64},
                "output_tokens": 16,
                "load": {"concurrency": [1]},
                "block": {"requests": 3},
            }
        },
        "budget": {"pairs": f"{options.rounds}..{options.rounds}", "minutes": 25},
        "warmup": {"min_requests": 1, "max_requests": 2},
        "aa": 0,
    }
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "vllm.yaml"
        path.write_text(yaml.safe_dump(experiment, sort_keys=False))
        command = [sys.executable, "-m", "bakeoff", "run", str(path), "--runs", str(Path(name) / "runs"), "--full"]
        raise SystemExit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
