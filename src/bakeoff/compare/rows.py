"""From a series of log ratios to one row of the result: estimate, interval, outcome and what is still needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from ..metrics import Metric
from ..model import Caution, Comparison, Experiment, Interval, Ratio
from ..stats import anytime, multiplicity, outcome, paired, power
from .pairs import TAIL_REQUESTS, Series
from .targets import Target


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A row before the corrections that need all rows and the audit."""

    target: Target
    series: Series
    comparison: Comparison
    p_value: float  # anytime-valid, of no difference


Family = tuple[str | None, str, str]  # cell, metric, statistic: rows whose pair noise is of one kind


def draft_rows(
    experiment: Experiment, targets: Sequence[Target], series_of: Callable[[Target], Series]
) -> tuple[Draft, ...]:
    """A draft for every target that has data; gates have one in any case."""
    found = [(target, series_of(target)) for target in targets]
    gates = sum(target.gate for target in targets)
    families: dict[Family, list[Series]] = {}
    for target, series in found:
        families.setdefault(_family(target), []).append(series)
    pooled = {key: power.pooled_sd([s.logs for s in members]) for key, members in families.items()}
    return tuple(
        _draft(experiment, target, series, gates, pooled[_family(target)])
        for target, series in found
        if target.gate or series.logs.size
    )


def _family(target: Target) -> Family:
    return (target.cell.key if target.cell else None, target.metric.name, target.statistic)


def _draft(experiment: Experiment, target: Target, series: Series, gates: int, pooled: tuple[float, int]) -> Draft:
    alpha = 1 - experiment.confidence
    if target.gate:
        alpha = multiplicity.bonferroni_level(alpha, gates)
    log_interval = anytime.interval(series.logs, alpha)
    metric, n = target.metric, series.logs.size
    judged = outcome.judge(log_interval, margin=experiment.margin, better=metric.better, time_like=metric.time_like)
    sd = float(series.logs.std(ddof=1)) if n >= 2 else pooled[0]
    least = power.minimum_detectable(pooled[0], n, alpha)
    comparison = Comparison(
        candidate=target.candidate,
        workload=target.cell.workload if target.cell else None,
        load=target.cell.load if target.cell else {},
        metric=metric.name,
        statistic=target.statistic,
        unit=_unit(experiment, metric),
        better=metric.better,
        base=_level(series.base, experiment.confidence),
        value=_level(series.other, experiment.confidence),
        ratio=ratio_of(log_interval, experiment.confidence),
        outcome=judged.outcome,
        margin=experiment.margin,
        pairs=series.rounds,
        gate=target.gate,
        detectable=judged.detectable,
        reason=None if judged.outcome in outcome.DECIDED else _reason(experiment, target, series, log_interval),
        pairs_needed=None
        if judged.outcome in outcome.DECIDED or not n
        else _pairs_needed(experiment, float(series.logs.mean()), sd, alpha, n),
        minimum_detectable=_exp(least, minus_one=True),
        method=_method(experiment, target, gates),
    )
    return Draft(target=target, series=series, comparison=comparison, p_value=anytime.p_value(series.logs))


def _unit(experiment: Experiment, metric: Metric) -> str:
    """The metric's unit; a cost is in the currency of the declared prices (the config lets only one pass)."""
    price = experiment.base.price
    return price.currency if metric.unit == "currency" and price is not None else metric.unit


def finish(
    experiment: Experiment, drafts: Sequence[Draft], touching: Mapping[int, Sequence[Caution]]
) -> tuple[Comparison, ...]:
    """Final rows. touching: invalidating cautions by the draft's place."""
    explored = [
        i for i, d in enumerate(drafts) if not d.target.gate and not touching.get(i) and d.series.logs.size >= 2
    ]
    adjusted = multiplicity.benjamini_hochberg([drafts[i].p_value for i in explored])
    lost = {i for i, p in zip(explored, adjusted, strict=True) if p > 1 - experiment.confidence}
    rows = []
    for i, draft in enumerate(drafts):
        row = draft.comparison
        if touching.get(i):
            row = _invalid(row, touching[i])
        elif i in lost:
            row = _weakened(row, len(explored))
        rows.append(row)
    return tuple(rows)


def _invalid(row: Comparison, cautions: Sequence[Caution]) -> Comparison:
    first, more = cautions[0], len({c.code for c in cautions}) - 1
    reason = f"{first.message}; {first.remedy}" + (f" (and {more} more, see the warnings)" if more else "")
    return msgspec.structs.replace(row, outcome="invalid", reason=reason, detectable=False, pairs_needed=None)


def _weakened(row: Comparison, rows: int) -> Comparison:
    judged = outcome.weaken(outcome.Judged(row.outcome, row.detectable))
    if judged.outcome == row.outcome:
        return msgspec.structs.replace(row, detectable=judged.detectable)
    reason = f"does not survive the correction for {rows} exploratory rows"
    return msgspec.structs.replace(row, outcome=judged.outcome, detectable=False, reason=reason)


def ratio_of(log_interval: Interval, confidence: float) -> Ratio:
    """A log ratio's interval as a ratio; unknown bounds stay None."""
    return Ratio(
        point=_exp(log_interval.point),
        low=_exp(log_interval.low),
        high=_exp(log_interval.high),
        confidence=confidence,
    )


def _level(values: np.typing.NDArray[np.float64], confidence: float) -> Interval:
    """Geometric mean of the replicates' values with a t interval on their logs (so that it stays positive)."""
    good = values[np.isfinite(values) & (values > 0)]
    logs = paired.t_interval(np.log(good), 1 - confidence)
    return Interval(point=_exp(logs.point), low=_exp(logs.low), high=_exp(logs.high))


def _exp(value: float | None, *, minus_one: bool = False) -> float | None:
    if value is None or abs(value) > 700:  # beyond float's range: as good as unknown
        return None
    return math.expm1(value) if minus_one else math.exp(value)


def _pairs_needed(experiment: Experiment, mean: float, sd: float, alpha: float, n: int) -> int | None:
    needed = power.pairs_to_decide(mean, sd, alpha, outcome.log_margin(experiment.margin))
    return (needed - n) * max(1, experiment.start_every) if needed is not None and needed > n else None


def _method(experiment: Experiment, target: Target, gates: int) -> str:
    if target.cell is None:
        estimate = "log ratio per pair of starts"
    elif target.statistic == "p50" and target.metric.scope == "request" and target.metric.name != "itl_s":
        estimate = "median over paired prompts of log ratios, per pair of blocks"
    else:
        estimate = "log ratio of block values, per pair of blocks"
    if experiment.start_every >= 2 and target.cell is not None:
        estimate += f", averaged over the {experiment.start_every} rounds of a start"
    level = f"anytime-valid t interval, {experiment.confidence * 100:g} %"
    if not target.gate:
        return f"{estimate}; {level}; exploration, BH"
    return f"{estimate}; {level}" + (f" over all {gates} gates together" if gates > 1 else "")


def _reason(experiment: Experiment, target: Target, series: Series, interval: Interval) -> str:
    n = series.logs.size
    if n == 0:
        if target.statistic in TAIL_REQUESTS and series.undefined:
            return f"{target.statistic} needs at least {TAIL_REQUESTS[target.statistic]} requests in every block"
        if series.undefined:
            return f"{target.metric.label} is undefined in every pair so far"
        waiting = f" ({series.waiting} rounds of an unfinished start group wait)" if series.waiting else ""
        return f"no complete pair yet{waiting}"
    if n == 1:
        if target.cell is None:
            return "one start per arm"
        return "one pair has no interval" if experiment.start_every < 2 else "one start per arm has no interval"
    if interval.low is None or interval.high is None:
        what = "pairs" if experiment.start_every < 2 else "start groups"
        return f"{n} {what} are too few for an interval at this level"
    if interval.low > 0 or interval.high < 0:
        return "it excludes no change, but not one within the margin"
    return "it could be no change, or a relevant one"
