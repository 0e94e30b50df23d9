"""What quantisation costs a small model that was trained at full precision, through a whole run.

The F32 file against a copy of itself (A/A), F16, Q8_0, Q5_0 and Q4_0 of it: accuracy in pairs, divergence, consistency,
memory, start-up, tokens per task. Beside our paired interval stands the one of lm-eval's way to compare two models
(unpaired: z of the difference of two means), made of the same answers.

Needs the folder of train_tiny.py, and xllamacpp.   Run: python benchmarks/quality/show.py FOLDER [--runs runs]
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path

import bakeoff
from bakeoff.model import (
    Answer,
    BlockSize,
    Budget,
    Consistency,
    Divergence,
    Experiment,
    Interval,
    Load,
    Prompts,
    Quality,
    QualityScore,
    QualityTask,
    Result,
    Variant,
    Workload,
)
from bakeoff.runs import RunFolder

KINDS = ("f16", "q8_0", "q5_0", "q4_0")


def experiment(folder: Path, items: int | None, pairs: int, minutes: float) -> Experiment:
    """The base and its copies; every arm answers all questions, a portion a round."""
    again = folder / "tiny-f32-again.gguf"
    if not again.exists():
        shutil.copyfile(folder / "tiny-f32.gguf", again)
    files = {"f32": "tiny-f32", "f32-again": again.stem, **{kind: f"tiny-{kind}" for kind in KINDS}}
    return Experiment(
        name="price-of-quantisation",
        variants=tuple(
            Variant(
                name=name,
                engine="llamacpp",
                settings={"model": str(folder / f"{stem}.gguf"), "context": 256, "threads": 1},
            )
            for name, stem in files.items()
        ),
        workloads=(
            Workload(
                name="long",
                prompts=Prompts(input_tokens=192),
                output_tokens=32,
                load=Load(kind="closed", levels=(1.0,)),
                block=BlockSize(requests=8),
            ),
        ),
        budget=Budget(min_pairs=pairs, max_pairs=pairs, seconds=minutes * 60),
        method="fixed",
        quality=Quality(
            tasks=(
                QualityTask(
                    name="letters",
                    source="jsonl",
                    path=str(folder / "items.jsonl"),
                    items=items,
                    scorer="exact",
                    max_tokens=16,
                ),
            ),
            divergence=Divergence(prompts=200, tokens=24),
            consistency=Consistency(items=30, repeats=4),
        ),
    )


def unpaired(base: Sequence[float], other: Sequence[float]) -> Interval:
    """lm-eval's comparison of two models on the same items: each mean has its own standard error (sample standard
    deviation ÷ √n), and the difference the root of the sum of their squares. In percentage points, 95 %."""
    point = statistics.fmean(other) - statistics.fmean(base)
    error = math.hypot(*(statistics.stdev(scores) / math.sqrt(len(scores)) for scores in (base, other)))
    half = statistics.NormalDist().inv_cdf(0.975) * error
    return Interval(point=100 * point, low=100 * (point - half), high=100 * (point + half))


def scores_of(answers: Sequence[Answer], variant: str) -> dict[str, float]:
    """Scores by item of what counts."""
    return {a.item: a.score for a in answers if a.variant == variant and a.purpose == "score" and a.score is not None}


def shown(interval: Interval, digits: int = 2, scale: float = 1.0) -> str:
    if interval.point is None:
        return "–"
    low, high = ("?" if v is None else f"{v * scale:.{digits}f}" for v in (interval.low, interval.high))
    return f"{interval.point * scale:.{digits}f} [{low}, {high}]"


def significant(interval: Interval) -> str:
    if interval.point is None:
        return "–"
    low, high = ("?" if v is None else f"{v:.1e}" for v in (interval.low, interval.high))
    return f"{interval.point:.1e} [{low}, {high}]"


def report(result: Result, folder: RunFolder, models: Path) -> None:
    answers = folder.answers()
    base = scores_of(answers, result.base)
    by_name: dict[tuple[str, str], QualityScore] = {(s.candidate, s.measure): s for s in result.scores}
    print(f"base {result.base}: {statistics.fmean(base.values()):.1%} of {len(base)} items right\n")
    print("| | accuracy − base, paired [points] | unpaired, as lm-eval | flips −/+ | verdict |\n|:--|--:|--:|--:|:--|")
    for name in result.candidates:
        own, score = scores_of(answers, name), by_name[name, "accuracy"]
        common = sorted(base.keys() & own.keys())
        theirs = unpaired([base[item] for item in common], [own[item] for item in common])
        lost, won = score.flips or (0, 0)
        print(f"| {name} | {shown(score.difference)} | {shown(theirs)} | {lost}/{won} | {score.outcome} |")
    print("\n| | mean KL [nat] | median | 99 % | same top [%] | RMS Δp [%] | perplexity ratio |")
    print("|:--|--:|--:|--:|--:|--:|--:|")
    first = result.candidates[0]
    rows = [(f"{result.base} × 2", {m: by_name[first, m].base for m in MEASURES})]
    rows += [(name, {m: by_name[name, m].value for m in MEASURES}) for name in result.candidates]
    for name, told in rows:
        cells = [*(significant(told[m]) for m in MEASURES[:3]), *(shown(told[m], 2, 100) for m in MEASURES[3:5])]
        print(f"| {name} | {' | '.join(cells)} | {shown(told['perplexity_ratio'], 4)} |")
    print(f"\n{by_name[first, 'kl_mean'].method}\n")
    others(result, answers, models, by_name)


MEASURES = ("kl_mean", "kl_median", "kl_p99", "same_top", "rms_dp", "perplexity_ratio")


def others(
    result: Result, answers: Sequence[Answer], models: Path, by_name: dict[tuple[str, str], QualityScore]
) -> None:
    """Consistency, size, memory, start-up and tokens per task."""
    print("| | identical repeats | agreement | file [kB] | private [MB] | mapped [MB] | start-up [s] | tokens a task |")
    print("|:--|--:|--:|--:|--:|--:|--:|--:|")
    resources = {(row.candidate, row.metric): row for row in result.resources}
    for name in (result.base, *result.candidates):
        against = name if name != result.base else result.candidates[0]
        cells = []
        for measure in ("identical", "agreement"):
            score = by_name.get((against, measure))
            side = None if score is None else score.base if name == result.base else score.value
            cells.append("–" if side is None or side.point is None else f"{side.point:.0%}")
        size = (models / f"tiny-{name}.gguf").stat().st_size / 1e3
        cells.append(f"{size:,.0f}")
        for metric, scale in (("peak_memory_bytes", 1e-6), ("peak_mapped_bytes", 1e-6), ("cold_start_s", 1.0)):
            row = resources.get((against, metric))
            side = None if row is None else row.base if name == result.base else row.value
            cells.append("–" if side is None or side.point is None else f"{side.point * scale:.2f}")
        own = [a for a in answers if a.variant == name and a.purpose == "score"]
        tokens = [a.output_tokens for a in own if a.output_tokens is not None]
        cells.append(f"{statistics.fmean(tokens):.2f}" if tokens else "–")
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what train_tiny.py wrote")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--items", type=int, help="at most so many questions")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--show", type=Path, help="a run that exists already: print its tables again")
    chosen = parser.parse_args()
    models = chosen.folder.resolve()
    if chosen.show is not None:
        result = bakeoff.compare(chosen.show)
    else:
        result = bakeoff.run(experiment(models, chosen.items, chosen.pairs, chosen.minutes), root=chosen.runs)
    report(result, RunFolder.open(Path(result.run)), models)
    print(f"\n{result.run}")


if __name__ == "__main__":
    main()
