"""Which variant to ship. Deterministic rules over the gates; a tie goes to the base, ignorance to nobody.

1. A candidate whose outputs are garbage, or whose accuracy on a task lies below the margin, is never shipped; nor is
   one whose tasks take longer, though its tokens may be faster: it writes more of them.
2. A candidate that is nowhere slower and somewhere faster is shipped; of several, the one with the shortest task.
3. Otherwise, a candidate that wins some cells is shipped for those, the base for the rest; where the gates of one cell
   disagree, its E2E decides.
4. Where an arm thinks before it shows anything, a later first output is a condition of what TTFT decides.
5. Where all is decided and no candidate wins, the base stays. Where something is missing or invalid, nobody is named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ..metrics import METRICS
from ..model import Caution, Comparison, Crossing, Decision, Experiment, QualityNote, QualityScore, TaskTime
from ..units import change
from .first_output import output_conditions, output_reasons
from .quality import quality_conditions, quality_reasons, refusals
from .split import crossing_sentences, split_condition
from .standing import CellStanding, Standing, standing_of
from .tasks import slower_tasks, task_reasons
from .words import in_cell, missing, number, numbers, place


@dataclass(frozen=True, kw_only=True)
class _Case:
    """What all the rules look at."""

    experiment: Experiment
    comparisons: Sequence[Comparison]
    quality: Sequence[QualityNote]
    cautions: Sequence[Caution]
    refused: tuple[str, ...]  # sentences on candidates that are never shipped
    crossings: Sequence[Crossing] = ()
    scores: Sequence[QualityScore] = ()
    tasks: Sequence[TaskTime] = ()

    def won(self, name: str, cell: CellStanding) -> str:
        return in_cell(self.experiment, name, cell)

    def provisos(self, candidate: str) -> tuple[str, ...]:
        """Conditions beside those that say for which traffic."""
        return (
            *output_conditions(self.experiment, candidate, self.comparisons),
            *quality_conditions(candidate, self.quality, self.scores),
            *_start_conditions(self.cautions, self.experiment.base.name, candidate),
        )


def decide(
    experiment: Experiment,
    comparisons: Sequence[Comparison],
    quality: Sequence[QualityNote] = (),
    cautions: Sequence[Caution] = (),
    crossings: Sequence[Crossing] = (),
    scores: Sequence[QualityScore] = (),
    tasks: Sequence[TaskTime] = (),
) -> Decision:
    """The advice that these rows allow. comparisons: rows of cells and, if wanted as reasons, of server starts.

    crossings: where the variants change places, so that advice by traffic can name the level. scores: measured quality.
    tasks: what tasks take, where answers have their natural length.
    """
    never = {**slower_tasks(tasks), **refusals(quality, scores)}
    everyone = [standing_of(experiment, comparisons, c.name, never.get(c.name)) for c in experiment.candidates]
    refused = tuple(s.refused for s in everyone if s.refused is not None)
    case = _Case(
        experiment=experiment,
        comparisons=comparisons,
        quality=quality,
        cautions=cautions,
        refused=refused,
        crossings=crossings,
        scores=scores,
        tasks=tasks,
    )
    advice = _advice(case, [s for s in everyone if s.refused is None])
    conditional = output_conditions(experiment, advice.ship, comparisons) if advice.ship else ()
    told = [
        reason
        for c in experiment.candidates
        if c.name != advice.ship or not conditional  # the condition has the figures already
        for reason in output_reasons(experiment, c.name, comparisons)
    ]
    return msgspec.structs.replace(advice, reasons=(*advice.reasons, *told))


def _advice(case: _Case, standings: Sequence[Standing]) -> Decision:
    experiment, cautions, refused = case.experiment, case.cautions, case.refused
    if standings and not any(s.cells for s in standings):
        return Decision(ship=None, reasons=(*refused, "nothing was measured that decides"))
    good = sorted((s for s in standings if s.acceptable), key=lambda s: s.task_ratio)
    if good:
        return _ship(case, good[0], [s for s in standings if s is not good[0]])
    # What is still open or invalid about a candidate leaves the question open, whatever its other cells say; but where
    # a crossing is known, cells close to it need not be decided.
    unknown = [
        s
        for s in standings
        if (s.has("open") or s.has("invalid") or not s.cells) and split_condition(experiment, s, case.crossings) is None
    ]
    if unknown:
        reasons = [reason for s in unknown for reason in _why_unknown(experiment, s)]
        reasons += [case.won(s.candidate, c) for s in standings if s not in unknown for c in s.cells]
        return Decision(ship=None, conditions=_partial(experiment, standings), reasons=(*refused, *reasons))
    winners = sorted((s for s in standings if s.has("candidate")), key=_mixed_key)
    if winners:
        return _mixed(case, winners[0], standings)
    reasons = [case.won(s.candidate, c) for s in standings for c in s.cells]
    summary = "no candidate is faster anywhere" if standings else "no candidate is left"
    return Decision(
        ship=experiment.base.name,
        conditions=_start_conditions(cautions, *(v.name for v in experiment.variants)),
        reasons=(*refused, summary, *reasons),
    )


def _ship(case: _Case, best: Standing, others: Sequence[Standing]) -> Decision:
    """The best of those that lose nowhere, and why not another."""
    reasons = [case.won(best.candidate, cell) for cell in best.cells]
    reasons += [reason for other in others for reason in _why_not(case.experiment, other, best)]
    reasons += [*task_reasons(best.candidate, case.tasks), *quality_reasons(best.candidate, case.scores)]
    reasons += _resources(case.comparisons, best.candidate)
    reasons += case.refused
    return Decision(ship=best.candidate, conditions=case.provisos(best.candidate), reasons=tuple(reasons))


def _why_not(experiment: Experiment, other: Standing, best: Standing) -> tuple[str, ...]:
    if other.acceptable:
        tasks = f"typical task {change(other.task_ratio)} against {change(best.task_ratio)}"
        return (f"{other.candidate} is faster than the base too, but not more so than {best.candidate}: {tasks}",)
    lost = [
        f"{numbers(rows)} in {place(experiment, cell.cell)}"
        for cell in other.cells
        if cell.side != "invalid" and (rows := [row for row in cell.gates if row.outcome in ("slower", "worse")])
    ]
    if not lost and (other.has("open") or other.has("invalid") or not other.cells):
        return _why_unknown(experiment, other)
    return (f"not {other.candidate}: {'; '.join(lost) or 'it is nowhere faster'}",)


def _mixed(case: _Case, best: Standing, standings: Sequence[Standing]) -> Decision:
    """One candidate for the cells that it wins, the base for those that it loses."""
    experiment = case.experiment
    cells = {side: [c for c in best.cells if c.side == side] for side in ("candidate", "same", "base")}
    conditions: list[str] = []
    split = split_condition(experiment, best, case.crossings)
    if split is not None:
        conditions.append(split)
    elif cells["base"]:
        conditions.append(f"for {_places(experiment, cells['candidate'])}")
        conditions.append(f"{experiment.base.name} for {_places(experiment, cells['base'])}")
        if cells["same"]:
            conditions.append(f"either for {_places(experiment, cells['same'])}")
    else:
        slower = [row for row in best.gates if row.outcome in ("slower", "worse")]
        names = ", ".join(dict.fromkeys(f"{METRICS[row.metric].label} is {row.outcome}" for row in slower))
        conditions.append(f"where the time of a whole task counts ({names})")
    reasons = [*crossing_sentences(experiment, best.candidate, case.crossings)]
    reasons += [case.won(best.candidate, cell) for cell in best.cells]
    reasons += [case.won(s.candidate, c) for s in standings if s is not best for c in s.cells]
    reasons += [*task_reasons(best.candidate, case.tasks), *quality_reasons(best.candidate, case.scores)]
    return Decision(
        ship=best.candidate,
        conditions=(*conditions, *case.provisos(best.candidate)),
        reasons=(*reasons, *case.refused),
    )


def _mixed_key(standing: Standing) -> tuple[int, float]:
    """Fewest cells lost, then the shortest task."""
    return sum(cell.side == "base" for cell in standing.cells), standing.task_ratio


def _partial(experiment: Experiment, standings: Sequence[Standing]) -> tuple[str, ...]:
    """What is decided already, cell by cell, where the whole is not."""
    told = []
    for standing in standings:
        for side, name in (("candidate", standing.candidate), ("base", experiment.base.name)):
            cells = [c for c in standing.cells if c.side == side]
            if cells:
                than = experiment.base.name if side == "candidate" else standing.candidate
                told.append(f"{name} rather than {than} for {_places(experiment, cells)}")
    return tuple(dict.fromkeys(told))


def _places(experiment: Experiment, cells: Sequence[CellStanding]) -> str:
    return " and ".join(place(experiment, cell.cell) for cell in cells)


def _why_unknown(experiment: Experiment, standing: Standing) -> tuple[str, ...]:
    invalid = [
        row for cell in standing.cells if cell.side == "invalid" for row in cell.gates if row.outcome == "invalid"
    ]
    if invalid:
        # Cells differ in their numbers only; one of them is enough to see what is wrong.
        told = {_alike(reason): reason for reason in (row.reason or "no reason given" for row in invalid)}
        reasons = "; ".join(told.values())
        return (f"{standing.candidate} cannot be judged, the comparison is invalid: {reasons}",)
    if not standing.cells:
        return (f"{standing.candidate} was not measured",)
    return missing(experiment, standing.candidate, [c for c in standing.cells if c.side == "open"])


def _alike(reason: str) -> str:
    """What the reasons of two cells have in common: all but their numbers, and how many more there are."""
    return re.sub(r"\d+", "#", re.sub(r" \(and \d+ more, see the warnings\)", "", reason))


def _resources(comparisons: Sequence[Comparison], candidate: str) -> tuple[str, ...]:
    rows = [
        row
        for row in comparisons
        if row.workload is None
        and row.candidate == candidate
        and not row.gate
        and row.outcome in ("better", "worse", "faster", "slower")
    ]
    return (f"{candidate} besides: " + ", ".join(f"{number(row)} ({row.outcome})" for row in rows),) if rows else ()


def _start_conditions(cautions: Sequence[Caution], *arms: str) -> tuple[str, ...]:
    """arms: the variants that the advice rests on; a caution about one start of another one is not about them."""
    once = [c for c in cautions if c.code == "one-start" and c.variant in (None, *arms)]
    if any(c.variant is None for c in once):
        return ("for these starts only (the servers were not restarted)",)
    return tuple(f"for this start of {c.variant} only (it was not restarted)" for c in once)
