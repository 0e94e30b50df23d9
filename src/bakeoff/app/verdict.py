"""Compare → explain → decide, as one pure function of the raw data; and the stop rule that looks through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from ..compare import compare_blocks, look
from ..compare.quality import judge_quality, without_unmeasured
from ..decide import decide
from ..explain import one_switch_findings, task_time_findings
from ..model import Answer, BlockData, Caution, Experiment, Finding, Look, QualityScore, Result, Start
from .foretell import too_few_pairs

State = Literal["running", "complete", "interrupted", "failed"]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured and asked. strata: round → machine, where the blocks of several machines are merged. traced:
    findings of profiles. answers: to quality tasks. divergence: rows of probabilities told along the base's answers.
    notes: cautions about what was asked for beside the measuring."""

    blocks: Sequence[BlockData]
    starts: Sequence[Start]
    strata: Mapping[int, int] | None = None
    traced: Sequence[Finding] = ()
    answers: Sequence[Answer] = ()
    divergence: Sequence[QualityScore] = ()
    notes: Sequence[Caution] = ()


def conclude(
    experiment: Experiment,
    evidence: Evidence,
    *,
    run: str,
    state: State,
    reason: str | None = None,
    quality_note: str | None = None,
) -> Result:
    """The whole verdict from the raw data. Deterministic: the same data give the same result."""
    blocks, answers, divergence = evidence.blocks, evidence.answers, evidence.divergence
    result = compare_blocks(
        experiment,
        blocks,
        evidence.starts,
        run=run,
        state=state,
        stop_reason=reason,
        quality_note=quality_note,
        strata=evidence.strata,
        answers=answers,
    )
    scores, flips = judge_quality(experiment, answers)
    notes = without_unmeasured(result.quality, (*scores, *divergence))
    return msgspec.structs.replace(
        result,
        quality=notes,
        warnings=(*result.warnings, *too_few_pairs(experiment, result.rounds), *evidence.notes),
        scores=(*scores, *divergence),
        flips=flips,
        findings=(
            *one_switch_findings(experiment, blocks, result.comparisons),
            *task_time_findings(result.task_times),
            *evidence.traced,
        ),
        decision=decide(
            experiment,
            (*result.comparisons, *result.resources),
            notes,
            result.warnings,
            result.crossings,
            scores,
            result.task_times,
        ),
    )


class Judge:
    """Looks at the data after every start group and says whether the question is answered.

    A run of a fixed number of pairs is not looked at before its end, not even for display.
    """

    def __init__(
        self, experiment: Experiment, blocks: Callable[[], Sequence[BlockData]], starts: Callable[[], Sequence[Start]]
    ) -> None:
        self._experiment = experiment
        self._blocks = blocks
        self._starts = starts

    def __call__(self, rounds_done: int) -> Look:
        if self._experiment.method == "fixed":
            return Look()
        result = compare_blocks(self._experiment, self._blocks(), self._starts(), run="", state="running")
        return look(self._experiment, result, rounds_done)
