"""Pairs: two variants in one cell of one round; and the series of their log ratios.

The replicates of a comparison are server *starts*. Rounds that share a start are averaged first, and only whole
start groups enter, because the rounds of one start share that start's luck (memory layout, placement, caches).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..metrics import Metric
from ..model import BlockData, BlockKind, Experiment
from ..stats import steady
from ..stats.estimators import block_mean, block_quantile, log_ratio, paired_prompt_log_ratio
from ..stats.fixed import Pooled
from ..stats.quantiles import pooled_quantile
from ..stats.strata import aligned
from .extract import Floats, Ints, Requests, extract

#: Requests that a block needs before a tail quantile of it means something: about ten beyond the quantile.
TAIL_REQUESTS = {"p95": 200, "p99": 1000}
#: Pairs that the bootstrap of a pooled quantile needs to say anything about its error.
POOLED_REPLICATES = 6
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Pair(NamedTuple):
    """Base and other in one cell of one round."""

    round: int
    group: int
    base: Requests
    other: Requests


@dataclass(frozen=True, kw_only=True)
class Series:
    """The log ratios other ÷ base of one metric, replicate by replicate."""

    keys: tuple[int, ...]  # replicate: the round, or the start group
    logs: Floats  # shape (replicates,)
    base: Floats  # the base's value per replicate, in the metric's unit
    other: Floats
    per_round: Floats  # log ratio of every round that has one, whole group or not
    rounds: int  # rounds in `logs`
    waiting: int  # rounds of an unfinished start group, left out
    undefined: int  # rounds whose value is undefined in one arm
    strata: Ints | None = None  # the machine of each replicate, where there are several
    pooled: Pooled | None = None  # a tail quantile of all pairs together, where blocks are too small (fixed n)
    smallest: int | None = None  # completed requests of the smallest block, where that is too small for the quantile


class Grid:
    """All measured blocks of a run by variant, cell, kind and round, each extracted once. Probe blocks are left out.

    strata: round → machine, where rounds of several machines are merged.
    """

    def __init__(
        self, experiment: Experiment, blocks: Sequence[BlockData], strata: Mapping[int, int] | None = None
    ) -> None:
        self.experiment = experiment
        self.strata = strata
        names = {variant.name for variant in experiment.variants}
        workloads = {workload.name for workload in experiment.workloads}
        self._places: dict[tuple[str, str, BlockKind], dict[int, Requests]] = {}
        self.repeated: dict[str, int] = {}  # cell → blocks that a later one of the same place replaces
        for data in sorted(blocks, key=lambda b: b.block.id):  # a repeated block replaces the earlier one
            block = data.block
            name = block.cell.rpartition("/")[0]
            if block.kind != "probe" and block.variant in names and name in workloads and len(data):
                place = self._places.setdefault((block.variant, block.cell, block.kind), {})
                if block.round in place:
                    self.repeated[block.cell] = self.repeated.get(block.cell, 0) + 1
                workload = experiment.workload(name)
                price = experiment.variant(block.variant).price
                place[block.round] = extract(data, slo=workload.slo, price=price)

    def arm(self, variant: str, cell: str, kind: BlockKind = "measure") -> list[Requests]:
        """One variant's blocks in one cell, by round."""
        return [requests for _, requests in sorted(self._places.get((variant, cell, kind), {}).items())]

    def pairs(self, base: str, other: str, cell: str) -> list[Pair]:
        """Measured pairs of two variants, by round."""
        return self._join((base, cell, "measure"), (other, cell, "measure"))

    def aa_pairs(self, cell: str) -> list[Pair]:
        """Base against its second visit in the same round."""
        name = self.experiment.base.name
        return self._join((name, cell, "measure"), (name, cell, "aa"))

    def _join(self, first: tuple[str, str, BlockKind], second: tuple[str, str, BlockKind]) -> list[Pair]:
        a, b = self._places.get(first, {}), self._places.get(second, {})
        return [Pair(r, b[r].block.group, a[r], b[r]) for r in sorted(a.keys() & b.keys())]

    def rounds(self) -> int:
        """Rounds with at least one pair."""
        base = self.experiment.base.name
        found = {
            pair.round
            for cell in self.experiment.cells()
            for candidate in self.experiment.candidates
            for pair in self.pairs(base, candidate.name, cell.key)
        }
        return len(found)

    def series(self, base: str, other: str, cell: str, metric: Metric, statistic: str) -> Series:
        """The pair series of one metric."""
        asked = self.experiment
        pairs = self.pairs(base, other, cell)
        series = make_series(pairs, metric, statistic, asked.start_every, self.strata)
        if series.smallest is None or asked.method != "fixed" or self.strata is not None:
            return series
        return _pooled(series, pairs, metric, statistic, asked.start_every)


def make_series(
    pairs: Sequence[Pair], metric: Metric, statistic: str, start_every: int, strata: Mapping[int, int] | None = None
) -> Series:
    """Pairs to log ratios per replicate. start_every: rounds that share one start (0 and 1: every round counts).

    A tail quantile is defined only where every block is large enough: leaving the small ones out would select.
    """
    smallest = _too_small(pairs, metric, statistic)
    if smallest is not None:
        logs = base = other = np.full(len(pairs), np.nan)
    else:
        logs = np.array([pair_log_ratio(pair, metric, statistic) for pair in pairs], dtype=np.float64)
        base = np.array([block_value(pair.base, metric, statistic) for pair in pairs], dtype=np.float64)
        other = np.array([block_value(pair.other, metric, statistic) for pair in pairs], dtype=np.float64)
    usable = np.isfinite(logs)
    keys: list[int] = []
    means: list[tuple[float, float, float]] = []
    labels: list[int] = []
    used = 0
    whole, waiting = _replicates(pairs, start_every)
    for key, members in whole:
        good = members[usable[members]]
        if good.size:
            keys.append(key)
            used += good.size
            means.append((float(logs[good].mean()), geometric_mean(base[good]), geometric_mean(other[good])))
            labels.append(strata.get(pairs[int(good[0])].round, 0) if strata else 0)
    columns = np.array(means, dtype=np.float64).reshape(-1, 3)
    return Series(
        keys=tuple(keys),
        logs=columns[:, 0],
        base=columns[:, 1],
        other=columns[:, 2],
        per_round=logs[usable],
        rounds=used,
        waiting=waiting,
        undefined=int((~usable).sum()),
        strata=np.array(labels, dtype=np.int64) if strata and len(set(labels)) > 1 else None,
        smallest=smallest,
    )


def _replicates(pairs: Sequence[Pair], start_every: int) -> tuple[list[tuple[int, Ints]], int]:
    """((replicate, its places in `pairs`) for all whole ones, rounds that wait for the rest of their start group).

    A group is whole when all its rounds are in, or when the run has gone on to a later one.
    """
    grouped = start_every >= 2
    replicate = np.array([pair.group if grouped else pair.round for pair in pairs], dtype=np.int64)
    whole: list[tuple[int, Ints]] = []
    waiting = 0
    for key in np.unique(replicate):
        members = np.flatnonzero(replicate == key)
        if grouped and members.size < start_every and key == replicate.max():
            waiting = members.size
        else:
            whole.append((int(key), members))
    return whole, waiting


def _too_small(pairs: Sequence[Pair], metric: Metric, statistic: str) -> int | None:
    """Completed requests of the smallest block, if that is too small for this quantile."""
    least = TAIL_REQUESTS.get(statistic, 0) if metric.scope == "request" else 0
    smallest = min((min(p.base.completed, p.other.completed) for p in pairs), default=least)
    return smallest if smallest < least else None


def _pooled(series: Series, pairs: Sequence[Pair], metric: Metric, statistic: str, start_every: int) -> Series:
    """The series with the quantile of all pairs together, resampled by replicate; as it was where they are too few."""
    whole = [members for _, members in _replicates(pairs, start_every)[0]]
    used = [pairs[i] for members in whole for i in members]
    completed = min(sum(p.base.completed for p in used), sum(p.other.completed for p in used))
    if completed < TAIL_REQUESTS[statistic] or len(whole) < POOLED_REPLICATES:
        return series
    q = _QUANTILES[statistic]
    base = [np.concatenate([_values(pairs[i].base, metric) for i in members]) for members in whole]
    other = [np.concatenate([_values(pairs[i].other, metric) for i in members]) for members in whole]
    return replace(
        series,
        base=np.array([block_quantile(np.concatenate(base), q)]),
        other=np.array([block_quantile(np.concatenate(other), q)]),
        rounds=len(used),
        pooled=pooled_quantile(base, other, q),
    )


def pair_log_ratio(pair: Pair, metric: Metric, statistic: str) -> float:
    """ln(other ÷ base) of one pair: paired prompts for the typical request, block values for all else."""
    if statistic == "p50" and metric.name in pair.base.values:
        return paired_prompt_log_ratio(
            pair.base.prompt_id, pair.base.values[metric.name], pair.other.prompt_id, pair.other.values[metric.name]
        )
    return log_ratio(block_value(pair.other, metric, statistic), block_value(pair.base, metric, statistic))


def block_value(requests: Requests, metric: Metric, statistic: str) -> float:
    """One metric of one block, in the metric's unit; NaN where undefined or where a tail has too few requests."""
    if metric.scope == "block":
        return requests.per_block[metric.name]
    values = _values(requests, metric)
    if statistic == "mean":
        return block_mean(values)
    if requests.completed < TAIL_REQUESTS.get(statistic, 0):
        return math.nan
    return block_quantile(values, _QUANTILES[statistic])


def _values(requests: Requests, metric: Metric) -> Floats:
    return requests.itl_s if metric.name == "itl_s" else requests.values[metric.name]


def geometric_mean(values: Floats) -> float:
    """exp of the mean log of positive values; NaN where one is missing or not positive."""
    if values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
        return math.nan
    return float(np.exp(np.log(values).mean()))


def stray(series: Series, margin: float) -> tuple[int, ...]:
    """Places of replicates that stand apart from the rest: beyond chance, and by more than half the margin."""
    residuals = aligned(series.logs, series.strata)
    if not residuals.size:
        return ()
    away = np.abs(residuals - np.median(residuals))
    return tuple(i for i in steady.outliers(residuals) if away[i] > math.log1p(margin) / 2)


def joined(pairs: Sequence[Pair], column: str) -> tuple[Floats, Floats]:
    """One numeric column of both arms, prompt by prompt over all pairs (requests that succeeded in both)."""
    left: list[Floats] = [np.zeros(0)]
    right: list[Floats] = [np.zeros(0)]
    for pair in pairs:
        _, i, j = np.intersect1d(pair.base.prompt_id, pair.other.prompt_id, return_indices=True)
        a, b = pair.base.numbers(column)[i], pair.other.numbers(column)[j]
        good = np.isfinite(a) & np.isfinite(b)
        left.append(a[good])
        right.append(b[good])
    return np.concatenate(left), np.concatenate(right)
