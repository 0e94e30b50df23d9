"""From the series of all rows to what is claimed of each: interval, outcome, p. Knows both methods.

anytime: every gate at alpha/m, looked at after every start group. fixed: one look; the claims of the gates corrected
by Holm, family by family (no difference; beyond the margin; equivalence). Explored rows stand at alpha each, and are
corrected by Benjamini–Hochberg afterwards (see `rows.finish`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..model import Experiment, Interval
from ..stats import anytime, fixed, multiplicity, outcome
from .extract import Floats
from .pairs import TAIL_REQUESTS, Series
from .targets import Target


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What one row may say. Intervals are of the log ratio."""

    interval: Interval
    judged: outcome.Judged
    p_value: float  # of no difference
    level: float  # alpha of the interval
    equivalence: Interval | None = None  # fixed n: the interval of two one-sided tests
    held_back: bool = False  # fixed n: beyond the margin by its interval, but not by Holm's procedure


def claims(experiment: Experiment, found: Sequence[tuple[Target, Series]]) -> list[Claim]:
    """One claim a row, in the order given."""
    alpha = 1 - experiment.confidence
    if experiment.method == "fixed":
        return _one_look(experiment, found, alpha)
    level = multiplicity.bonferroni_level(alpha, sum(target.gate for target, _ in found))
    return [watched(experiment, target, series, level if target.gate else alpha) for target, series in found]


def watched(experiment: Experiment, target: Target, series: Series, level: float) -> Claim:
    """Anytime-valid, at level alpha."""
    interval = anytime.interval(series.logs, level, series.strata)
    return Claim(
        interval=interval,
        judged=_judge(experiment, target, interval, None),
        p_value=anytime.p_value(series.logs, series.strata),
        level=level,
    )


def judged_without(
    experiment: Experiment, target: Target, series: Series, level: float, places: Sequence[int]
) -> outcome.Judged:
    """The outcome if some replicates were like the rest, at the row's level. A look at robustness, never the verdict.

    It rests on the mean and the spread of the rest at the number of all: that fewer replicates have a wider interval,
    or none, is no fact about those that stand apart.
    """
    rest = replace(series, logs=_ordinary(series, places))
    if experiment.method == "anytime":
        return watched(experiment, target, rest, level).judged
    return looked_at(experiment, target, one_look(target, rest), (level, level, level)).judged


def _ordinary(series: Series, places: Sequence[int]) -> Floats:
    """As many logs, whose mean and standard deviation (in every stratum its own mean) are those of the rest."""
    logs, keep = series.logs.copy(), np.ones(series.logs.size, dtype=np.bool_)
    keep[list(places)] = False
    labels = np.zeros(logs.size, dtype=np.int64) if series.strata is None else series.strata
    strata = [labels == label for label in np.unique(labels)]
    free = int(keep.sum()) - len(strata)
    if free < 1 or not all((stratum & keep).any() for stratum in strata):
        return logs
    wider = math.sqrt((logs.size - len(strata)) / free)  # the ones put in add nothing to the sum of squares
    for stratum in strata:
        mean = float(logs[stratum & keep].mean())
        logs[stratum] = np.where(keep[stratum], mean + wider * (logs[stratum] - mean), mean)
    return logs


def one_look(target: Target, series: Series) -> fixed.OneLook:
    """The test that fits a row: ranks for tail quantiles, the bootstrap where they are pooled, else Student's t."""
    if series.pooled is not None:
        return fixed.by_error(series.pooled)
    if target.statistic in TAIL_REQUESTS:
        return fixed.by_ranks(series.logs, series.strata)
    return fixed.by_mean(series.logs, series.strata)


def looked_at(experiment: Experiment, target: Target, look: fixed.OneLook, levels: tuple[float, float, float]) -> Claim:
    """Fixed n. levels: alpha of the tests of no difference, of a difference beyond the margin, and of equivalence."""
    bound = outcome.log_margin(experiment.margin_of(target.metric.name))
    interval, equivalence = look.interval(levels[0]), look.interval(2 * levels[2])
    judged = _judge(experiment, target, interval, equivalence)
    beyond = judged.outcome in outcome.DECIDED and judged.outcome != "equivalent"
    held_back = beyond and look.p_beyond(bound) > levels[1]
    return Claim(
        interval=interval,
        judged=outcome.weaken(judged) if held_back else judged,
        p_value=look.p_difference(),
        level=levels[0],
        equivalence=equivalence,
        held_back=held_back,
    )


def _one_look(experiment: Experiment, found: Sequence[tuple[Target, Series]], alpha: float) -> list[Claim]:
    looks = [one_look(target, series) for target, series in found]
    levels = np.full((len(found), 3), alpha)
    gates = [i for i, (target, _) in enumerate(found) if target.gate]
    if gates:
        bounds = [outcome.log_margin(experiment.margin_of(found[i][0].metric.name)) for i in gates]
        families = (
            [looks[i].p_difference() for i in gates],
            [looks[i].p_beyond(bound) for i, bound in zip(gates, bounds, strict=True)],
            [looks[i].p_equivalence(bound) for i, bound in zip(gates, bounds, strict=True)],
        )
        for column, p_values in enumerate(families):
            levels[gates, column] = multiplicity.holm_levels(p_values, alpha)
    return [
        looked_at(experiment, target, look, (float(row[0]), float(row[1]), float(row[2])))
        for (target, _), look, row in zip(found, looks, levels, strict=True)
    ]


def _judge(experiment: Experiment, target: Target, interval: Interval, equivalence: Interval | None) -> outcome.Judged:
    metric = target.metric
    return outcome.judge(
        interval,
        margin=experiment.margin_of(metric.name),
        better=metric.better,
        time_like=metric.time_like,
        equivalence=equivalence,
    )
