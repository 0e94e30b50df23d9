"""The parts of the gap between two tasks' times, replicate by replicate, so that their means add up exactly too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from ..model import Interval, TaskPart
from ..stats import anytime
from ..stats.logmean import PARTS, TaskMeans, log_mean, split_task_time
from ..stats.paired import t_interval, t_multiplier
from ..stats.ratios import quotient_of_means
from .extract import Floats
from .tasks import Tasks

#: Share of calls whose tokens come all at once beyond which the time per token cannot be seen.
_HIDDEN = 0.5
#: Waiting that is a smaller share of the task's time is not told (a client's send delay).
_NEGLIGIBLE = 0.002

Rows = np.typing.NDArray[np.intp]


def total_s(arm: Mapping[str, Floats]) -> Floats:
    """Time of each task [s]."""
    return np.asarray(arm["waiting_s"] + arm["prefill_s"] + arm["decode_s"], dtype=np.float64)


def time_logs(tasks: Tasks, replicates: Sequence[Rows]) -> Floats:
    """ln of the ratio of mean task times, replicate by replicate."""
    base, other = total_s(tasks.base), total_s(tasks.other)
    return np.array([math.log(other[rows].mean() / base[rows].mean()) for rows in replicates])


def _means(arm: Mapping[str, Floats], rows: Rows, counted: bool) -> TaskMeans:
    mean = {name: float(arm[name][rows].mean()) for name in ("calls", "waiting_s", "prefill_s", "decode_s")}
    kinds = {name: float(arm[name][rows].mean()) if counted else 0.0 for name in ("reasoning", "output")}
    return TaskMeans(**mean, **kinds)


def task_parts(
    tasks: Tasks, replicates: Sequence[Rows], alpha: float, one_look: bool
) -> tuple[tuple[TaskPart, ...], list[str]]:
    """(the parts of the gap; what cannot be seen). Each replicate is split by itself, so that means add up too."""
    hidden = [
        name
        for name, arm in (("the base", tasks.base), ("the candidate", tasks.other))
        if float(arm["hidden"].sum()) > _HIDDEN * float(arm["calls"].sum())
    ]
    if hidden:
        return (), [f"the answers of {' and '.join(hidden)} come in one piece: where their time goes cannot be seen"]
    counted = all(bool(np.isfinite(arm["tokens"]).all()) for arm in (tasks.base, tasks.other))
    shares, seconds = [], []
    for rows in replicates:
        base, other = _means(tasks.base, rows, counted), _means(tasks.other, rows, counted)
        split = split_task_time(base, other)
        shares.append([split[name] for name in PARTS])
        seconds.append([split[name] * log_mean(other.total_s, base.total_s) for name in PARTS])
    every = np.arange(tasks.count)
    base, other = _means(tasks.base, every, counted), _means(tasks.other, every, counted)
    several = max(base.calls, other.calls) > 1
    table, times = np.array(shares), np.array(seconds)
    parts = []
    for place, name in enumerate(PARTS):
        before, after, unit = _value(name, base, several), _value(name, other, several), _unit(name, several, counted)
        if _there(name, before, after, base, other):
            parts.append(
                TaskPart(
                    name=name if counted or name != "time per token" else "decode",
                    base=before,
                    value=after,
                    unit=unit,
                    log_share=interval_of(table[:, place], alpha, one_look),
                    seconds=interval_of(times[:, place], alpha, one_look),
                    share=_share(table, place, alpha, one_look),
                )
            )
    return _closed(tuple(parts), table, times), [] if counted else ["tokens are not known in both arms"]


def _closed(parts: tuple[TaskPart, ...], table: Floats, times: Floats) -> tuple[TaskPart, ...]:
    """What negligible parts held goes to the largest one, so that the parts shown add up to the whole exactly."""
    if not parts:
        return parts
    rest = float(table.mean(axis=0).sum()) - sum(part.log_share.point or 0.0 for part in parts)
    rest_s = float(times.mean(axis=0).sum()) - sum(part.seconds.point or 0.0 for part in parts)
    largest = max(range(len(parts)), key=lambda i: abs(parts[i].log_share.point or 0.0))
    grown = msgspec.structs.replace(
        parts[largest],
        log_share=_moved(parts[largest].log_share, rest),
        seconds=_moved(parts[largest].seconds, rest_s),
    )
    return (*parts[:largest], grown, *parts[largest + 1 :])


def _share(table: Floats, place: int, alpha: float, one_look: bool) -> Interval:
    """The part's share of the gap: both come from the same replicates, so that their quotient is surer than either."""
    n = table.shape[0]
    multiplier = (t_multiplier if one_look else anytime.multiplier)(n, alpha) if n > 1 else math.inf
    return quotient_of_means(table[:, place], table.sum(axis=1), multiplier)


def _moved(interval: Interval, by: float) -> Interval:
    low, high = interval.low, interval.high
    return Interval(
        point=(interval.point or 0.0) + by,
        low=None if low is None else low + by,
        high=None if high is None else high + by,
    )


def _value(name: str, means: TaskMeans, several: bool) -> float:
    """The part's own value: of a task, or of a call where tasks have several."""
    per = means.calls if several else 1.0
    values = {
        "calls": means.calls,
        "waiting": means.waiting_s / per,
        "prefill": means.prefill_s / per,
        "reasoning tokens": means.reasoning / per,
        # The first token of every call is written too, though its time is the prefill's.
        "output tokens": (means.output + means.calls * (means.reasoning == 0)) / per,
        "time per token": means.per_token_s if means.tokens > 0 else means.decode_s / per,
    }
    return values[name]


def _unit(name: str, several: bool, counted: bool) -> str:
    if name == "calls":
        return "calls"
    if name.endswith("tokens"):
        return "tokens/call" if several else "tokens"
    return "s" if name == "time per token" and counted else ("s/call" if several else "s")


def _there(name: str, before: float, after: float, base: TaskMeans, other: TaskMeans) -> bool:
    if name == "calls":
        return max(before, after) > 1
    if name == "waiting":
        return base.waiting_s > _NEGLIGIBLE * base.total_s or other.waiting_s > _NEGLIGIBLE * other.total_s
    if name in ("reasoning tokens", "output tokens"):
        return base.tokens + other.tokens > 0 and max(before, after) > 0
    return True


def interval_of(values: Floats, alpha: float, one_look: bool) -> Interval:
    """Of the mean over replicates: for one look, or for one after each of them."""
    return t_interval(values, alpha) if one_look else anytime.interval(values, alpha)
