"""compare_blocks: raw measurements to a result. A pure function; it can be recomputed at any time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ..metrics import METRICS
from ..model import Answer, BlockData, Caution, Cell, Experiment, QualityNote, Result, Start, TaskTime
from .audit import Bench, audit
from .audit.limits import HIDDEN_GAPS
from .audit.outputs import OutputCheck, check_outputs
from .cost import volume_break_evens
from .crossings import find_crossings
from .edge import find_edges
from .energy import energy_use
from .memory import memory_use
from .pace import round_seconds
from .pairs import Grid, Series
from .resources import start_series
from .rows import Draft, draft_rows, finish, not_yet
from .startup import start_break_evens, start_ups
from .targets import Target, all_targets
from .task_time import task_times


def compare_blocks(
    experiment: Experiment,
    blocks: Sequence[BlockData],
    starts: Sequence[Start],
    *,
    run: str,
    state: Literal["running", "complete", "interrupted", "failed"],
    stop_reason: str | None = None,
    quality_note: str | None = None,
    strata: Mapping[int, int] | None = None,
    answers: Sequence[Answer] = (),
) -> Result:
    """Every candidate against the base: rows, resources, the price of speed, quality notes, the audit's cautions.

    quality_note: why quality cannot be compared here at all; otherwise it counts as not measured. strata: round →
    machine, where rounds of several machines are merged. answers: to quality tasks. Findings and the decision are not
    filled in (see `explain` and `decide`). Raises UsageError for a gate that does not exist.
    """
    grid = Grid(experiment, blocks, strata)
    base = experiment.base.name

    def series_of(target: Target) -> Series:
        if target.cell is None:
            return start_series(starts, base, target.candidate, target.metric, strata)
        return grid.series(base, target.candidate, target.cell.key, target.metric, target.statistic)

    round_s = round_seconds((data.block for data in blocks), starts)
    drafts = _without_clutter(grid, draft_rows(experiment, all_targets(experiment), series_of, round_s))
    bench = Bench(experiment=experiment, grid=grid, starts=tuple(starts), drafts=drafts, complete=state == "complete")
    # Reading all answers takes longer than all else, and decides nothing while the run goes on.
    read = experiment.candidates if state != "running" else ()
    outputs = {c.name: check_outputs(experiment, grid, c.name) for c in read}
    cautions = audit(bench, outputs)
    touching = {i: [c for c in cautions if touches(c, draft.target, base)] for i, draft in enumerate(drafts)}
    rows = finish(experiment, drafts, touching)
    if experiment.method == "fixed" and state == "running":
        rows = tuple(not_yet(experiment, row) for row in rows)
    result = Result(
        run=run,
        name=experiment.name,
        state=state,
        base=base,
        candidates=tuple(c.name for c in experiment.candidates),
        rounds=grid.rounds(),
        stop_reason=stop_reason,
        comparisons=tuple(row for row in rows if row.workload is not None),
        resources=tuple(row for row in rows if row.workload is None),
        quality=tuple(_quality(c.name, outputs.get(c.name), quality_note) for c in experiment.candidates),
        warnings=cautions,
    )
    if state == "running":
        return result
    found = [(caution, drafts[i].target) for i, several in touching.items() for caution in several]
    return msgspec.structs.replace(
        result,
        crossings=find_crossings(experiment, grid, rows),
        edges=find_edges(experiment, grid, found),
        task_times=tuple(_valid(experiment, row, cautions) for row in task_times(experiment, grid, answers)),
        memory=memory_use(experiment, blocks, starts),
        startups=start_ups(experiment, grid, starts),
        energy=energy_use(experiment, grid),
        break_evens=(*start_break_evens(experiment, grid, starts), *volume_break_evens(experiment, grid)),
    )


def touches(caution: Caution, target: Target, base: str) -> bool:
    """Whether a caution makes a row invalid. A fault of the base touches every candidate.

    Rows per start are touched only by cautions that name their metric.
    """
    if caution.severity != "invalid" or caution.variant not in (None, base, target.candidate):
        return False
    if target.cell is None:
        return target.metric.name in caution.metrics
    return caution.cell in (None, target.cell.key) and (not caution.metrics or target.metric.name in caution.metrics)


#: What the machine does to a block, it does to the questions that are asked right after it.
_MACHINE = frozenset({"contention", "steal"})


def _valid(experiment: Experiment, row: TaskTime, cautions: Sequence[Caution]) -> TaskTime:
    """The row, `invalid` where a caution says so of its cell; of questions, where it was busy in every cell."""
    base, metric = experiment.base.name, METRICS["task_time_s"]

    def found(cell: Cell, codes: frozenset[str] | None = None) -> list[Caution]:
        target = Target(row.candidate, cell, metric, "mean", False)
        return [c for c in cautions if (codes is None or c.code in codes) and touches(c, target, base)]

    if row.workload is not None:
        cells = [c for c in experiment.cells() if (c.workload, c.load) == (row.workload, row.load)]
        against = [caution for cell in cells for caution in found(cell)]
    else:
        by_cell = [found(cell, _MACHINE) for cell in experiment.cells()]
        against = [caution for several in by_cell for caution in several] if all(by_cell) else []
    if not against:
        return row
    reason = "; ".join(dict.fromkeys(caution.message for caution in against))
    solved = None if row.solved_outcome is None else "invalid"
    return msgspec.structs.replace(row, outcome="invalid", solved_outcome=solved, reason=reason)


def _without_clutter(grid: Grid, drafts: tuple[Draft, ...]) -> tuple[Draft, ...]:
    """Leaves out exploratory rows that say nothing: those that repeat another one, and gaps that cannot be seen."""
    # Without reasoning TTFO is TTFT; without conversations the time of a task is E2E.
    twins = {"ttfo_s": ("ttft_s", "p50"), "task_time_s": ("e2e_latency_s", "mean")}
    known = {
        (d.target.candidate, d.target.cell, d.target.metric.name, d.target.statistic): d.series
        for d in drafts
        if (d.target.metric.name, d.target.statistic) in twins.values()
    }

    def keeps(draft: Draft) -> bool:
        target = draft.target
        if target.gate or target.cell is None:
            return True
        if target.metric.name == "energy_per_token_j":
            return bool(draft.series.logs.size)  # nothing measures it on most machines: unknown, and not a row
        if target.metric.name in twins:
            twin = known.get((target.candidate, target.cell, *twins[target.metric.name]))
            return twin is None or not (
                np.array_equal(twin.base, draft.series.base) and np.array_equal(twin.other, draft.series.other)
            )
        if target.metric.name == "itl_s":
            pairs = grid.pairs(grid.experiment.base.name, target.candidate, target.cell.key)
            hidden = [max(pair.base.itl_hidden, pair.other.itl_hidden) for pair in pairs]
            return not hidden or float(np.median(hidden)) <= HIDDEN_GAPS.value
        return True

    return tuple(draft for draft in drafts if keeps(draft))


def _quality(candidate: str, outputs: OutputCheck | None, note: str | None) -> QualityNote:
    """A set-up that breaks the outputs is garbage; anything else is never called fine without a quality task."""
    if outputs is not None and outputs.garbage is not None:
        return QualityNote(candidate=candidate, status="garbage", reason=outputs.garbage)
    if note is not None:
        return QualityNote(candidate=candidate, status="not comparable", reason=note)
    return QualityNote(candidate=candidate, status="not measured", reason="no quality task was run")
