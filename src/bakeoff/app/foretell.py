"""How long a run will take, said before it begins: from earlier runs of the same cells where there are any."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..errors import BakeoffError, UsageError
from ..measure.plan import Plan
from ..model import Block, Experiment, Start
from ..runs import RunFolder

_LOOK_BACK = 10  # newest runs that are searched


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction. Seconds are None when nothing like it was measured here before."""

    sentence: str
    warnings: tuple[str, ...]  # what makes the run unable to decide, known beforehand
    round_s: float | None  # one round: all starts, warm-ups and blocks
    shortest_s: float | None  # `min_pairs` rounds
    longest_s: float | None  # `max_pairs` rounds, within the time budget
    from_run: str | None  # the earlier run it is taken from
    rounds: tuple[int, int]
    requests_per_round: int | None
    order: tuple[str, ...]  # visits of the first rounds


def foretell(experiment: Experiment, root: Path) -> Forecast:
    """Forecast from the newest earlier run under `root` that measured the same variants and cells."""
    plan = Plan(experiment)
    found = _earlier(experiment, root)
    budget = experiment.budget
    round_s = shortest = longest = None
    if found is not None:
        round_s = found[1]
        shortest, longest = round_s * budget.min_pairs, round_s * budget.max_pairs
        if budget.seconds is not None:
            shortest, longest = min(shortest, budget.seconds), min(longest, budget.seconds)
    order = tuple(
        " ".join(name + (" (A/A)" if kind == "aa" else "") for name, kind in plan.order(row))
        for row in range(min(4, budget.max_pairs))
    )
    counts = [experiment.workload(cell.workload).block.requests for cell in experiment.cells()]
    per_round = None if None in counts else sum(c or 0 for c in counts) * len(experiment.variants)
    return Forecast(
        sentence=_sentence(experiment, shortest, longest),
        warnings=tuple(_warnings(experiment)),
        round_s=round_s,
        shortest_s=shortest,
        longest_s=longest,
        from_run=found[0] if found else None,
        rounds=(budget.min_pairs, budget.max_pairs),
        requests_per_round=per_round,
        order=order,
    )


def shortest_round_s(experiment: Experiment) -> float:
    """Seconds that one round takes at least, by its schedule alone (closed loops of n requests: unknown, 0)."""
    total = 0.0
    for cell in experiment.cells():
        block = experiment.workload(cell.workload).block
        if block.seconds is not None:
            total += block.seconds
        elif cell.kind == "open":
            total += (block.requests or 0) / cell.level
    return total * len(experiment.variants)


def refuse_impossible(experiment: Experiment) -> None:
    """Raises UsageError for a budget that cannot hold a single round."""
    budget, least = experiment.budget, shortest_round_s(experiment)
    if budget.seconds is not None and least > budget.seconds:
        raise UsageError(
            f"one round takes at least {_minutes(least)} by its schedule, and the time budget is "
            f"{_minutes(budget.seconds)}",
            where="budget.minutes",
            remedy="raise budget.minutes, or shorten the blocks",
        )
    counts = [experiment.workload(cell.workload).block.requests or 1 for cell in experiment.cells()]
    needed = sum(counts) * len(experiment.variants)
    if budget.requests is not None and needed > budget.requests:
        raise UsageError(
            f"one round sends {needed} requests and its warm-up, and the request budget is {budget.requests}",
            where="budget.requests",
            remedy="raise budget.requests, or shorten the blocks",
        )


def first_decision(experiment: Experiment) -> int:
    """Rounds before which no gate can be decided: the anytime-valid interval is infinite for fewer replicates."""
    from ..compare.targets import all_targets
    from ..stats.anytime import multiplier

    gates = sum(target.gate for target in all_targets(experiment))
    alpha = (1 - experiment.confidence) / max(1, gates)
    replicates = next((n for n in range(2, 1000) if math.isfinite(multiplier(n, alpha))), 1000)
    return replicates * max(1, experiment.start_every)


def _warnings(experiment: Experiment) -> Iterator[str]:
    first, budget = first_decision(experiment), experiment.budget
    if budget.max_pairs < first:
        yield (
            f"no gate can be decided: with these gates an interval needs {first} pairs, and budget.pairs allows "
            f"{budget.max_pairs}"
        )


def _minutes(value: float) -> str:
    return f"{value / 60:.0f} min" if value >= 90 else f"{value:.0f} s"


def _sentence(experiment: Experiment, shortest: float | None, longest: float | None) -> str:
    budget = experiment.budget
    limit = (
        f"at most {_minutes(budget.seconds)}" if budget.seconds is not None else f"{budget.max_pairs} rounds at most"
    )
    if shortest is None or longest is None:
        return f"{limit}; a closer forecast follows after the first round"
    if longest - shortest < 30:
        return f"about {_minutes(longest)}, as the last time"
    return f"about {_minutes(shortest)} if the answer is clear, {_minutes(longest)} at most (from the last run's times)"


def _earlier(experiment: Experiment, root: Path) -> tuple[str, float] | None:
    """(run id, seconds per round) of the newest run that measured the same things."""
    wanted = {(v.name, cell.key) for v in experiment.variants for cell in experiment.cells()}
    heads = sorted(root.glob("*/run.json"), reverse=True)[:_LOOK_BACK] if root.is_dir() else []
    for head in heads:
        try:
            folder = RunFolder.open(head.parent)
            if folder.info.experiment.variants != experiment.variants:
                continue
            if folder.info.experiment.workloads != experiment.workloads:
                continue
            blocks = folder.block_infos(skip_broken=True)
            if wanted <= {(b.variant, b.cell) for b in blocks}:
                return folder.info.id, _round_seconds(blocks, folder.starts(), experiment.start_every)
        except BakeoffError:
            continue
    return None


def _round_seconds(blocks: list[Block], starts: list[Start], start_every: int) -> float:
    """Median time of a block of each kind, summed, plus the starts of a round."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for block in blocks:
        times[block.variant, block.cell].append((block.ended_ns - block.started_ns) / 1e9)
    total = sum(statistics.median(values) for values in times.values())
    ups: dict[str, list[float]] = defaultdict(list)
    for start in starts:
        if start.spawn_ns is not None and start.first_token_ns is not None:
            ups[start.variant].append((start.first_token_ns - start.spawn_ns) / 1e9)
    if start_every and ups:
        total += sum(statistics.median(values) for values in ups.values()) / start_every
    return total


def plan_text(experiment: Experiment, forecast: Forecast) -> str:
    """The plan as a person reads it."""
    low, high = forecast.rounds
    starts = {0: "once", 1: "every round"}.get(experiment.start_every, f"every {experiment.start_every} rounds")
    lines = [
        f"{experiment.name}: {experiment.base.name} → {', '.join(v.name for v in experiment.candidates)}",
        f"rounds    {low} to {high}, until every gate is decided",
        f"starts    {starts}; {'all servers' if experiment.resident == 'all' else 'one server'} up at a time",
        f"cells     {', '.join(cell.key for cell in experiment.cells())}",
        f"gates     {', '.join(experiment.gates)}; margin ±{experiment.margin:.1%}",
        f"requests  {forecast.requests_per_round or 'by time'} a round, warm-up apart",
        "order     " + "\n          ".join(f"round {i + 1}: {row}" for i, row in enumerate(forecast.order)),
        f"time      {forecast.sentence}",
        *(f"! {warning}" for warning in forecast.warnings),
    ]
    return "\n".join(lines)
