"""Limits for continuous integration: ``chat.tpot_s > +5%`` as a condition on a result."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ..errors import UsageError
from ..metrics import METRICS
from ..model import Comparison, Result

_FORM = re.compile(
    r"^\s*(?:(?P<workload>[\w\-]+)\.)?(?P<metric>[a-z0-9_]+)(?:\.(?P<statistic>p50|p95|p99|mean|total|peak))?"
    r"\s*(?P<sign>[<>])\s*(?P<limit>[+\-−]?\s*\d+(?:\.\d+)?)\s*%\s*$"
)


class Limit(NamedTuple):
    """A change of a metric, in every load of a workload, against a limit (relative)."""

    text: str
    workload: str | None
    metric: str
    statistic: str
    sign: Literal["<", ">"]
    change: float

    def rows(self, result: Result) -> list[Comparison]:
        """The comparisons that the limit speaks of."""
        return [
            row
            for row in (*result.comparisons, *result.resources)
            if row.metric == self.metric
            and row.statistic == self.statistic
            and (self.workload is None or row.workload == self.workload)
        ]


def parse_limit(text: str) -> Limit:
    """Reads one limit. Raises UsageError with the form."""
    match = _FORM.match(text)
    if match is None:
        raise UsageError(
            f"{text!r} is not a limit",
            remedy="write WORKLOAD.METRIC > +5% or METRIC < +5%, for example 'chat.tpot_s > +5%'",
        )
    metric = METRICS.get(match["metric"])
    if metric is None:
        raise UsageError(f"unknown metric {match['metric']!r} in {text!r}", remedy="one of: " + ", ".join(METRICS))
    statistic = match["statistic"] or metric.statistics[0]
    if statistic not in metric.statistics:
        raise UsageError(
            f"{metric.name} has no statistic {statistic!r}", remedy="one of: " + ", ".join(metric.statistics)
        )
    limit = float(match["limit"].replace("−", "-").replace(" ", "").replace("+", "")) / 100
    sign: Literal["<", ">"] = "<" if match["sign"] == "<" else ">"
    return Limit(text.strip(), match["workload"], metric.name, statistic, sign, limit)


def failures(result: Result, fail_if: list[Limit], fail_unless: list[Limit]) -> list[str]:
    """Sentences, one per limit and row that fails; empty when all hold.

    `fail_if` fails when the whole interval lies beyond the limit (proof of harm). `fail_unless` fails unless the
    whole interval lies on the good side (proof of no harm): the non-inferiority form, where ignorance fails.
    """
    found = []
    for limit, must_hold in [(limit, False) for limit in fail_if] + [(limit, True) for limit in fail_unless]:
        rows = limit.rows(result)
        if not rows:
            raise UsageError(
                f"{limit.text!r} matches nothing in this result", remedy="check the workload's and the metric's name"
            )
        for row in rows:
            proven = _wholly(row, limit)
            if proven != must_hold:
                kind = "--fail-unless" if must_hold else "--fail-if"
                found.append(f"{kind} {limit.text!r}: {row.candidate} {_where(row)}{_interval(row)}")
    return found


def _wholly(row: Comparison, limit: Limit) -> bool:
    if row.outcome == "invalid":
        return False
    edge = 1 + limit.change
    if limit.sign == ">":
        return row.ratio.low is not None and row.ratio.low > edge
    return row.ratio.high is not None and row.ratio.high < edge


def _where(row: Comparison) -> str:
    load = ", ".join(f"{name} {value:g}" for name, value in row.load.items())
    return f"{row.workload or 'start'}{f' ({load})' if load else ''}: {row.metric} {row.statistic} "


def _interval(row: Comparison) -> str:
    if row.outcome == "invalid":
        return "invalid"
    if row.ratio.low is None or row.ratio.high is None or row.ratio.point is None:
        return "has no interval"
    return f"{row.ratio.point - 1:+.1%} [{row.ratio.low - 1:+.1%}, {row.ratio.high - 1:+.1%}]"
