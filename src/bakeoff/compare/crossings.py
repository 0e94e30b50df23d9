"""Where a candidate and the base change places: along the load of one workload, or along a length in which several
workloads differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import msgspec
import numpy as np

from ..metrics import METRICS
from ..model import LOAD_NAMES, Cell, Comparison, Crossing, Experiment, Interval, Workload
from ..stats.crossover import Crossover, crossover
from .pairs import Grid

Axis = Literal["concurrency", "rate", "replay", "input_tokens", "output_tokens"]
_TASK = ("e2e_latency_s", "p50")


@dataclass(frozen=True, kw_only=True)
class Line:
    """Cells that differ in one quantity alone. `cells` by rising level."""

    axis: Axis
    cells: tuple[tuple[float, Cell], ...]

    @property
    def load(self) -> dict[str, float]:
        """The load that all share, where the axis is a length."""
        return self.cells[0][1].load if self.axis in ("input_tokens", "output_tokens") else {}


def lines_of(experiment: Experiment) -> tuple[Line, ...]:
    """Every line of two cells or more along which something could cross."""
    return tuple(line for line in (*_along_load(experiment), *_along_lengths(experiment)) if len(line.cells) >= 2)


def _along_load(experiment: Experiment) -> Iterator[Line]:
    for workload in experiment.workloads:
        levels = sorted(set(workload.load.levels))
        axis: Axis = LOAD_NAMES[workload.load.kind]  # type: ignore[assignment]  # its values are these words
        kind = workload.load.kind
        cells = tuple((level, Cell(workload=workload.name, kind=kind, level=level)) for level in levels)
        yield Line(axis=axis, cells=cells)


def _along_lengths(experiment: Experiment) -> Iterator[Line]:
    """Workloads that are alike but for their name, the size of their blocks and one length."""
    axes: tuple[Axis, ...] = ("input_tokens", "output_tokens")
    for axis in axes:
        alike: dict[bytes, dict[float, Workload]] = defaultdict(dict)
        for workload in experiment.workloads:
            length = workload.prompts.input_tokens if axis == "input_tokens" else workload.output_tokens
            if length:
                alike[_rest(workload, axis)].setdefault(float(length), workload)
        for group in alike.values():
            shared = [set(workload.load.levels) for workload in group.values()]
            for level in sorted(set.intersection(*shared)):
                cells = tuple(
                    (length, Cell(workload=w.name, kind=w.load.kind, level=level))
                    for length, w in sorted(group.items())
                )
                yield Line(axis=axis, cells=cells)


def _rest(workload: Workload, axis: str) -> bytes:
    """All of a workload but its name, block size, levels and the length in question."""
    replace = msgspec.structs.replace
    same = replace(workload, name="", block=replace(workload.block, requests=1, seconds=None), slo={})
    same = replace(same, load=replace(same.load, levels=()))
    if axis == "input_tokens":
        same = replace(same, prompts=replace(same.prompts, input_tokens=None, seed=0))
    else:
        same = replace(same, output_tokens=0, prompts=replace(same.prompts, seed=0))
    return msgspec.json.encode(same)


def find_crossings(experiment: Experiment, grid: Grid, rows: Sequence[Comparison]) -> tuple[Crossing, ...]:
    """Every candidate along every line, for the gates and for the typical task, on the rounds that all levels have.

    Rows that are invalid have no place on a line. Several machines are not told apart here.
    """
    found: list[Crossing] = []
    for line in lines_of(experiment):
        keys = [(cell.workload, cell.load) for _, cell in line.cells]
        for candidate in experiment.candidates:
            mine = [r for r in rows if r.candidate == candidate.name and (r.workload, r.load) in keys]
            named = dict.fromkeys((r.metric, r.statistic) for r in mine if r.gate or (r.metric, r.statistic) == _TASK)
            for metric, statistic in named:
                valid = [
                    (level, cell)
                    for level, cell in line.cells
                    if any(
                        (r.workload, r.load, r.metric, r.statistic) == (cell.workload, cell.load, metric, statistic)
                        and r.outcome != "invalid"
                        for r in mine
                    )
                ]
                if len(valid) >= 2:
                    found += _crossing(grid, line, valid, candidate.name, (metric, statistic))
    return tuple(found)


def _crossing(
    grid: Grid, line: Line, cells: Sequence[tuple[float, Cell]], candidate: str, what: tuple[str, str]
) -> Iterator[Crossing]:
    experiment, metric = grid.experiment, METRICS[what[0]]
    base = experiment.base.name
    series = [grid.series(base, candidate, cell.key, metric, what[1]) for _, cell in cells]
    common = reduce(np.intersect1d, [np.array(s.keys, dtype=np.int64) for s in series])
    logs = [s.logs[np.isin(np.array(s.keys, dtype=np.int64), common)] for s in series]
    levels = tuple(level for level, _ in cells)
    if common.size < 2:
        return
    result = crossover(levels, logs, alpha=1 - experiment.confidence, method=experiment.method)
    good = -1 if metric.better == "lower" else 1
    for at, below in _places(result, good):
        yield Crossing(
            candidate=candidate,
            axis=line.axis,
            workloads=tuple(dict.fromkeys(cell.workload for _, cell in cells)),
            load=line.load,
            metric=metric.name,
            statistic=what[1],
            levels=levels,
            status=result.status if at.point is None else "crosses",
            at=at,
            better_below=below,
            confidence=experiment.confidence,
        )


def _places(result: Crossover, good: int) -> Iterator[tuple[Interval, bool | None]]:
    """(where, whether the candidate is the better one below it). good: the sign of a better log ratio."""
    for crossing in result.crossings:
        yield Interval(point=crossing.point, low=crossing.low, high=crossing.high), crossing.rising == (good < 0)
    if not result.crossings:
        yield Interval(point=None), result.sign == good if result.sign else None
