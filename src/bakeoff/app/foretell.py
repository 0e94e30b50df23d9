"""How long a run will take, said before it begins: from earlier runs of the same cells where there are any."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..compare.pace import round_seconds
from ..errors import BakeoffError, UsageError
from ..measure.pilot import searches
from ..measure.plan import Plan
from ..model import Caution, Experiment
from ..runs import RunFolder
from .one_setup import one_setup_warnings
from .profiles import profile_warnings
from .quality_size import quality_warnings
from .searching import as_asked, search_warnings, with_levels
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
    rounds: tuple[int, int]  # budget.pairs
    allowed: int  # rounds that the whole budget allows, as far as that is known; at most `rounds[1]`
    limited_by: str | None  # the key that allows no more; None: budget.pairs
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
    allowed, limited_by = _allowed(experiment, round_s, per_round)
    return Forecast(
        sentence=_sentence(experiment, shortest, longest),
        warnings=tuple(_warnings(experiment, allowed, limited_by)),
        round_s=round_s,
        shortest_s=shortest,
        longest_s=longest,
        from_run=found[0] if found else None,
        rounds=(budget.min_pairs, budget.max_pairs),
        allowed=allowed,
        limited_by=limited_by,
        requests_per_round=per_round,
        order=order,
    )


def plan(experiment: Experiment, root: Path) -> Forecast:
    """The forecast with what every gate can show: noise of earlier runs of this machine and engines, or assumed."""
    forecast = foretell(experiment, root)
    return msgspec.structs.replace(forecast, sensitivity=sensitivities(experiment, root, forecast.allowed))


def _allowed(experiment: Experiment, round_s: float | None, per_round: int | None) -> tuple[int, str | None]:
    """Rounds that the budget allows, and the key that allows no more (None: budget.pairs).

    round_s: of an earlier run, else what the schedule takes at least; requests without warm-up: so it is the most.
    """
    budget = experiment.budget
    found: list[tuple[int, str | None]] = [(budget.max_pairs, None)]
    least_s = round_s or shortest_round_s(experiment)
    if budget.seconds is not None and least_s > 0:
        found.append((int(budget.seconds / least_s * (1 + 1e-9)), "budget.minutes"))
    if budget.requests is not None and per_round:
        found.append((budget.requests // per_round, "budget.requests"))
    return min(found, key=lambda one: one[0])


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
            f"one round takes at least {_exactly(least)} by its schedule, and the time budget is "
            f"{_exactly(budget.seconds)}",
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


def _warnings(experiment: Experiment, allowed: int, limited_by: str | None) -> Iterator[str]:
    first, budget = first_decision(experiment), experiment.budget
    if allowed < first:
        # What pairs allow is named where they alone forbid it already.
        key, count = ("budget.pairs", budget.max_pairs) if budget.max_pairs < first else (limited_by, allowed)
        yield f"no gate can be decided: with these gates an interval needs {first} pairs, and {key} allows {count}"
    yield from one_setup_warnings(experiment)
    yield from profile_warnings(experiment)
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
    """A time that is foretold: to a tenth of a minute, or whole seconds."""
    return f"{_plain(value / 60, 1)} min" if value >= 90 else f"{value:.0f} s"


def _exactly(value: float) -> str:
    """A time that was set: nothing of it is rounded away."""
    return f"{_plain(value / 60, 6)} min" if value >= 90 else f"{_plain(value, 6)} s"


def _plain(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".")


def _sentence(experiment: Experiment, shortest: float | None, longest: float | None) -> str:
    budget = experiment.budget
    limit = (
        f"at most {_exactly(budget.seconds)}" if budget.seconds is not None else f"{budget.max_pairs} rounds at most"
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
