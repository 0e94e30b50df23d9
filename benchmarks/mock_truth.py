"""Is the whole path right where the truth is known? Against the mock server (TTFT 50 ms, TPOT 20 ms).

1. Medians of TTFT and TPOT as measured, against the server's own send log, at concurrency 1 and 8.
2. Base against the same base: no `faster`, no `slower`.
3. A candidate whose time per token is 10 % longer: `slower`, the true ratio inside the interval, in at most 14 pairs.

Run: python benchmarks/mock_truth.py [--repetitions 3]      (about 4 minutes a repetition)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

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


class Errors:
    """Differences between the client's medians and the send log's, per cell: (TTFT, TPOT) [ms]."""

    def __init__(self) -> None:
        self.blocks: dict[str, list[tuple[float, float]]] = {}
        self.client: dict[str, tuple[list[float], list[float]]] = {}
        self.server: dict[str, tuple[list[float], list[float]]] = {}

    def add(self, result: Result, logs: dict[str, list[SendRecord]]) -> None:
        """Adds every block of a run; a log's requests belong to the block in whose time they were received."""
        for data in RunFolder.open(Path(result.run)).blocks():
            block, columns = data.block, data.columns
            first, last = columns["first_token_ns"], columns["last_token_ns"]
            ttft = [float(f - s) / 1e6 for f, s in zip(first, columns["scheduled_ns"], strict=True)]
            tpot = [float(e - f) / 1e6 / (n - 1) for e, f, n in zip(last, first, columns["output_tokens"], strict=True)]
            inside = [r for r in logs[block.variant] if block.started_ns <= r.recv_ns <= block.ended_ns and r.chunk_ns]
            sent = [(r.chunk_ns[0] - r.recv_ns) / 1e6 for r in inside]
            paced = [(r.chunk_ns[-1] - r.chunk_ns[0]) / 1e6 / (r.output_tokens - 1) for r in inside]
            self.blocks.setdefault(block.cell, []).append(
                (abs(median(ttft) - median(sent)), abs(median(tpot) - median(paced)))
            )
            for kept, values in ((self.client, (ttft, tpot)), (self.server, (sent, paced))):
                place = kept.setdefault(block.cell, ([], []))
                place[0].extend(values[0])
                place[1].extend(values[1])

    def table(self) -> str:
        lines = [
            "| cell | blocks | error of the median TTFT | typical block | worst block "
            "| error of the median TPOT | typical block | worst block |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for cell, blocks in sorted(self.blocks.items()):
            row = f"| {cell} | {len(blocks)} |"
            for i in range(2):
                pooled = abs(median(self.client[cell][i]) - median(self.server[cell][i]))
                errors = [block[i] for block in blocks]
                row += f" {pooled:.3f} ms | {median(errors):.3f} ms | {max(errors):.3f} ms |"
            lines.append(row)
        return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=3)
    repetitions = parser.parse_args().repetitions
    print("| repetition | question | cell | metric | true ratio | estimate | interval | outcome | pairs |")
    print("|---|---|---|---|---|---|---|---|---|")
    errors = Errors()
    for repetition in range(repetitions):
        for question, flags, truth in (
            ("same", (), {"ttft_s": 1.0, "tpot_s": 1.0}),
            ("TPOT +10 %", ("--tpot", "22ms"), {"ttft_s": 1.0, "tpot_s": 1.1}),
        ):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                result = bakeoff.run(experiment("mock-truth", folder, *flags), root=folder / "runs")
                logs = {arm: read_send_log(folder / f"{arm}.jsonl") for arm in ("base", "candidate")}
                errors.add(result, logs)
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
    print(errors.table())


if __name__ == "__main__":
    main()
