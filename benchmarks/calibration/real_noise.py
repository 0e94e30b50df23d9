"""Real noise: short A/A comparisons of the embedded engine on this machine, quiet and with a busy neighbour.

Both arms are the same file with the same settings, each in a server of its own, started afresh in every round. In
every second comparison a neighbour (a spinning process per two cores, at least one) runs all the while. Counted: false
differences (the interval of a gate excludes 0, and whether the row was still called valid), blocks that met a busy
machine, blocks that were measured again for it, and comparisons in which the audit says so or makes rows invalid.
A comparison takes 40 s at most, so forty take up to 27 minutes. The model should need about a second for a block of
three answers of twelve tokens (270 million parameters on two cores do): what ends within milliseconds meets the
client's own limits first.

    python -m benchmarks.calibration.real_noise --model FILE.gguf [--comparisons 40] [--neighbour steady|fitful]

A fitful neighbour spins and rests in turns of three to nine seconds, so that it meets some blocks and not their
partners: the worst case for pairs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import bakeoff
from bakeoff.model import BlockSize, Budget, Experiment, Load, Prompts, Result, Variant, Warmup, Workload
from bakeoff.runs import RunFolder

Neighbour = Literal["none", "steady", "fitful"]
ROUNDS = 6


def experiment(model: Path, method: Literal["anytime", "fixed"], number: int) -> Experiment:
    settings = {
        "model": str(model.resolve()),
        "context": 512,
        "flash_attention": "on",
    }
    return Experiment(
        name=f"same-{number}",
        variants=tuple(Variant(name=name, engine="llamacpp", settings=settings) for name in ("base", "again")),
        workloads=(
            Workload(
                name="chat",
                prompts=Prompts(input_tokens=32, seed=number),
                output_tokens=12,
                load=Load(kind="closed", levels=(1,)),
                block=BlockSize(requests=3),
            ),
        ),
        budget=Budget(min_pairs=6, max_pairs=ROUNDS, seconds=36.0),
        method=method,
        warmup=Warmup(min_requests=1, max_requests=3, max_seconds=2.0),
        aa_pairs=0,
        seed=number,
    )


def _spin(fitful: bool, seed: int) -> None:
    turns = random.Random(seed)
    while True:
        until = time.monotonic() + (turns.uniform(3, 9) if fitful else 60.0)
        while time.monotonic() < until:
            pass
        if fitful:
            time.sleep(turns.uniform(3, 9))


@contextmanager
def neighbour(kind: Neighbour, seed: int) -> Iterator[None]:
    """Processes of ours that keep half of the cores busy; ended by handle."""
    if kind == "none":
        yield
        return
    context = multiprocessing.get_context("spawn")
    count = max(1, (os.cpu_count() or 2) // 2)
    spinners = [context.Process(target=_spin, args=(kind == "fitful", seed + i), daemon=True) for i in range(count)]
    for spinner in spinners:
        spinner.start()
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.terminate()
            spinner.join()


class Seen(NamedTuple):
    """One comparison."""

    excludes: int  # gates whose interval excludes 0
    claimed: int  # of those, gates that are not invalid
    outcomes: str
    invalid: int  # gates
    blocks: int  # all measured, repeated ones too
    contended: int
    repeated: int
    pairs: int
    warned: bool  # the audit names contention
    seconds: float

    @property
    def caught(self) -> bool:
        return self.warned or self.invalid > 0 or self.repeated > 0


def read(result: Result, folder: Path, seconds: float) -> Seen:
    blocks = [data.block for data in RunFolder.open(folder).blocks()]
    places = {(b.round, b.variant, b.cell, b.kind) for b in blocks}
    gates = [row for row in result.comparisons if row.gate]
    off = [
        row
        for row in gates
        if row.ratio.low is not None and row.ratio.high is not None and (row.ratio.low > 1 or row.ratio.high < 1)
    ]
    return Seen(
        excludes=len(off),
        claimed=sum(row.outcome != "invalid" for row in off),
        outcomes=", ".join(f"{row.metric} {row.outcome}" for row in gates),
        invalid=sum(row.outcome == "invalid" for row in gates),
        blocks=len(blocks),
        contended=sum(b.health.contended for b in blocks),
        repeated=len(blocks) - len(places),
        pairs=max((row.pairs for row in gates), default=0),
        warned=any(c.code in ("contention", "steal") for c in result.warnings),
        seconds=seconds,
    )


def summary(name: str, seen: list[Seen]) -> str:
    n = len(seen)
    cells = (
        f"{n}",
        f"{sum(s.excludes > 0 for s in seen)}",
        f"{sum(s.claimed > 0 for s in seen)}",
        f"{sum(s.invalid > 0 for s in seen)}",
        f"{sum(s.warned for s in seen)}",
        f"{sum(s.caught for s in seen)}",
        f"{sum(s.contended for s in seen)} of {sum(s.blocks for s in seen)}",
        f"{sum(s.repeated for s in seen)}",
        f"{sum(s.pairs for s in seen) / n:.1f}",
        f"{sum(s.seconds for s in seen) / n:.0f} s",
    )
    return f"| {name} | " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--comparisons", type=int, default=40)
    parser.add_argument("--method", choices=("anytime", "fixed"), default="fixed")
    parser.add_argument("--neighbour", choices=("steady", "fitful"), default="fitful")
    arguments = parser.parse_args()
    found: dict[str, list[Seen]] = {}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        for number in range(arguments.comparisons):
            kind: Neighbour = arguments.neighbour if number % 2 else "none"
            started = time.monotonic()
            with neighbour(kind, number):
                result = bakeoff.run(experiment(arguments.model, arguments.method, number), root=root)
            seen = read(result, Path(result.run), time.monotonic() - started)
            found.setdefault("quiet" if kind == "none" else f"{kind} neighbour", []).append(seen)
            print(
                f"{number + 1}/{arguments.comparisons} {kind}: {seen.outcomes}; {seen.pairs} pairs, "
                f"{seen.contended} of {seen.blocks} blocks contended, {seen.repeated} repeated, {seen.seconds:.0f} s",
                flush=True,
            )
    print(
        "\n| neighbour | comparisons | a gate excludes 0 | and is not invalid | with an invalid gate | audit names "
        "contention | caught | blocks contended | repeated | mean pairs | mean time |\n" + "|---" * 11 + "|"
    )
    for name, part in found.items():
        print(summary(name, part))
    print(f"\n{(time.monotonic() - begun) / 60:.0f} minutes.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
