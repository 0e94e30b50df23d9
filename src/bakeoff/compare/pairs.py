"""Pairs: two variants in one cell of one round; and the series of their log ratios.

The replicates of a comparison are server *starts*. Rounds that share a start are averaged first, and only whole
start groups enter, because the rounds of one start share that start's luck (memory layout, placement, caches).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..metrics import Metric
from ..model import BlockData, BlockKind, Experiment
from ..stats.estimators import block_mean, block_quantile, log_ratio, paired_prompt_log_ratio
from .extract import Floats, Requests, extract

#: Requests that a block needs before a tail quantile of it means something: about ten beyond the quantile.
TAIL_REQUESTS = {"p95": 200, "p99": 1000}
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


class Grid:
    """All blocks of a run by variant, cell, kind and round, each extracted once."""

    def __init__(self, experiment: Experiment, blocks: Sequence[BlockData]) -> None:
        self.experiment = experiment
        names = {variant.name for variant in experiment.variants}
        self._places: dict[tuple[str, str, BlockKind], dict[int, Requests]] = {}
        self.repeated: dict[str, int] = {}  # cell → blocks that a later one of the same place replaces
        for data in sorted(blocks, key=lambda b: b.block.id):  # a repeated block replaces the earlier one
            block = data.block
            if block.variant in names and len(data):
                place = self._places.setdefault((block.variant, block.cell, block.kind), {})
                if block.round in place:
                    self.repeated[block.cell] = self.repeated.get(block.cell, 0) + 1
                workload = experiment.workload(block.cell.rpartition("/")[0])
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
        return make_series(self.pairs(base, other, cell), metric, statistic, self.experiment.start_every)


def make_series(pairs: Sequence[Pair], metric: Metric, statistic: str, start_every: int) -> Series:
    """Pairs to log ratios per replicate. start_every: rounds that share one start (0 and 1: every round counts)."""
    logs = np.array([pair_log_ratio(pair, metric, statistic) for pair in pairs], dtype=np.float64)
    base = np.array([block_value(pair.base, metric, statistic) for pair in pairs], dtype=np.float64)
    other = np.array([block_value(pair.other, metric, statistic) for pair in pairs], dtype=np.float64)
    usable = np.isfinite(logs)
    grouped = start_every >= 2
    replicate = np.array([pair.group if grouped else pair.round for pair in pairs], dtype=np.int64)
    keys: list[int] = []
    means: list[tuple[float, float, float]] = []
    used = waiting = 0
    for key in np.unique(replicate):
        members = replicate == key
        # A group is whole when all its rounds are in, or when the run has gone on to a later one.
        if grouped and members.sum() < start_every and key == replicate.max():
            waiting = int(members.sum())
            continue
        good = members & usable
        if good.any():
            keys.append(int(key))
            used += int(good.sum())
            means.append((float(logs[good].mean()), geometric_mean(base[good]), geometric_mean(other[good])))
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
    values = requests.itl_s if metric.name == "itl_s" else requests.values[metric.name]
    if statistic == "mean":
        return block_mean(values)
    if requests.completed < TAIL_REQUESTS.get(statistic, 0):
        return math.nan
    return block_quantile(values, _QUANTILES[statistic])


def geometric_mean(values: Floats) -> float:
    """exp of the mean log of positive values; NaN where one is missing or not positive."""
    if values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
        return math.nan
    return float(np.exp(np.log(values).mean()))


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
