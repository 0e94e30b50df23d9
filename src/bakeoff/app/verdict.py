"""Compare → explain → decide, as one pure function of the raw data; and the stop rule that looks through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from ..compare import compare_blocks, look
from ..decide import decide
from ..explain import one_switch_findings
from ..model import BlockData, Experiment, Look, Result, Start

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
        return look(self._experiment, result, rounds_done)
