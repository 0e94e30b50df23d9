"""Planted variants that a comparison must see through, on mock servers whose truth is known.

``talkative``: the same time per token, the same answers, twice as many tokens: slower per task, because of its tokens.
``wrong``: half the time per token, other answers: faster, and never recommended.

Run: python benchmarks/quality/planted.py [--runs runs] [--items 150]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from pathlib import Path

import bakeoff
from bakeoff.client import HttpClient
from bakeoff.engines.command import ENGINE as COMMAND
from bakeoff.model import (
    BlockSize,
    Budget,
    Experiment,
    Load,
    Prompts,
    Quality,
    QualityTask,
    Result,
    StartContext,
    Variant,
    Workload,
)

_MOCK = (
    sys.executable,
    "-m",
    "bakeoff.mock",
    "--port",
    "{port}",
    "--ttft",
    "8ms",
    "--natural-tokens",
    "30",
    "--jitter",
    "5%",
)
_WORDS = ("river", "engine", "letter", "garden", "number", "winter", "market", "window")
_MOST_TOKENS = 400


def variant(name: str, *options: str) -> Variant:
    return Variant(name=name, engine="command", settings={"command": [*_MOCK, *options]})


BASE = variant("base", "--tpot", "2ms")
TALKATIVE = variant("talkative", "--tpot", "2ms", "--talkative", "2")
WRONG = variant("wrong", "--tpot", "1ms", "--seed", "7")


def write_questions(path: Path, items: int, folder: Path) -> None:
    """Questions whose right answer is the first word that the base says."""
    draw = random.Random(0)
    prompts = [f"{n}: {' '.join(draw.choices(_WORDS, k=8))}?" for n in range(items)]
    server = COMMAND.launch(BASE, StartContext(log_path=folder / "mock.log", start_id=0, round=0, group=0))
    try:

        async def answers() -> list[str]:
            async with HttpClient(server.endpoint) as http:
                asked = [{"model": "mock", "prompt": prompt, "max_tokens": _MOST_TOKENS} for prompt in prompts]
                told = [await http.post_json("completions", body) for body in asked]
            return [str(answer["choices"][0]["text"]) for answer in told]

        texts = asyncio.run(answers())
    finally:
        server.stop()
    lines = [
        json.dumps({"id": str(n), "prompt": prompt, "answer": text.split()[0]})
        for n, (prompt, text) in enumerate(zip(prompts, texts, strict=True))
    ]
    path.write_text("\n".join(lines) + "\n")


def experiment(questions: Path) -> Experiment:
    return Experiment(
        name="planted",
        variants=(BASE, TALKATIVE, WRONG),
        workloads=(
            Workload(
                name="chat",
                prompts=Prompts(input_tokens=32),
                output_tokens=_MOST_TOKENS,
                length="natural",
                load=Load(kind="closed", levels=(1.0,)),
                block=BlockSize(requests=12),
            ),
        ),
        budget=Budget(min_pairs=6, max_pairs=8, seconds=600),
        quality=Quality(
            tasks=(
                QualityTask(
                    name="first word",
                    source="jsonl",
                    path=str(questions),
                    scorer="regex",
                    pattern=r"^\s*(\w+)",
                    max_tokens=_MOST_TOKENS,
                ),
            ),
        ),
    )


def tell(result: Result) -> None:
    for score in result.scores:
        if score.measure == "accuracy":
            gap = score.difference
            print(
                f"{score.candidate:10s} accuracy {score.base.point:.0%} → {score.value.point:.0%}: "
                f"{gap.point:+.1f} points [{gap.low:+.1f}, {gap.high:+.1f}], {score.outcome}"
            )
    for row in result.comparisons:
        if row.metric in ("tpot_s", "e2e_latency_s") and row.statistic == "p50" and row.ratio.point is not None:
            print(f"{row.candidate:10s} {row.metric:14s} × {row.ratio.point:.2f}  {row.outcome}")
    for told in result.task_times:
        name = f"{told.candidate:10s} task time{f' ({told.task})' if told.task else ''}"
        if told.ratio.point is None:
            print(f"{name}: {told.reason}")
            continue
        print(f"{name} × {told.ratio.point:.2f} [{told.ratio.low or 0:.2f}, {told.ratio.high or 0:.2f}]")
        for part in sorted(told.parts, key=lambda part: -abs(part.log_share.point or 0.0)):
            share, seconds = part.log_share.point or 0.0, part.seconds.point or 0.0
            print(f"    {part.name:16s} ln {share:+.3f}   {seconds * 1e3:+7.1f} ms per task")
    print(f"ship: {result.decision.ship}")
    for reason in (*result.decision.reasons, *result.decision.conditions):
        print(f"    {reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument("--show", type=Path, help="a run that exists already: tell it again")
    chosen = parser.parse_args()
    if chosen.show is not None:
        tell(bakeoff.compare(chosen.show))
        return
    with tempfile.TemporaryDirectory() as made:
        questions = Path(made) / "questions.jsonl"
        write_questions(questions, chosen.items, Path(made))
        result = bakeoff.run(experiment(questions), root=chosen.runs)
    tell(result)
    print(result.run)


if __name__ == "__main__":
    main()
