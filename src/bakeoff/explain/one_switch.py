"""Causes by intervention: variants of one experiment that differ in exactly one setting.

Where a candidate is slower than the base and another variant differs from it in one setting alone, the pair of them
is an experiment on that setting: both were measured in the same rounds, on the same prompts. Only such a flip names
a cause; anything that differs together with something else is not attributed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..compare.pairs import Grid, Series
from ..compare.rows import ratio_of
from ..metrics import METRICS, Metric
from ..model import BlockData, Cell, Comparison, Experiment, Finding, Interval, Variant
from ..stats import anytime, outcome
from ..stats.multiplicity import bonferroni_level
from ..units import change
from .share import share_of_gap
from .switches import Switch, switches

Status = Literal["confirmed", "suspected", "refuted"]
_WORSE = ("slower", "worse")
#: Where the flip leads to the base itself, it explains the gap by definition.
_WHOLE = Interval(point=1.0, low=1.0, high=1.0)


class Flip(NamedTuple):
    """Turning one setting of the slower variant to the other's value."""

    slower: Variant
    other: Variant
    switch: Switch
    base: str  # name of the base


def one_switch_findings(
    experiment: Experiment, blocks: Sequence[BlockData], comparisons: Sequence[Comparison]
) -> tuple[Finding, ...]:
    """Findings for every gate in which a candidate is slower (or worse) than the base.

    comparisons: the rows of the same blocks. Status `confirmed`: the flip alone closes a part of the gap that is
    clear of 0 and beyond the margin; `refuted`: it changes nothing beyond the margin, or makes it slower;
    `suspected`: not decided; `cannot attribute`: no other variant differs in one setting alone.
    """
    slower = [row for row in comparisons if row.gate and row.outcome in _WORSE and row.workload is not None]
    if not slower:
        return ()
    grid = Grid(experiment, blocks)
    flips = {v.name: _flips(experiment, v) for v in experiment.candidates}
    tests = sum(len(flips[row.candidate]) for row in slower)
    alpha = bonferroni_level(1 - experiment.confidence, tests)
    found: list[Finding] = []
    for candidate in experiment.candidates:
        rows = [row for row in slower if row.candidate == candidate.name]
        if rows and not flips[candidate.name]:
            found.append(_cannot_attribute(experiment, candidate, rows))
        for row in rows:
            best: dict[str, Finding] = {}
            for flip in flips[candidate.name]:
                finding = _finding(experiment, grid, flip, row, comparisons, alpha)
                known = best.get(flip.switch.setting)
                if finding is not None and (known is None or _weight(finding) > _weight(known)):
                    best[flip.switch.setting] = finding
            found += _telling(list(best.values()))
    return tuple(found)


def _flips(experiment: Experiment, slower: Variant) -> tuple[Flip, ...]:
    """Other variants that differ from it in one setting, which is no whole other server."""
    found = []
    for other in experiment.variants:
        if other.name != slower.name:
            differing = switches(slower, other)
            if len(differing) == 1 and not differing[0].opaque:
                found.append(Flip(slower, other, differing[0], experiment.base.name))
    return tuple(found)


def _telling(findings: list[Finding]) -> list[Finding]:
    """Leaves out what adds nothing: other flips beside the only setting that differs from the base, and refuted ones
    beside a confirmed one."""
    confirmed = [f for f in findings if f.status == "confirmed"]
    whole = [f for f in confirmed if f.share == _WHOLE]
    return whole or [f for f in findings if f.status != "refuted" or not confirmed]


def _weight(finding: Finding) -> tuple[int, float]:
    """Of several values of one setting, the one that closes most of the gap tells most."""
    order = {"confirmed": 2, "suspected": 1}
    return order.get(finding.status, 0), (finding.share.point or 0.0) if finding.share else 0.0


def _finding(
    experiment: Experiment,
    grid: Grid,
    flip: Flip,
    row: Comparison,
    comparisons: Sequence[Comparison],
    alpha: float,
) -> Finding | None:
    metric = METRICS[row.metric]
    cell = _cell(experiment, row)
    if cell is None or metric.scope == "start":
        return None
    base = experiment.base.name
    series = grid.series(flip.slower.name, flip.other.name, cell.key, metric, row.statistic)
    if not series.logs.size:
        return None
    interval = anytime.interval(series.logs, alpha)
    status = _status(interval, metric, experiment.margin_of(metric.name))
    gap = grid.series(base, flip.slower.name, cell.key, metric, row.statistic)
    share = _share(series, gap, alpha) if flip.other.name != base else _WHOLE
    against_base = [
        other
        for other in comparisons
        if (other.candidate, other.workload, other.load) == (flip.other.name, row.workload, row.load) and other.gate
    ]
    return Finding(
        candidate=flip.slower.name,
        cause=f"one-switch:{flip.switch.setting}",
        title=flip.switch.title,
        share=share,
        status=status,
        evidence=tuple(_evidence(flip, metric, series, interval, status, share)),
        fix=_fix(flip, against_base, base) if status == "confirmed" else None,
        workload=row.workload,
        load=row.load,
        metric=row.metric,
    )


def _status(interval: Interval, metric: Metric, margin: float) -> Status:
    """Of the flip slower → other: does it help, clearly and by more than the margin?"""
    judged = outcome.judge(interval, margin=margin, better=metric.better, time_like=metric.time_like).outcome
    if judged in ("faster", "better"):
        return "confirmed"
    if judged in ("probably faster", "probably better"):
        beyond = interval.point is not None and abs(interval.point) > outcome.log_margin(margin)
        return "confirmed" if beyond else "suspected"
    return "suspected" if judged == "inconclusive" else "refuted"


def _share(effect: Series, gap: Series, alpha: float) -> Interval:
    """Share of ln(slower ÷ base) that ln(slower ÷ other) makes up, on the replicates that both have."""
    common, i, j = np.intersect1d(np.array(effect.keys), np.array(gap.keys), return_indices=True)
    if not common.size:
        return Interval(point=None)
    return share_of_gap(-effect.logs[i], gap.logs[j], alpha)


def _evidence(
    flip: Flip, metric: Metric, series: Series, interval: Interval, status: Status, share: Interval
) -> Iterator[str]:
    ratio = ratio_of(interval, 0.0)
    bounds = ""
    if ratio.low is not None and ratio.high is not None:
        bounds = f" [{change(ratio.low, unit=False)}, {change(ratio.high, unit=False)}]"
    told = {"confirmed": "one switch flipped, re-measured in the same rounds", "refuted": "one switch flipped: not it"}
    yield (
        f"{metric.label} {change(ratio.point)}{bounds} from {flip.slower.name} to {flip.other.name} over "
        f"{series.rounds} {'pair' if series.rounds == 1 else 'pairs'}, "
        f"{told.get(status, 'one switch flipped: not decided yet')}"
    )
    if flip.other.name == flip.base:
        yield f"it is the only setting in which {flip.slower.name} and {flip.base} differ, so the whole gap is its own"
    elif status == "confirmed" and share.point is not None:
        percent = share.point * 100
        if share.point > 1:
            yield (
                f"{percent:.0f} % of the gap to {flip.base}: more than the whole of it, because the other changes of "
                f"{flip.slower.name} make it faster"
            )
        else:
            yield f"{percent:.0f} % of the gap to {flip.base}; {100 - percent:.0f} % stay unexplained"


def _fix(flip: Flip, rows: Sequence[Comparison], base: str) -> str:
    """``use kv_type: f16 (variant `fixed`): TTFT −21 %, TPOT −34 % against base``."""
    use = f"use {flip.switch.setting}: {flip.switch.other} (variant `{flip.other.name}`)"
    if flip.other.name == base or not rows:
        return use
    numbers = ", ".join(f"{METRICS[row.metric].label} {change(row.ratio.point)} ({row.outcome})" for row in rows)
    return f"{use}: {numbers} against {base}"


def _cannot_attribute(experiment: Experiment, candidate: Variant, rows: Sequence[Comparison]) -> Finding:
    differing = switches(candidate, experiment.base)
    names = ", ".join(dict.fromkeys(METRICS[row.metric].label for row in rows))
    if len(differing) > 1:
        told = f"{len(differing)} settings differ together: " + "; ".join(
            f"{s.setting} ({s.other} in {experiment.base.name}, {s.value} in {candidate.name})" for s in differing[:8]
        )
        fix = f"add a variant that is {candidate.name} with one of these settings set back, and measure again"
    else:
        told = "two whole servers are compared; which of their settings differ is not known here"
        fix = None
    return Finding(
        candidate=candidate.name,
        cause="one-switch",
        title=f"{names} slower, cause not attributed: no variant differs from {candidate.name} in one setting alone",
        status="cannot attribute",
        evidence=(told,),
        fix=fix,
    )


def _cell(experiment: Experiment, row: Comparison) -> Cell | None:
    return next((c for c in experiment.cells() if c.workload == row.workload and c.load == row.load), None)
