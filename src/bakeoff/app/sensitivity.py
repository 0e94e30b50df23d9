"""What a run could show, said before it begins: for every gate its noise, and the effect that the budget can detect."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from ..compare.targets import Target, all_targets
from ..model import Experiment
from ..stats import power
from ..stats.multiplicity import bonferroni_level
from ..stats.outcome import log_margin
from .earlier import EarlierRuns

#: Pair noise that is assumed where nothing was measured: √(floor² + scatter²/requests), in log, by statistic. The floor
#: is what starts and the machine's wandering leave in a pair; the scatter is that of the requests. On a quiet machine
#: of one's own it is half of this, on a shared one a multiple.
ASSUMED = {"p50": (0.02, 0.35), "mean": (0.02, 0.40), "p95": (0.02, 1.1), "p99": (0.02, 3.5), "total": (0.02, 0.25)}
#: Of what is measured once a start: start-up times, and memory.
ASSUMED_START = {"start": 0.05, "memory": 0.005}
_REQUESTS = 60  # of a block that is measured by time in a closed loop


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """What one gate can show with the budget. Effects are relative; None where no number of pairs shows anything."""

    cell: str | None  # Cell.key; None: per server start
    metric: str
    statistic: str
    margin: float
    noise: float  # standard deviation of a pair's log ratio
    source: str  # where the noise comes from
    pairs: int  # replicates that the budget allows
    detectable: float | None  # a change that is told from none with 80 %
    beyond_margin: float | None  # a change that is proven to lie beyond the margin with 80 %
    pairs_to_equivalence: int | None  # if there is no difference at all


def sensitivities(experiment: Experiment, root: Path, rounds: int) -> tuple[Sensitivity, ...]:
    """One entry a gate and cell (candidates share it). rounds: those that the budget allows."""
    gates = [target for target in all_targets(experiment) if target.gate]
    alpha = bonferroni_level(1 - experiment.confidence, len(gates))
    earlier = EarlierRuns(experiment, root)
    found: dict[tuple[str | None, str, str], Sensitivity] = {}
    for target in gates:
        key = (target.cell.key if target.cell else None, target.metric.name, target.statistic)
        if key not in found:
            noise, source = _noise(experiment, target, earlier)
            found[key] = _sensitivity(experiment, target, (noise, source), rounds, alpha)
    return tuple(found.values())


def _sensitivity(
    experiment: Experiment, target: Target, noise: tuple[float, str], rounds: int, alpha: float
) -> Sensitivity:
    margin = experiment.margin_of(target.metric.name)
    n = rounds // max(1, experiment.start_every)
    least = power.minimum_detectable(noise[0], n, alpha, experiment.method)
    again = power.pairs_to_decide(0.0, noise[0], alpha, log_margin(margin), experiment.method)
    return Sensitivity(
        cell=target.cell.key if target.cell else None,
        metric=target.metric.name,
        statistic=target.statistic,
        margin=margin,
        noise=noise[0],
        source=noise[1],
        pairs=n,
        detectable=None if least is None or least > 5 else math.expm1(least),
        beyond_margin=None if least is None or least > 5 else math.expm1(least + log_margin(margin)),
        pairs_to_equivalence=None if again is None else again * max(1, experiment.start_every),
    )


def _noise(experiment: Experiment, target: Target, earlier: EarlierRuns) -> tuple[float, str]:
    """The noise of a gate and where it was taken from; assumed where no earlier run tells it."""
    return earlier.noise(target) or (assumed(experiment, target), "assumed")


def assumed(experiment: Experiment, target: Target) -> float:
    """Standard deviation of a pair's log ratio where nothing was measured."""
    if target.cell is None:
        return ASSUMED_START["memory" if target.metric.kind == "memory" else "start"]
    block = experiment.workload(target.cell.workload).block
    requests: float = block.requests or _REQUESTS
    if block.seconds is not None and target.cell.kind == "open":
        requests = max(1.0, block.seconds * target.cell.level)
    floor, scatter = ASSUMED.get(target.statistic, ASSUMED["mean"])
    return math.sqrt(floor**2 + scatter**2 / requests)
