"""How long a run will take, said before it begins: from earlier runs of the same cells where there are any."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ..compare.pace import round_seconds
from ..compare.view_method import margins_text
from ..errors import BakeoffError, UsageError
from ..measure.pilot import searches
from ..measure.plan import Plan
from ..metrics import METRICS
from ..model import Caution, Cell, Experiment
from ..runs import RunFolder
from ..units import change
from .quality_size import quality_lines, quality_warnings
from .searching import as_asked, search_lines, search_warnings, with_levels
from .sensitivity import Sensitivity, sensitivities

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
    sensitivity: tuple[Sensitivity, ...] = ()  # gate by gate: what the budget can show (`plan` only)


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
    per_round = (
        None if None in counts or searches(experiment) else sum(c or 0 for c in counts) * len(experiment.variants)
    )
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


def plan(experiment: Experiment, root: Path) -> Forecast:
    """The forecast with what every gate can show: noise of earlier runs of this machine and engines, or assumed."""
    forecast = foretell(experiment, root)
    rounds, budget = experiment.budget.max_pairs, experiment.budget
    least = forecast.round_s or shortest_round_s(experiment)
    if budget.seconds is not None and least > 0:
        rounds = min(rounds, int(budget.seconds // least))
    if budget.requests is not None and forecast.requests_per_round:
        rounds = min(rounds, budget.requests // forecast.requests_per_round)
    return msgspec.structs.replace(forecast, sensitivity=sensitivities(experiment, root, rounds))


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
    """Rounds before which no gate can be decided: with fewer replicates its interval is infinite."""
    from ..compare.pairs import TAIL_REQUESTS
    from ..compare.targets import all_targets
    from ..stats.paired import hodges_lehmann
    from ..stats.power import half_width

    targets = [target for target in all_targets(with_levels(experiment)) if target.gate]
    alpha = (1 - experiment.confidence) / max(1, len(targets))
    by_ranks = (
        experiment.method == "fixed" and bool(targets) and all(target.statistic in TAIL_REQUESTS for target in targets)
    )

    def finite(n: int) -> bool:
        if by_ranks:
            return hodges_lehmann([float(i) for i in range(n)], alpha).low is not None
        return math.isfinite(half_width(n, alpha, experiment.method))

    replicates = next((n for n in range(2, 60 if by_ranks else 1000) if finite(n)), 1000)
    return replicates * max(1, experiment.start_every)


def _warnings(experiment: Experiment) -> Iterator[str]:
    first, budget = first_decision(experiment), experiment.budget
    if budget.max_pairs < first:
        yield (
            f"no gate can be decided: with these gates an interval needs {first} pairs, and budget.pairs allows "
            f"{budget.max_pairs}"
        )
    yield from search_warnings(experiment, max(first, budget.min_pairs))
    yield from quality_warnings(experiment)


def too_few_pairs(experiment: Experiment, rounds: int) -> tuple[Caution, ...]:
    """A warning in the result where its plan held fewer pairs than any interval needs. rounds: those measured."""
    first, most = first_decision(experiment), experiment.budget.max_pairs
    if max(most, rounds) >= first:
        return ()
    message = f"no gate could be decided: with these gates an interval needs {first} pairs, and budget.pairs is {most}"
    return (Caution(code="too-few-pairs", message=message, remedy=f"set budget.pairs to {first} or more"),)


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
            if folder.info.state == "failed" or folder.info.experiment.variants != experiment.variants:
                continue  # how long something takes that went wrong says nothing
            if as_asked(folder.info.experiment) != as_asked(experiment):
                continue
            if folder.info.experiment.start_every != experiment.start_every:
                continue  # another number of starts takes another time
            blocks = folder.block_infos(skip_broken=True)
            if wanted <= {(b.variant, b.cell) for b in blocks}:
                seconds = round_seconds(blocks, folder.starts())
                return (folder.info.id, seconds) if seconds is not None else None
        except BakeoffError:
            continue
    return None


def plan_text(experiment: Experiment, forecast: Forecast) -> str:
    """The plan as a person reads it."""
    low, high = forecast.rounds
    starts = {0: "once", 1: "every round"}.get(experiment.start_every, f"every {experiment.start_every} rounds")
    fixed = experiment.method == "fixed"
    by = "by the levels found" if searches(experiment) else "by time"
    span = f"{low} to {high}" if low < high else f"{high}"
    rounds = f"{high}, one look at the end" if fixed else f"{span}, until every gate is decided"
    lines = [
        f"{experiment.name}: {experiment.base.name} → {', '.join(v.name for v in experiment.candidates)}",
        f"rounds    {rounds}",
        f"starts    {starts}; {'all servers' if experiment.resident == 'all' else 'one server'} up at a time",
        f"cells     {', '.join(map(_cell, experiment.cells())) or 'found by the run itself'}",
        *search_lines(experiment),
        f"gates     {', '.join(experiment.gates)}; margin {margins_text(experiment)}",
        f"requests  {forecast.requests_per_round or by} a round, warm-up apart",
        "order     " + "\n          ".join(f"round {i + 1}: {row}" for i, row in enumerate(forecast.order)),
        f"time      {forecast.sentence}",
        *_sensitivity_lines(forecast.sensitivity),
        *quality_lines(experiment),
        *(f"! {warning}" for warning in forecast.warnings),
    ]
    return "\n".join(lines)


def _cell(cell: Cell) -> str:
    """The cell's key, with a large level written out: ``chat/r1000000``."""
    return f"{cell.key.removesuffix(f'{cell.level:g}')}{cell.level:.10g}"


def _sensitivity_lines(found: Sequence[Sensitivity]) -> Iterator[str]:
    """A table: each gate's noise, and the changes that its pairs can show."""
    if not found:
        return
    rows = [("", "noise a pair", "tells from none", "proves beyond margin", "proves equivalent", "noise from")]
    for one in found:
        label = METRICS[one.metric].label + (
            "" if one.statistic == METRICS[one.metric].statistics[0] else f" {one.statistic}"
        )
        pairs = "no number of pairs" if one.pairs_to_equivalence is None else f"{one.pairs_to_equivalence} pairs"
        effects = [f"from {_effect(value)}" for value in (one.detectable, one.beyond_margin)]
        name = f"{one.cell} {label}" if one.cell else label
        rows.append((name, f"{one.noise * 100:.2g} %", *effects, f"from {pairs}", one.source))  # type: ignore[arg-type]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    yield f"shows     with {found[0].pairs} pairs, 4 times in 5:"
    for row in rows:
        yield "          " + "   ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()


def _effect(value: float | None) -> str:
    return "nothing" if value is None else change(1 + value).lstrip("+")
