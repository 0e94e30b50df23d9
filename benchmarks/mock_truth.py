"""Is the whole path right where the truth is known? Against the mock server (TTFT 50 ms, TPOT 20 ms).

1. Medians of TTFT and TPOT as measured, against the server's own send log, at concurrency 1 and 8.
2. Base against the same base: no `faster`, no `slower`.
3. A candidate whose time per token is 10 % longer: `slower`, the true ratio inside the interval, in at most 14 pairs.

Run: python benchmarks/mock_truth.py [--repetitions 3]      (about 4 minutes a repetition)
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import bakeoff
from bakeoff.mock.sendlog import SendRecord, read_send_log
from bakeoff.model import BlockSize, Budget, Experiment, Load, Prompts, Result, Variant, Workload
from bakeoff.runs import RunFolder


def variant(name: str, log: Path, *flags: str) -> Variant:
    command = [
        sys.executable, "-m", "bakeoff.mock", "--port", "{port}", "--ttft", "50ms", "--tpot", "20ms",
        "--jitter", "2%", "--send-log", str(log), *flags,
    ]  # fmt: skip
    return Variant(name=name, engine="command", settings={"command": command, "model": "mock", "stop_timeout": "5s"})


def experiment(name: str, folder: Path, *candidate_flags: str, max_pairs: int = 14) -> Experiment:
    return Experiment(
        name=name,
        variants=(
            variant("base", folder / "base.jsonl"),
            variant("candidate", folder / "candidate.jsonl", *candidate_flags),
        ),
        workloads=(
            Workload(
                name="chat",
                prompts=Prompts(input_tokens=64),
                output_tokens=16,
                load=Load(kind="closed", levels=(1, 8)),
                block=BlockSize(requests=16),
            ),
        ),
        budget=Budget(min_pairs=6, max_pairs=max_pairs, seconds=900),
        aa_pairs=1,
    )


def server_truth(records: list[SendRecord], start_ns: int, end_ns: int) -> tuple[float, float]:
    """Median TTFT and TPOT [s] as the server sent them, for the requests received in a time range."""
    inside = [r for r in records if start_ns <= r.recv_ns <= end_ns and r.first_send_ns is not None and r.chunk_ns]
    ttft = statistics.median((r.first_send_ns - r.recv_ns) / 1e9 for r in inside if r.first_send_ns is not None)
    tpot = statistics.median((r.chunk_ns[-1] - r.chunk_ns[0]) / 1e9 / (r.output_tokens - 1) for r in inside)
    return ttft, tpot


def accuracy(result: Result, logs: dict[str, list[SendRecord]]) -> dict[str, tuple[float, float]]:
    """cell → worst and median |error| [ms] of block medians over both arms: (TTFT, TPOT) medians."""
    errors: dict[str, list[tuple[float, float]]] = {}
    for data in RunFolder.open(Path(result.run)).blocks():
        block, columns = data.block, data.columns
        first, last, scheduled = columns["first_token_ns"], columns["last_token_ns"], columns["scheduled_ns"]
        ttft = statistics.median(float(f - s) / 1e9 for f, s in zip(first, scheduled, strict=True))
        tokens = columns["output_tokens"]
        tpot = statistics.median(float(e - f) / 1e9 / (n - 1) for e, f, n in zip(last, first, tokens, strict=True))
        truth = server_truth(logs[block.variant], block.started_ns, block.ended_ns)
        errors.setdefault(block.cell, []).append((abs(ttft - truth[0]) * 1e3, abs(tpot - truth[1]) * 1e3))
    return {cell: (max(e[0] for e in es), max(e[1] for e in es)) for cell, es in errors.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=3)
    repetitions = parser.parse_args().repetitions
    print("| repetition | question | cell | metric | true ratio | estimate | interval | outcome | pairs |")
    print("|---|---|---|---|---|---|---|---|---|")
    worst: dict[str, tuple[float, float]] = {}
    for repetition in range(repetitions):
        for question, flags, truth in (
            ("same", (), {"ttft_s": 1.0, "tpot_s": 1.0}),
            ("TPOT +10 %", ("--tpot", "22ms"), {"ttft_s": 1.0, "tpot_s": 1.1}),
        ):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                result = bakeoff.run(experiment("mock-truth", folder, *flags), root=folder / "runs")
                logs = {arm: read_send_log(folder / f"{arm}.jsonl") for arm in ("base", "candidate")}
                for cell, error in accuracy(result, logs).items():
                    before = worst.get(cell, (0.0, 0.0))
                    worst[cell] = (max(before[0], error[0]), max(before[1], error[1]))
            for row in result.comparisons:
                if row.gate:
                    cell = f"c{row.load['concurrency']:g}"
                    interval = f"[{row.ratio.low:.4f}, {row.ratio.high:.4f}]" if row.ratio.low else "–"
                    print(
                        f"| {repetition + 1} | {question} | {cell} | {row.metric} | {truth[row.metric]:.2f} "
                        f"| {row.ratio.point:.4f} | {interval} | {row.outcome} | {row.pairs} |",
                        flush=True,
                    )
            for caution in result.warnings:
                print(f"<!-- {caution.code}: {caution.message} -->")
    print()
    print("| cell | worst error of a block's median TTFT | worst error of a block's median TPOT |")
    print("|---|---|---|")
    for cell, (ttft, tpot) in sorted(worst.items()):
        print(f"| {cell} | {ttft:.3f} ms | {tpot:.4f} ms |")


if __name__ == "__main__":
    main()
