"""Compare → explain → decide, as one pure function of the raw data; and the stop rule that looks through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from ..compare import compare_blocks, stop_reason
from ..decide import decide
from ..explain import one_switch_findings
from ..metrics import METRICS
from ..model import BlockData, Comparison, Experiment, Look, Result, Start
from ..units import change

State = Literal["running", "complete", "interrupted", "failed"]


def conclude(
    experiment: Experiment,
    blocks: Sequence[BlockData],
    starts: Sequence[Start],
    *,
    run: str,
    state: State,
    reason: str | None = None,
    quality_note: str | None = None,
) -> Result:
    """The whole verdict from the raw data. Deterministic: the same data give the same result."""
    result = compare_blocks(
        experiment, blocks, starts, run=run, state=state, stop_reason=reason, quality_note=quality_note
    )
    return msgspec.structs.replace(
        result,
        findings=one_switch_findings(experiment, blocks, result.comparisons),
        decision=decide(experiment, (*result.comparisons, *result.resources), result.quality, result.warnings),
    )


class Judge:
    """Looks at the data after every start group and says whether the question is answered."""

    def __init__(
        self, experiment: Experiment, blocks: Callable[[], Sequence[BlockData]], starts: Callable[[], Sequence[Start]]
    ) -> None:
        self._experiment = experiment
        self._blocks = blocks
        self._starts = starts

    def __call__(self, rounds_done: int) -> Look:
        result = compare_blocks(self._experiment, self._blocks(), self._starts(), run="", state="running")
        gates = [row for row in result.comparisons if row.gate]
        needed = [row.pairs_needed for row in gates if row.pairs_needed]
        return Look(
            stop=stop_reason(self._experiment, result, rounds_done),
            estimate=running_estimate(gates),
            more_rounds=max(needed) if needed else None,
        )


def running_estimate(gates: Sequence[Comparison]) -> str:
    """One line: each gate's change so far, the word only where there is one."""
    return " · ".join(f"{_name(row)} {_state(row)}" for row in gates)


def _name(row: Comparison) -> str:
    load = next(iter(row.load.values()), None)
    where = f"{row.workload}@{load:g}" if load is not None else row.workload
    return f"{row.candidate} {where} {METRICS[row.metric].label}"


def _state(row: Comparison) -> str:
    interval = ""
    if row.ratio.low is not None and row.ratio.high is not None:
        interval = f" [{change(row.ratio.low, unit=False)}, {change(row.ratio.high, unit=False)}]"
    return f"{change(row.ratio.point)}{interval} {row.outcome}"
