"""kill -9 in the middle of a real run, then --resume: is the run complete, and was at most one block lost?

Uses the demo's models on embedded llama.cpp. Run: python benchmarks/resume_after_kill.py
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import yaml

from bakeoff.demo import prepare
from bakeoff.runs import RunFolder

ROUNDS = 4
BAKEOFF = [sys.executable, "-m", "bakeoff"]


def experiment(folder: Path) -> Path:
    models = prepare(None, progress=lambda _step, _share: None)
    variants = {
        name: {"engine": "llamacpp", "model": str(model), "kv_type": kv_type, "flash_attention": "on", "context": 1024}
        for name, model, kv_type in (("base", models.base, "f16"), ("flash", models.flash, "q8_0"))
    }
    workload = {
        "prompts": {"source": "synthetic", "input_tokens": 128},
        "output_tokens": 16,
        "load": {"concurrency": 1},
        "block": {"requests": 3},
    }
    path = folder / "kill.yaml"
    budget = {"pairs": f"{ROUNDS}..{ROUNDS}", "minutes": 10}
    path.write_text(yaml.safe_dump({"variants": variants, "workloads": {"chat": workload}, "budget": budget, "aa": 0}))
    return path


def servers() -> list[int]:
    mark = "bakeoff/engines/servers"
    found = psutil.process_iter(["pid", "cmdline"])
    return [p.pid for p in found if any(mark in word for word in p.info["cmdline"] or [])]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        process = subprocess.Popen([*BAKEOFF, "run", str(experiment(root)), "--quiet"], cwd=root)
        while len(list(root.glob("runs/*/requests/*.parquet"))) < 3:
            time.sleep(0.05)
        time.sleep(0.5)  # into the next block or start
        up = servers()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        killed = time.monotonic()
        while servers() and time.monotonic() - killed < 30:
            time.sleep(0.01)
        gone = time.monotonic() - killed
        (run,) = (root / "runs").iterdir()
        kept = len(RunFolder.open(run).blocks())
        done = subprocess.run(
            [*BAKEOFF, "run", "--resume", str(run), "--quiet"], cwd=root, capture_output=True, text=True, check=False
        )
        folder = RunFolder.open(run)
        places = {(b.round, b.variant, b.cell) for b in folder.block_infos()}
        print("| servers up at the kill | all gone after | blocks kept | resumed: exit | state | places measured |")
        print("|---|---|---|---|---|---|")
        print(
            f"| {len(up)} processes | {gone:.2f} s, {len(servers())} left | {kept} | {done.returncode} "
            f"| {folder.info.state} | {len(places)} of {ROUNDS * 2} |"
        )
        if done.returncode not in (0, 4):
            print(done.stderr)


if __name__ == "__main__":
    main()
