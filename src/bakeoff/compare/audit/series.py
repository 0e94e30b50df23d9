"""Checks on the series of pairs: drift, dependence, a first pair that differs, A/A, and how starts are replicated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...metrics import METRICS, Metric
from ...model import Caution, Cell
from ...stats import drift
from ...stats.outcome import log_margin
from ...stats.power import pooled_sd
from ...stats.strata import aligned
from ...units import change
from ..extract import Requests
from ..pairs import Pair, make_series
from ..replicates import replication
from ..rows import Draft
from . import limits
from .bench import Bench, count_of


def stationarity(bench: Bench) -> Iterator[Caution]:
    """Drift, dependence and a deviating first pair in the differences of the leading statistics.

    Drift invalidates a row unless even its whole size could not turn the outcome; then it is a warning.
    """
    for draft in bench.drafts:
        target = draft.target
        if target.cell is not None and target.gate and draft.series.logs.size >= limits.SERIES_PAIRS.value:
            yield from _dependence(draft, target.cell)
    by_size: dict[tuple[str, Cell, bool], list[tuple[Draft, float]]] = {}
    for draft, cell, over_run in drifting(bench):
        key = (draft.target.candidate, cell, abs(over_run) < _room(draft))
        by_size.setdefault(key, []).append((draft, over_run))
    for (candidate, cell, harmless), drafts in by_size.items():
        told = ", ".join(f"{d.target.metric.label} by {change(math.exp(over_run))}" for d, over_run in drafts)
        yield Caution(
            code="drift",
            message=f"{candidate} against {bench.base} changed from the first pair to the last: {told}",
            remedy="find what changes with time (temperature, memory, other load), then repeat",
            severity="warning" if harmless else "invalid",
            variant=candidate,
            cell=cell.key,
            metrics=tuple(dict.fromkeys(d.target.metric.name for d, _ in drafts)),
        )


def drifting(bench: Bench) -> Iterator[tuple[Draft, Cell, float]]:
    """Rows whose differences drift, and by how much from the first pair to the last (in log)."""
    level = limits.DRIFT_P.value / max(1, sum(draft.target.gate for draft in bench.drafts))
    for draft in bench.drafts:
        target, logs = draft.target, aligned(draft.series.logs, draft.series.strata)
        least = limits.DRIFT_OF_MARGIN.value * log_margin(bench.experiment.margin_of(target.metric.name))
        leading = target.gate or target.statistic == target.metric.statistics[0]
        if target.cell is None or not leading or logs.size < limits.SERIES_PAIRS.value:
            continue
        over_run, p = drift.slope(logs)
        if p < level and abs(over_run) > least:
            yield draft, target.cell, over_run


def _room(draft: Draft) -> float:
    """How far (in log) a row's interval lies beyond the margin; 0 for a row that is not faster, slower, …"""
    row = draft.comparison
    if row.outcome not in ("faster", "slower", "better", "worse") or row.ratio.low is None or row.ratio.high is None:
        return 0.0
    nearest = min(abs(math.log(row.ratio.low)), abs(math.log(row.ratio.high)))
    return nearest - log_margin(row.margin)


def _dependence(draft: Draft, cell: Cell) -> Iterator[Caution]:
    target, logs = draft.target, aligned(draft.series.logs, draft.series.strata)
    r, p = drift.lag1(logs)
    if p < limits.LAG1_P.value and r > 0:  # alternation widens the interval, persistence makes it too narrow
        yield Caution(
            code="dependent-pairs",
            message=f"successive pairs of {target.metric.label} resemble each other (autocorrelation {r:.2f}): the "
            "interval is too narrow",
            remedy="restart the servers every round (`starts: every round`)",
            variant=target.candidate,
            cell=cell.key,
            metrics=(target.metric.name,),
        )
    difference, p = drift.first_change(logs)
    if p < limits.FIRST_P.value:
        yield Caution(
            code="first-pair",
            message=f"the first pair of {target.metric.label} differs from the rest by {change(math.exp(difference))}",
            remedy="lengthen the warm-up; the first round may still have been cold",
            severity="note",
            variant=target.candidate,
            cell=cell.key,
            metrics=(target.metric.name,),
        )


def same_against_same(bench: Bench) -> Iterator[Caution]:
    """Base against base: a difference beyond chance and beyond the margin is the bench's own."""
    for cell in bench.experiment.cells():
        pairs = bench.grid.aa_pairs(cell.key)
        failed = {m: mean for m in METRICS.values() if (mean := _aa_difference(bench, cell, m, pairs)) is not None}
        if failed:
            told = ", ".join(f"{metric.label} {change(math.exp(mean))}" for metric, mean in failed.items())
            yield Caution(
                code="aa-failed",
                message=f"{bench.base} against itself differs ({count_of(len(pairs), 'A/A pair')}): {told}",
                remedy="the bench is not repeatable: quiet the machine, lengthen the warm-up, then repeat",
                severity="invalid",
                cell=cell.key,
                metrics=tuple(metric.name for metric in failed),
            )


def _aa_difference(bench: Bench, cell: Cell, metric: Metric, pairs: Sequence[Pair]) -> float | None:
    """Mean log ratio of the A/A pairs where it is beyond the margin and what the noise of the pairs explains."""
    if not pairs or metric.scope == "start":
        return None
    statistic = metric.statistics[0]
    logs = make_series(pairs, metric, statistic, 1).per_round
    noise = [
        d.series.per_round
        for d in bench.drafts
        if (d.target.cell, d.target.metric, d.target.statistic) == (cell, metric, statistic)
    ]
    bound = drift.prediction_bound(*pooled_sd(noise), logs.size, limits.AA_LEVEL.value)
    if not logs.size or abs(float(logs.mean())) <= max(bound, log_margin(bench.experiment.margin_of(metric.name))):
        return None
    return float(logs.mean())


def _start_remedy(bench: Bench) -> str:
    if all(variant.engine == "openai" for variant in bench.experiment.variants):
        return "let Bakeoff start the servers (engine `command`), so that the luck of a start averages out"
    if bench.experiment.start_every >= 1:  # it ended before a second start
        return "let it run for more rounds, so that the luck of a start averages out"
    if bench.experiment.name == "demo-quick":
        return "run the full demo (`bakeoff demo`): it starts every server afresh in every round"
    return "set `starts: every round`, so that the luck of a start averages out"


def starts(bench: Bench) -> Iterator[Caution]:
    """Results that hold for one start of each server only, and arms that did not alternate in time."""
    blocks = [r.block for _, _, arm in bench.arms() for r in arm]
    found = replication(bench.experiment, blocks, bench.starts)
    if found.never:
        every = "each of these servers" if found.missing else "every server"
        how = f"{every} was started once" if found.once else "the servers were kept from round to round"
        yield Caution(
            code="one-start",
            message=f"{how} ({', '.join(found.starts)}): the result holds for these starts only",
            remedy=_start_remedy(bench),
        )
    for name in found.reached if found.compared and not found.never else ():
        yield Caution(
            code="one-start",
            message=f"{name} was never restarted: the result holds for that start of it only",
            remedy="let Bakeoff start this server too (engine `command`), so that the luck of a start averages out",
            variant=name,
        )
    for candidate in bench.experiment.candidates:
        spans = [
            (_span([p.base for p in pairs]), _span([p.other for p in pairs]))
            for _, name, pairs in bench.pairings()
            if name == candidate.name and len(pairs) >= 2
        ]
        if spans and all(a[1] <= b[0] or b[1] <= a[0] for a, b in spans):
            yield Caution(
                code="not-interleaved",
                message=f"all blocks of {bench.base} and of {candidate.name} were measured one after the other: a "
                "change of the machine would look like a difference",
                remedy="set `starts: every round`, or keep both resident (`resident: all`)",
                severity="invalid",
                variant=candidate.name,
            )


def too_few(bench: Bench) -> Iterator[Caution]:
    """Start groups that are not whole are left out; says so."""
    waiting = max((d.series.waiting for d in bench.drafts), default=0)
    if waiting:
        yield Caution(
            code="unfinished-group",
            message=f"{count_of(waiting, 'round')} of an unfinished start group left out",
            remedy=f"let the run end on a multiple of {bench.experiment.start_every} rounds",
            severity="note",
        )


def _span(blocks: Sequence[Requests]) -> tuple[int, int]:
    """First start and last end of some blocks [ns]."""
    return min(r.block.started_ns for r in blocks), max(r.block.ended_ns for r in blocks)
