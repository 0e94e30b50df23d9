"""Is there a steady state to speak of? Levels that change over the pairs, over an arm's blocks, inside its blocks; and
pairs that stand apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...model import Caution, Cell
from ...stats import drift, steady
from ...stats.outcome import log_margin
from ...stats.paired import t_p_value
from ...stats.strata import aligned
from ...units import change
from ..extract import Floats
from ..inference import judged_without
from ..pairs import stray
from ..rows import Draft
from . import limits
from .bench import Bench, count_of
from .series import drifting


def pair_shifts(bench: Bench) -> Iterator[Caution]:
    """The difference of the arms has more than one level: what is it then? A drift is told as such."""
    drifts = {id(draft) for draft, _, _ in drifting(bench)}
    for draft, cell in _gates(bench):
        tolerance = _tolerance(bench, draft.target.metric.name)
        logs = aligned(draft.series.logs, draft.series.strata)
        found = steady.steadiness(logs, tolerance=tolerance)
        if found.kind != "steady" and not (id(draft) in drifts and _slides(logs, found)):
            levels = " to ".join(change(math.exp(segment.level)) for segment in found.segments[:_TOLD])
            steps = ", ".join(str(segment.start + 1) for segment in found.segments[1:_TOLD])
            what = "changes" if found.kind == "settles" else "finds no steady state: it changes"
            yield Caution(
                code="pair-shift",
                message=f"the difference of the arms {what} at {_places(bench)} {steps}, from {levels}",
                remedy="see the differences in order of time in the report; find what changed, then repeat",
                variant=draft.target.candidate,
                cell=cell.key,
                metrics=(draft.target.metric.name,),
            )


def level_shifts(bench: Bench) -> Iterator[Caution]:
    """One arm's own level over its blocks. Pairs are next to each other in time, so that it cancels in them.

    Where the differences of the pairs drift it does not, and is no warm-up that has ended: the drift is told instead.
    """
    drifts = {(arm, c, d.target.metric.name) for d, c, _ in drifting(bench) for arm in (bench.base, d.target.candidate)}
    for cell, variant, blocks in bench.arms():
        for name in _gate_metrics(bench, cell):
            medians = [float(np.median(v)) for r in blocks if (v := _positive(r.values[name])).size]
            logs = np.log(medians)
            found = steady.steadiness(logs, tolerance=_tolerance(bench, name))
            if found.kind == "steady" or (variant, cell, name) in drifts:
                continue
            when = f"settles after {count_of(found.start, 'block')}" if found.kind == "settles" else "no steady state"
            told = f"{when}, the levels are {change(math.exp(abs(found.step)))} apart"
            if _slides(logs, found):
                told = f"it changes steadily, by {change(math.exp(drift.slope(logs)[0]))} from the first to the last"
            yield Caution(
                code="level-shift",
                message=f"{variant} over its blocks: {told}",
                remedy="nothing to do while the pairs are steady: both arms of a pair met the same level",
                severity="note",
                variant=variant,
                cell=cell.key,
                metrics=(name,),
            )


def block_warm_up(bench: Bench) -> Iterator[Caution]:
    """Requests at the front of every block that are slower than the rest: the warm-up was not over.

    Closed loops only: where an open loop's latency grows within a block, the arm is saturated, and that is told apart.
    """
    for cell, variant, blocks in bench.arms():
        if cell.kind != "closed":
            continue
        for name in _gate_metrics(bench, cell):
            # The slots of a closed loop begin together: their first requests meet a burst, not a cold server.
            first = int(cell.level) if cell.level > 1 else 0
            rows = _by_place([r.values[name] for r in blocks])[:, first:]
            profile = np.nanmedian(rows, axis=0) if rows.size else np.zeros(0)
            found = steady.steadiness(profile, tolerance=_tolerance(bench, name))
            if found.kind == "steady" or not _sure(rows, found):
                continue
            if found.kind == "settles" and found.step > 0:
                told = (
                    f"the first {first + found.start} requests of a block are slower by {change(math.exp(found.step))}"
                )
                heavy = found.step * found.start / profile.size > _tolerance(bench, name)
            elif found.kind == "none":
                told, heavy = "no steady state: the level still changes in the second half of a block", True
            else:
                continue
            yield Caution(
                code="block-warm-up",
                message=f"{variant}: {told}",
                remedy="raise the warm-up's limits (`warmup: {min_requests: …}`) or lengthen the blocks",
                severity="warning" if heavy else "note",
                variant=variant,
                cell=cell.key,
                metrics=(name,),
            )


def outlier_pairs(bench: Bench) -> Iterator[Caution]:
    """Pairs that stand apart are told and always count; where the verdict hangs on them, that is a warning."""
    for draft, cell in _gates(bench):
        logs = draft.series.logs
        places = stray(draft.series, bench.experiment.margin_of(draft.target.metric.name))
        if not places:
            continue
        without = judged_without(bench.experiment, draft.target, draft.series, draft.level, places)
        differs = without.outcome != draft.comparison.outcome
        named = ", ".join(f"{draft.series.keys[i] + 1} ({change(math.exp(logs[i]))})" for i in places[:_TOLD])
        one = len(places) == 1
        them, counts = ("it", "stands apart from the rest; it counts") if one else ("them", "stand apart; they count")
        verdict = f"without {them} the verdict would be {without.outcome!r}"
        yield Caution(
            code="outlier-pairs",
            message=f"{_places(bench)}{'' if one else 's'} {named} {counts}, "
            f"and {verdict if differs else 'the verdict is the same without'}",
            remedy="see what ran then (the timeline in the report, the server's log)"
            + (f"; more pairs make the verdict independent of {them}" if differs else ""),
            severity="warning" if differs else "note",
            variant=draft.target.candidate,
            cell=cell.key,
            metrics=(draft.target.metric.name,),
        )


_TOLD = 4


def _slides(values: Floats, found: steady.Steadiness) -> bool:
    """Whether a straight line describes a series better than its levels do (Schwarz 1978): there is no step then."""
    n, place = values.size, np.arange(values.size)
    line = np.polyval(np.polyfit(place, values, 1), place)
    levels = np.concatenate([np.full(s.end - s.start, values[s.start : s.end].mean()) for s in found.segments])
    costs = [
        n * math.log(max(float(((values - fit) ** 2).sum()), 1e-300)) + parameters * math.log(n)
        for fit, parameters in ((line, 2), (levels, 2 * len(found.segments) - 1))
    ]
    return costs[0] <= costs[1]


def _gates(bench: Bench) -> Iterator[tuple[Draft, Cell]]:
    """Gates of cells with enough pairs to see a level in."""
    for draft in bench.drafts:
        if draft.target.gate and draft.target.cell is not None and draft.series.logs.size >= limits.SERIES_PAIRS.value:
            yield draft, draft.target.cell


def _gate_metrics(bench: Bench, cell: Cell) -> tuple[str, ...]:
    """Metrics of single requests that gate in a cell."""
    named = (d.target.metric for d in bench.drafts if d.target.gate and d.target.cell == cell)
    return tuple(dict.fromkeys(m.name for m in named if m.scope == "request" and m.name != "itl_s"))


def _tolerance(bench: Bench, metric: str) -> float:
    return limits.DRIFT_OF_MARGIN.value * log_margin(bench.experiment.margin_of(metric))


def _places(bench: Bench) -> str:
    return "start group" if bench.experiment.start_every >= 2 else "round"


def _positive(values: Floats) -> Floats:
    return values[np.isfinite(values) & (values > 0)]


def _by_place(blocks: Sequence[Floats]) -> Floats:
    """ln(value ÷ the block's median), shape (blocks, places in the block); NaN where undefined. A place that is not
    defined in half of the blocks is left out. Empty for fewer than three blocks."""
    if len(blocks) < _LEAST_BLOCKS:
        return np.zeros((0, 0))
    length = min(values.size for values in blocks)
    rows = np.full((len(blocks), length), np.nan)
    for row, values in zip(rows, blocks, strict=True):
        known = _positive(values)
        if known.size:
            good = np.isfinite(values[:length]) & (values[:length] > 0)
            row[good] = np.log(values[:length][good]) - math.log(float(np.median(known)))
    whole = np.isfinite(rows).sum(axis=0) * 2 >= len(blocks)
    return np.asarray(rows[:, whole], dtype=np.float64)


_LEAST_BLOCKS = 3


def _sure(rows: Floats, found: steady.Steadiness) -> bool:
    """Whether the step repeats from block to block: requests of a block resemble each other, blocks do not."""
    cut = found.segments[-1].start
    with np.errstate(invalid="ignore"):
        early = np.nansum(rows[:, :cut], axis=1) / np.isfinite(rows[:, :cut]).sum(axis=1)
        late = np.nansum(rows[:, cut:], axis=1) / np.isfinite(rows[:, cut:]).sum(axis=1)
    steps = early - late
    return t_p_value(steps[np.isfinite(steps)]) < limits.WITHIN_P.value
