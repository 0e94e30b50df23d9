"""The words of a row: by which method it was estimated, and why it is not decided."""

from __future__ import annotations

import math

from ..model import Experiment
from ..stats.outcome import log_margin
from ..units import change
from .inference import Claim
from .pairs import POOLED_REPLICATES, TAIL_REQUESTS, Series
from .targets import Target


def method_of(experiment: Experiment, target: Target, series: Series, gates: int) -> str:
    """Estimate, interval, and correction of a row, as one line."""
    return f"{_estimate(experiment, target, series)}; {_level(experiment, target, series, gates)}"


def _estimate(experiment: Experiment, target: Target, series: Series) -> str:
    if series.pooled is not None:
        return f"log ratio of the {target.statistic} of all pairs together (a block is too small for its own)"
    if target.cell is None:
        return "log ratio per pair of starts" + _machines(series)
    if target.statistic == "p50" and target.metric.scope == "request" and target.metric.name != "itl_s":
        estimate = "median over paired prompts of log ratios, per pair of blocks"
    else:
        estimate = "log ratio of block values, per pair of blocks"
    if experiment.start_every >= 2:
        estimate += f", averaged over the {experiment.start_every} rounds of a start"
    return estimate + _machines(series)


def _machines(series: Series) -> str:
    return f", mean over {len(set(series.strata.tolist()))} machines" if series.strata is not None else ""


def _level(experiment: Experiment, target: Target, series: Series, gates: int) -> str:
    level = f"{experiment.confidence * 100:g} %"
    if experiment.method == "anytime":
        kind = f"anytime-valid t interval, {level}"
        correction = f" over all {gates} gates together" if gates > 1 else ""
    else:
        tails = target.statistic in TAIL_REQUESTS
        kind = "Hodges–Lehmann with Wilcoxon interval" if tails else "paired t interval"
        kind = "t interval with pair-bootstrap error" if series.pooled is not None else kind
        kind = f"fixed n, {kind}, {level}"
        correction = f" over all {gates} gates by Holm" if gates > 1 else ""
    return f"{kind}{correction}" if target.gate else f"{kind}; exploration, BH"


def reason_of(experiment: Experiment, target: Target, series: Series, claim: Claim) -> str | None:
    """Why a row is not decided; for an equivalence by two one-sided tests, which interval shows it."""
    outcome, n = claim.judged.outcome, series.logs.size
    if outcome == "equivalent":
        return _by_two_tests(experiment, target, claim)
    if outcome in ("faster", "slower", "better", "worse"):
        return None
    if n == 0 and series.pooled is None:
        return _nothing(target, series)
    if n == 1:
        if target.cell is None:
            return "one start per arm"
        return "one pair has no interval" if experiment.start_every < 2 else "one start per arm has no interval"
    low, high = claim.interval.low, claim.interval.high
    if low is None or high is None:
        what = "pairs" if experiment.start_every < 2 else "start groups"
        return f"{n} {what} are too few for an interval at this level"
    if claim.held_back:
        return "beyond the margin by itself, but not when all gates are asked together (Holm)"
    if low > 0 or high < 0:
        return "it excludes no change, but not one within the margin"
    return "it could be no change, or a relevant one"


def _nothing(target: Target, series: Series) -> str:
    least = TAIL_REQUESTS.get(target.statistic)
    if least is not None and series.smallest is not None:
        return (
            f"{target.statistic} needs at least {least} requests in every block, and the smallest has "
            f"{series.smallest}; with `method: fixed`, {least} in {POOLED_REPLICATES} pairs or more together"
        )
    if series.undefined:
        return f"{target.metric.label} is undefined in every pair so far"
    waiting = f" ({series.waiting} rounds of an unfinished start group wait)" if series.waiting else ""
    return f"no complete pair yet{waiting}"


def _by_two_tests(experiment: Experiment, target: Target, claim: Claim) -> str | None:
    """Where the interval of the row sticks out of the margin, the reader is owed the one that does not."""
    inner, outer = claim.equivalence, claim.interval
    if inner is None or inner.low is None or inner.high is None:
        return None
    bound = log_margin(experiment.margin_of(target.metric.name))
    if outer.low is not None and outer.high is not None and -bound <= outer.low and outer.high <= bound:
        return None
    span = f"[{change(math.exp(inner.low), unit=False)}, {change(math.exp(inner.high), unit=False)}]"
    return f"by two one-sided tests, whose interval is {span}"
