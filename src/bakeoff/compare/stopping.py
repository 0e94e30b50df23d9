"""When a run may stop: every gate decided, on whole start groups, after the smallest number of pairs."""

from __future__ import annotations

from ..metrics import METRICS
from ..model import Comparison, Experiment, Look, Result
from ..stats.outcome import DECIDED
from ..units import change
from .view_text import cell_key


def gates_of(result: Result) -> tuple[Comparison, ...]:
    """The rows that decide."""
    return tuple(row for row in (*result.comparisons, *result.resources) if row.gate)


def decided(result: Result) -> bool:
    """True when there are gates and each is faster, slower, better, worse or equivalent."""
    gates = gates_of(result)
    return bool(gates) and all(row.outcome in DECIDED for row in gates)


def stop_reason(experiment: Experiment, result: Result, rounds_done: int) -> str | None:
    """A text when the run may end here. Looks only at whole start groups, and not before `budget.min_pairs`.

    A run of a fixed number of pairs ends by that number alone.
    """
    group = max(1, experiment.start_every)
    if experiment.method == "fixed":
        return None
    if rounds_done < experiment.budget.min_pairs or rounds_done % group or not decided(result):
        return None
    count = len(gates_of(result))
    gates = {1: "the gate is", 2: "both gates are"}.get(count, f"all {count} gates are")
    return f"{gates} decided after {rounds_done} rounds"


def look(experiment: Experiment, result: Result, rounds_done: int) -> Look:
    """Stop or go on, with the running estimate (a line a gate) and the rounds that undecided gates still need."""
    open_gates = [row for row in gates_of(result) if row.outcome not in DECIDED]
    needed = [row.pairs_needed for row in open_gates if row.pairs_needed is not None]
    return Look(
        stop=stop_reason(experiment, result, rounds_done),
        estimate=tuple(_short(row, several=len(experiment.candidates) > 1) for row in gates_of(result)),
        more_rounds=max(needed) if needed else None,
    )


def _short(row: Comparison, *, several: bool) -> str:
    who = f"{row.candidate} " if several else ""
    where = f"{cell_key(row)} " if row.workload else ""
    label = METRICS[row.metric].label if row.metric in METRICS else row.metric
    span = ""
    if row.ratio.low is not None and row.ratio.high is not None:
        span = f" [{change(row.ratio.low, unit=False)}, {change(row.ratio.high, unit=False)}]"
    word = "" if row.outcome == "inconclusive" else f" {row.outcome}"  # until it is known, the interval says it
    return f"{who}{where}{label} {change(row.ratio.point)}{span}{word}"
