"""From a series of log ratios to one row of the result: estimate, interval, outcome and what is still needed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from ..metrics import Metric
from ..model import Caution, Comparison, Experiment, Interval, Ratio
from ..stats import anytime, multiplicity, outcome, paired, power
from ..stats.strata import summarise
from .inference import Claim, claims
from .pairs import Series
from .reasons import method_of, reason_of
from .targets import Target


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A row before the corrections that need all rows and the audit."""

    target: Target
    series: Series
    comparison: Comparison
    p_value: float  # of no difference
    level: float = 0.05  # alpha of its interval


@dataclass(frozen=True, kw_only=True)
class _Noise:
    """What planning needs: the spread of pairs of one kind, pooled over candidates, and the level of a gate."""

    sd: float
    gates: int
    round_s: float | None


Family = tuple[str | None, str, str]  # cell, metric, statistic: rows whose pair noise is of one kind


def draft_rows(
    experiment: Experiment,
    targets: Sequence[Target],
    series_of: Callable[[Target], Series],
    round_s: float | None = None,
) -> tuple[Draft, ...]:
    """A draft for every target that has data; gates have one in any case. round_s: time of a round [s]."""
    found = [(target, series_of(target)) for target in targets]
    gates = sum(target.gate for target in targets)
    families: dict[Family, list[Series]] = {}
    for target, series in found:
        families.setdefault(_family(target), []).append(series)
    pooled = {key: power.pooled_sd(_samples(members))[0] for key, members in families.items()}
    shown = [
        (target, series) for target, series in found if target.gate or series.logs.size or series.pooled is not None
    ]
    return tuple(
        _draft(experiment, target, series, claim, _Noise(sd=pooled[_family(target)], gates=gates, round_s=round_s))
        for (target, series), claim in zip(shown, claims(experiment, shown), strict=True)
    )


def _family(target: Target) -> Family:
    return (target.cell.key if target.cell else None, target.metric.name, target.statistic)


def _samples(members: Sequence[Series]) -> list[np.typing.NDArray[np.float64]]:
    """The logs of every series, machine by machine: what machines differ by is no noise of a pair."""
    parts = []
    for series in members:
        if series.strata is None:
            parts.append(series.logs)
        else:
            parts += [series.logs[series.strata == label] for label in np.unique(series.strata)]
    return parts


def _draft(experiment: Experiment, target: Target, series: Series, claim: Claim, noise: _Noise) -> Draft:
    metric, judged = target.metric, claim.judged
    summary = summarise(series.logs, series.strata)
    alpha = 1 - experiment.confidence
    if target.gate:
        alpha = multiplicity.bonferroni_level(alpha, noise.gates)
    if series.pooled is not None:
        least = power.detectable_error(series.pooled.error, series.pooled.freedom, alpha)
    else:
        least = power.minimum_detectable(noise.sd, summary.n, alpha, experiment.method)
    needed = None if judged.outcome in outcome.DECIDED else _pairs_needed(experiment, target, series, noise, alpha)
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
        ratio=ratio_of(claim.interval, experiment.confidence),
        outcome=judged.outcome,
        margin=experiment.margin_of(metric.name),
        pairs=series.rounds,
        gate=target.gate,
        detectable=judged.detectable,
        reason=reason_of(experiment, target, series, claim),
        pairs_needed=needed,
        minimum_detectable=_exp(least, minus_one=True),
        method=method_of(experiment, target, series, noise.gates),
        p_value=claim.p_value if series.logs.size >= 2 or series.pooled is not None else None,
        spread=None if math.isnan(summary.sd) else summary.sd,
        seconds_needed=needed * noise.round_s if needed is not None and noise.round_s is not None else None,
    )
    return Draft(target=target, series=series, comparison=comparison, p_value=claim.p_value, level=claim.level)


def _unit(experiment: Experiment, metric: Metric) -> str:
    """The metric's unit; a cost is in the currency of the declared prices (the config lets only one pass)."""
    price = experiment.base.price
    return price.currency if metric.unit == "currency" and price is not None else metric.unit


def finish(
    experiment: Experiment, drafts: Sequence[Draft], touching: Mapping[int, Sequence[Caution]]
) -> tuple[Comparison, ...]:
    """Final rows. touching: invalidating cautions by the draft's place."""
    explored = [
        i
        for i, d in enumerate(drafts)
        if not d.target.gate and not touching.get(i) and (d.series.logs.size >= 2 or d.series.pooled is not None)
    ]
    adjusted = multiplicity.benjamini_hochberg([drafts[i].p_value for i in explored])
    lost = {i for i, p in zip(explored, adjusted, strict=True) if p > 1 - experiment.confidence}
    rows = []
    for i, draft in enumerate(drafts):
        row = draft.comparison
        if touching.get(i):
            row = _invalid(row, touching[i])
        elif i in lost:
            row = _withdrawn(experiment, row, len(explored))
        rows.append(row)
    return tuple(rows)


def not_yet(experiment: Experiment, row: Comparison) -> Comparison:
    """A row of a fixed-n run that still measures: its one look is at the end."""
    if row.outcome == "invalid":
        return row
    reason = f"looked at once, when all {experiment.budget.max_pairs} pairs are there"
    return msgspec.structs.replace(
        row, outcome="inconclusive", detectable=False, reason=reason, pairs_needed=None, seconds_needed=None
    )


def _invalid(row: Comparison, cautions: Sequence[Caution]) -> Comparison:
    first, more = cautions[0], len({c.code for c in cautions}) - 1
    reason = f"{first.message}; {first.remedy}" + (f" (and {more} more, see the warnings)" if more else "")
    return msgspec.structs.replace(
        row, outcome="invalid", reason=reason, detectable=False, pairs_needed=None, seconds_needed=None
    )


def _withdrawn(experiment: Experiment, row: Comparison, rows: int) -> Comparison:
    """An explored row that does not survive Benjamini–Hochberg claims nothing, not even "probably".

    Any weaker word would still be a claim: over 16 cells without a difference one in four runs had such a one.
    """
    if row.outcome in ("equivalent", "inconclusive"):
        return msgspec.structs.replace(row, detectable=False)
    reason = f"does not survive the correction for {rows} explored rows"
    level = (1 - experiment.confidence) / rows
    if experiment.method == "anytime" and row.pairs >= 2 and anytime.least_p_value(row.pairs) > level:
        enough = next(n for n in itertools.count(row.pairs) if anytime.least_p_value(n) <= level)
        reason = (
            f"{row.pairs} pairs cannot carry a claim among {rows} explored rows, whatever they show; {enough} could, "
            "or a gate on it"
        )
    return msgspec.structs.replace(row, outcome="inconclusive", detectable=False, reason=reason)


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


def _pairs_needed(experiment: Experiment, target: Target, series: Series, noise: _Noise, alpha: float) -> int | None:
    """More rounds until the row would probably be decided; with a fixed n, beyond those that a new run repeats."""
    n = series.logs.size
    if not n:
        return None
    mean, sd, _, _ = summarise(series.logs, series.strata)
    margin = outcome.log_margin(experiment.margin_of(target.metric.name))
    spread = noise.sd if math.isnan(sd) else sd
    needed = power.pairs_to_decide(mean, spread, alpha, margin, experiment.method)
    return (needed - n) * max(1, experiment.start_every) if needed is not None and needed > n else None
