"""Limits for continuous integration: ``chat.tpot_s > +5%`` as a condition on a result."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ..errors import UsageError
from ..metrics import METRICS
from ..model import Comparison, Result

_FORM = re.compile(
    r"^\s*(?P<row>[\w\-]+(?:\.[\w\-]+){0,2})\s*(?P<sign>[<>])\s*(?P<limit>[+\-−]?\s*\d+(?:\.\d+)?)\s*%\s*$"
)
_STATISTICS = frozenset(statistic for metric in METRICS.values() for statistic in metric.statistics)


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
    workload, name, statistic = _taken_apart(match["row"].split("."))
    metric = METRICS.get(name)
    if metric is None:
        raise UsageError(f"unknown metric {name!r} in {text!r}", remedy="one of: " + ", ".join(METRICS))
    statistic = statistic or metric.statistics[0]
    if statistic not in metric.statistics:
        raise UsageError(
            f"{metric.name} has no statistic {statistic!r}", remedy="one of: " + ", ".join(metric.statistics)
        )
    limit = float(match["limit"].replace("−", "-").replace(" ", "").replace("+", "")) / 100
    sign: Literal["<", ">"] = "<" if match["sign"] == "<" else ">"
    return Limit(text.strip(), workload, metric.name, statistic, sign, limit)


def _taken_apart(parts: list[str]) -> tuple[str | None, str, str | None]:
    """(workload, metric, statistic) of ``[workload.]metric[.statistic]``. No workload is named as a metric is."""
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    if len(parts) == 1:
        return None, parts[0], None
    first, second = parts
    if first in METRICS and second not in METRICS:
        return None, first, second
    if second not in METRICS and second in _STATISTICS:
        return None, first, second  # what is misspelt is the metric
    return first, second, None


def failures(result: Result, fail_if: list[Limit], fail_unless: list[Limit]) -> list[str]:
    """Sentences, one per limit and row that fails; empty when all hold.

    `fail_if` fails when the whole interval lies beyond the limit (proof of harm). `fail_unless` fails unless the
    whole interval lies on the good side (proof of no harm): the non-inferiority form, where ignorance fails.
    """
    found = []
    for limit, must_hold in [(limit, False) for limit in fail_if] + [(limit, True) for limit in fail_unless]:
        rows = limit.rows(result)
        if not rows:
            raise _unmatched(limit, result)
        for row in rows:
            proven = _wholly(row, limit)
            if proven != must_hold:
                kind = "--fail-unless" if must_hold else "--fail-if"
                found.append(f"{kind} {limit.text!r}: {row.candidate} {_where(row)}{_interval(row)}")
    return found


def _unmatched(limit: Limit, result: Result) -> UsageError:
    """Which part of the limit no row of the result has."""
    from ..compare.pairs import TAIL_REQUESTS

    rows = (*result.comparisons, *result.resources)
    workloads = dict.fromkeys(row.workload for row in rows if row.workload is not None)
    there = [row for row in rows if limit.workload is None or row.workload == limit.workload]
    statistics = dict.fromkeys(row.statistic for row in there if row.metric == limit.metric)
    message = f"{limit.text!r} matches nothing in this result: "
    if not there:
        return UsageError(
            f"{message}it has no workload {limit.workload!r}", remedy="one of: " + (", ".join(workloads) or "none")
        )
    if statistics:
        least = TAIL_REQUESTS.get(limit.statistic)
        tail = least is not None and METRICS[limit.metric].scope == "request"
        needs = f" (it takes {least:,} requests a block, or with `method: fixed` in all)" if tail else ""
        return UsageError(
            f"{message}{limit.statistic} of {limit.metric} is not reported{needs}",
            remedy="reported here: " + ", ".join(statistics),
        )
    if limit.workload is not None and any(row.metric == limit.metric for row in rows):
        return UsageError(
            f"{message}{limit.metric} is not reported of {limit.workload!r}", remedy="leave the workload out"
        )
    metrics = dict.fromkeys(row.metric for row in there)
    return UsageError(f"{message}{limit.metric} is not reported", remedy="reported here: " + ", ".join(metrics))


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
