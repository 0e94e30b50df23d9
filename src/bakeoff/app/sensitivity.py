"""What a run could show, said before it begins: for every gate its noise, and the effect that the budget can detect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from .. import __version__
from ..compare.pairs import Grid
from ..compare.targets import Target, all_targets
from ..errors import BakeoffError
from ..measure.environment import machine_fingerprint
from ..metrics import METRICS
from ..model import Experiment, Workload
from ..runs import RunFolder
from ..stats import power
from ..stats.multiplicity import bonferroni_level
from ..stats.outcome import log_margin

_LOOK_BACK = 30  # newest runs whose heads are read
_LEAST_PAIRS = 4  # of an earlier run, to take noise from
# What makes two machines (or two days of one) different for timing. Versions of Python or of Bakeoff do not.
_MACHINE = ("os", "machine", "cpu", "cores usable", "governor")

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


class Noise(NamedTuple):
    """Standard deviations of a pair, by (cell, metric, statistic), of one earlier run."""

    run: str
    workloads: Mapping[str, Workload]
    by_gate: Mapping[tuple[str | None, str, str], float]


def sensitivities(experiment: Experiment, root: Path, rounds: int) -> tuple[Sensitivity, ...]:
    """One entry a gate and cell (candidates share it). rounds: those that the budget allows."""
    gates = [target for target in all_targets(experiment) if target.gate]
    alpha = bonferroni_level(1 - experiment.confidence, len(gates))
    earlier = list(_earlier(experiment, root))
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


def _noise(experiment: Experiment, target: Target, earlier: list[Noise]) -> tuple[float, str]:
    """The noise of a gate and where it was taken from: the same cell, else another one of the same engines, else
    assumed."""
    what = (target.metric.name, target.statistic)
    if target.cell is not None:
        asked = _traffic(experiment.workload(target.cell.workload))
        for noise in earlier:
            for (cell, *rest), sd in noise.by_gate.items():
                name, _, load = (cell or "").rpartition("/")
                same = cell is not None and tuple(rest) == what and load == target.cell.key.rpartition("/")[2]
                if same and _traffic(noise.workloads[name]) == asked:
                    return sd, f"{noise.run}, this cell"
    for noise in earlier:
        others = sorted(sd for (cell, *rest), sd in noise.by_gate.items() if tuple(rest) == what)
        if others:
            return others[len(others) // 2], f"{noise.run}, another cell" if target.cell is not None else noise.run
    return assumed(experiment, target), "assumed"


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


def _traffic(workload: Workload) -> bytes:
    """What of a workload decides its noise: all but its name and its load levels."""
    load = msgspec.structs.replace(workload.load, levels=())
    return msgspec.json.encode(msgspec.structs.replace(workload, name="", load=load))


def _earlier(experiment: Experiment, root: Path) -> Iterator[Noise]:
    """Noise of earlier runs under `root` on this machine with these engines, newest first; three at most are read."""
    heads = sorted(root.glob("*/run.json"), reverse=True)[:_LOOK_BACK] if root.is_dir() else []
    here = _same_machine(machine_fingerprint(__version__)) if heads else {}
    engines = {variant.engine for variant in experiment.variants}
    read = 0
    for head in heads:
        try:
            folder = RunFolder.open(head.parent)
            info = folder.info
            if (
                _same_machine(info.environment.machine) != here
                or {v.engine for v in info.experiment.variants} != engines
            ):
                continue
            noise = _measured(folder)
        except BakeoffError:
            continue
        if noise is not None:
            yield noise
            read += 1
        if read == 3:
            return


def _same_machine(fingerprint: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in fingerprint.items() if key in _MACHINE or key.startswith("gpu ")}


def _measured(folder: RunFolder) -> Noise | None:
    asked = folder.info.experiment
    grid = Grid(asked, folder.blocks(skip_broken=True))
    if grid.rounds() < _LEAST_PAIRS:
        return None
    found: dict[tuple[str | None, str, str], float] = {}
    base = asked.base.name
    for cell in asked.cells():
        for metric in METRICS.values():
            for statistic in metric.statistics if metric.scope != "start" else ():
                series = [grid.series(base, c.name, cell.key, metric, statistic) for c in asked.candidates]
                sd, freedom = power.pooled_sd([s.logs for s in series])
                if freedom >= _LEAST_PAIRS - 1 and sd > 0:
                    found[cell.key, metric.name, statistic] = sd
    return Noise(run=folder.info.id, workloads={w.name: w for w in asked.workloads}, by_gate=found)
