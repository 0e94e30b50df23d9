"""How much load each arm bears, where the load levels were searched: the highest rate held, or the peak throughput.

Every round has one value an arm, computed from all of its levels; rounds (or starts) are the replicates, as for any
other metric. Probe blocks are not used: their levels were chosen by what they showed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..metrics import METRICS
from ..model import Caution, Cell, Edge, Experiment, Interval, Workload
from ..stats import anytime, outcome, paired
from .edge_peak import Climb, climb
from .extract import Requests
from .inference import looked_at, one_look, watched
from .pairs import Grid, Series
from .rows import ratio_of
from .targets import Target

Floats = NDArray[np.float64]
Beyond = Literal["", "below", "above"]


class Held(NamedTuple):
    """One round's edge of one arm. beyond: it lies outside the levels measured, on that side of `level`."""

    level: float
    beyond: Beyond = ""


class _Round(NamedTuple):
    number: int
    group: int
    base: Held
    other: Held


def find_edges(experiment: Experiment, grid: Grid, cautions: Sequence[tuple[Caution, Target]] = ()) -> tuple[Edge, ...]:
    """One edge for every searched workload and candidate with a whole round. cautions: what makes which row invalid."""
    found: list[Edge] = []
    for workload in experiment.workloads:
        if workload.load.search is None or not workload.load.levels:
            continue
        for candidate in experiment.candidates:
            rounds, climbs = _rounds(experiment, grid, workload, candidate.name)
            if rounds:
                found.append(_edge(experiment, workload, candidate.name, (rounds, climbs), grid.strata))
                touching = [
                    caution
                    for caution, target in cautions
                    if target.candidate == candidate.name
                    and target.cell is not None
                    and target.cell.workload == workload.name
                    and target.metric.name == _metric(workload)
                ]
                if touching:
                    found[-1] = _invalid(found[-1], touching[0])
    return tuple(found)


def _metric(workload: Workload) -> str:
    finding = workload.load.search is not None and workload.load.search.kind == "find"
    return "goodput_rps" if finding else "request_throughput_rps"


def _rounds(
    experiment: Experiment, grid: Grid, workload: Workload, candidate: str
) -> tuple[list[_Round], dict[str, Climb]]:
    """Rounds in which both arms were measured at every level; of a sweep, by arm, what the highest level adds."""
    cells = _cells(workload)
    levels = [cell.level for cell in cells]
    names = (experiment.base.name, candidate)
    arms = [[{r.block.round: r for r in grid.arm(name, cell.key)} for cell in cells] for name in names]
    found, climbs = [], dict[str, Climb]()
    numbers = sorted(set.intersection(*(set(level) for arm in arms for level in arm)))
    if workload.load.search is not None and workload.load.search.kind == "sweep":
        for name, arm in zip(names, arms, strict=True):
            if (last := climb(experiment, cells, [[level[n] for level in arm] for n in numbers])) is not None:
                climbs[name] = last
    for number in numbers:
        base, other = ([level[number] for level in arm] for arm in arms)
        held = [
            _held(workload, levels, blocks, name not in climbs or climbs[name].rising)
            for name, blocks in zip(names, (base, other), strict=True)
        ]
        if all(math.isfinite(one.level) and one.level > 0 for one in held):
            found.append(_Round(number, base[0].block.group, held[0], held[1]))
    return found, climbs


def _cells(workload: Workload) -> list[Cell]:
    return [Cell(workload=workload.name, kind=workload.load.kind, level=x) for x in sorted(set(workload.load.levels))]


def _held(workload: Workload, levels: Sequence[float], blocks: Sequence[Requests], rising: bool) -> Held:
    """rising: whether this arm's throughput still rises at the highest level."""
    search = workload.load.search
    if search is None or search.kind == "sweep":
        peaks = [r.per_block["request_throughput_rps"] for r in blocks]
        return Held(max((p for p in peaks if math.isfinite(p)), default=math.nan), "above" if rising else "")
    met = [_met(r, workload.slo) for r in blocks]
    return held_rate(levels, [share for share, _ in met], [count for _, count in met], search.attainment)


def _met(requests: Requests, slo: Mapping[str, float]) -> tuple[float, int]:
    """(share of the requests sent that met every limit, how many were sent). A failed one met none."""
    good = requests.ok.copy()
    for name, limit in slo.items():
        if name in requests.values:
            values = requests.values[name]
            good &= np.isnan(values) | (values <= limit)
    return float(good.mean()), good.size


def held_rate(levels: Sequence[float], shares: Sequence[float], counts: Sequence[int], wanted: float) -> Held:
    """The rate up to which a share of `wanted` is held. levels: rising; shares and counts of requests: at each level.

    More load never helps, so the shares are first made to fall (isotonic regression, weighted by requests): one
    unlucky block at a low rate would else hide what higher ones show. Between the last level that holds and the next
    one the share is taken as linear in the logarithm of the rate.
    """
    falling = _falling(shares, counts)
    holds = [share >= wanted for share in falling]
    last = sum(holds) - 1
    if last < 0:
        return Held(levels[0], "below")
    if last == len(levels) - 1:
        return Held(levels[-1], "above")
    part = (falling[last] - wanted) / (falling[last] - falling[last + 1])
    low, high = math.log(levels[last]), math.log(levels[last + 1])
    return Held(math.exp(low + part * (high - low)))


def _falling(shares: Sequence[float], weights: Sequence[int]) -> list[float]:
    """Non-increasing fit by pooling adjacent violators (Ayer and others 1955)."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for share, weight in zip(shares, weights, strict=True):
        pools.append((share, float(weight), 1))
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            (a, m, i), (b, n, j) = pools[-2:]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n, i + j)]
    return [mean for mean, _, members in pools for _ in range(members)]


def _edge(
    experiment: Experiment,
    workload: Workload,
    candidate: str,
    measured: tuple[Sequence[_Round], Mapping[str, Climb]],
    strata: Mapping[int, int] | None,
) -> Edge:
    (rounds, climbs), search, cells = measured, workload.load.search, _cells(workload)
    finding = search is not None and search.kind == "find"
    target = Target(candidate, cells[0], METRICS[_metric(workload)], "total", False)
    series, used = _series(experiment, rounds, strata)
    alpha = 1 - experiment.confidence
    if experiment.method == "fixed":
        claim = looked_at(experiment, target, one_look(target, series), (alpha, alpha, alpha))
    else:
        claim = watched(experiment, target, series, alpha)
    low_holds = all(r.base.beyond in ("", "below") and r.other.beyond in ("", "above") for r in used)
    high_holds = all(r.base.beyond in ("", "above") and r.other.beyond in ("", "below") for r in used)
    interval = _cut(claim.interval, low_holds, high_holds)
    judged = outcome.judge(
        interval,
        margin=experiment.margin_of(target.metric.name),
        better=target.metric.better,
        time_like=target.metric.time_like,
    )
    word = claim.judged.outcome if low_holds and high_holds else judged.outcome
    return Edge(
        candidate=candidate,
        workload=workload.name,
        kind="rate held" if finding else "peak throughput",
        unit="1/s",
        axis="rate" if workload.load.kind == "open" else "concurrency",
        levels=tuple(cell.level for cell in cells),
        attainment=search.attainment if finding and search is not None else None,
        base=_level(experiment, series.base, [r.base for r in used]),
        value=_level(experiment, series.other, [r.other for r in used]),
        ratio=ratio_of(interval, experiment.confidence),
        outcome=word,
        rounds=len(used),
        reason=_reason(experiment, workload, candidate, used, word, climbs),
        method=_METHODS["find" if finding else "sweep"],
    )


_METHODS = {
    "find": "share meeting the limits at each level of a round, made falling, interpolated in log rate; log ratio of "
    "the edges, per pair of rounds; exploration",
    "sweep": "highest throughput of a round's levels; log ratio per pair of rounds; exploration",
}


def _series(
    experiment: Experiment, rounds: Sequence[_Round], strata: Mapping[int, int] | None
) -> tuple[Series, list[_Round]]:
    """The log ratios by replicate, and the rounds in them: those that share a start are averaged, whole groups only."""
    size = experiment.start_every
    groups: dict[int, list[_Round]] = {}
    for one in rounds:
        groups.setdefault(one.group if size >= 2 else one.number, []).append(one)
    newest = max(groups)
    whole = {k: v for k, v in groups.items() if size < 2 or len(v) >= size or k != newest}
    base = np.array([np.mean([math.log(r.base.level) for r in v]) for v in whole.values()], dtype=np.float64)
    other = np.array([np.mean([math.log(r.other.level) for r in v]) for v in whole.values()], dtype=np.float64)
    labels = np.array([strata.get(v[0].number, 0) if strata else 0 for v in whole.values()], dtype=np.int64)
    used = [r for v in whole.values() for r in v]
    series = Series(
        keys=tuple(whole),
        logs=other - base,
        base=np.exp(base),
        other=np.exp(other),
        per_round=np.array([math.log(r.other.level / r.base.level) for r in used], dtype=np.float64),
        rounds=len(used),
        waiting=len(rounds) - len(used),
        undefined=0,
        strata=labels if len(set(labels.tolist())) > 1 else None,
    )
    return series, used


def _cut(interval: Interval, low_holds: bool, high_holds: bool) -> Interval:
    """Without the bounds that edges outside the levels leave open."""
    return Interval(
        point=interval.point,
        low=interval.low if low_holds else None,
        high=interval.high if high_holds else None,
    )


def _level(experiment: Experiment, values: Floats, held: Sequence[Held]) -> Interval:
    """The typical edge of one arm with its interval over the replicates (geometric mean)."""
    alpha = 1 - experiment.confidence
    logs = np.log(values)
    found = anytime.interval(logs, alpha) if experiment.method == "anytime" else paired.t_interval(logs, alpha)
    sides = {one.beyond for one in held}
    low = None if found.low is None or "below" in sides else math.exp(found.low)
    high = None if found.high is None or "above" in sides else math.exp(found.high)
    return Interval(point=None if found.point is None else math.exp(found.point), low=low, high=high)


def _reason(
    experiment: Experiment,
    workload: Workload,
    candidate: str,
    used: Sequence[_Round],
    word: str,
    climbs: Mapping[str, Climb],
) -> str | None:
    told = []
    high = workload.load.search.high if workload.load.search is not None else math.inf
    for name, arm in ((experiment.base.name, [r.base for r in used]), (candidate, [r.other for r in used])):
        above, below = (sum(one.beyond == side for one in arm) for side in ("above", "below"))
        if above and name in climbs:
            told.append(climbs[name].sentence(name, high))
        elif above and workload.load.search is not None and workload.load.search.kind == "sweep":
            told.append(f"{name} was measured at one level only")
        elif above:
            told.append(f"{name} held even the highest level in {above} of {len(used)} rounds")
        if below:
            told.append(f"{name} did not hold even the lowest level in {below} of {len(used)} rounds")
    if told:
        return "; ".join(told)
    if word in outcome.DECIDED:
        return None
    return "too few rounds for an interval" if len(used) < 2 else "the rounds do not tell yet"


def _invalid(edge: Edge, caution: Caution) -> Edge:
    return msgspec.structs.replace(edge, outcome="invalid", reason=f"{caution.message}; {caution.remedy}")
