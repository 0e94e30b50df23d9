"""Crossings as reports show them: a sentence, and the ratio at every level measured."""

from __future__ import annotations

import math

from ..model import Crossing, Experiment, Ratio, Result
from ..units import rounded
from .view_redact import Cleaner
from .view_text import load_words, metric_label
from .view_types import CrossingView

#: Name and unit of every axis, and how a level on it is told.
AXES = {
    "concurrency": ("concurrency", "at a time"),
    "rate": ("rate", "requests/s"),
    "replay": ("speed of the replay", "× as recorded"),
    "input_tokens": ("prompt length", "tokens"),
    "output_tokens": ("answer length", "tokens"),
}


def crossing_views(result: Result, experiment: Experiment, clean: Cleaner) -> tuple[CrossingView, ...]:
    """Every line of cells along which something could cross."""
    return tuple(_view(result, experiment, crossing, clean) for crossing in result.crossings)


def _view(result: Result, experiment: Experiment, crossing: Crossing, clean: Cleaner) -> CrossingView:
    axis, unit = AXES[crossing.axis]
    candidate = clean(crossing.candidate, 60)
    where = ", ".join(
        [
            *(clean(name, 40) for name in crossing.workloads[:1] if len(crossing.workloads) == 1),
            *(load_words(kind, level) for kind, level in crossing.load.items()),
        ]
    )
    return CrossingView(
        candidate=candidate,
        label=metric_label(crossing.metric, crossing.statistic),
        axis=axis,
        unit=unit,
        where=where,
        status=crossing.status,
        text=_text(crossing, candidate, clean(result.base, 60)),
        at=crossing.at,
        margin=experiment.margin_of(crossing.metric),
        points=_points(result, experiment, crossing),
    )


def _text(crossing: Crossing, candidate: str, base: str) -> str:
    unit = AXES[crossing.axis][1]
    span = f"{crossing.levels[0]:,.6g} and {crossing.levels[-1]:,.6g} {unit}"
    if crossing.status == "none":
        ahead = candidate if crossing.better_below else base
        return f"no crossing between {span}: {ahead} is ahead all over"
    if crossing.status == "unresolved" or crossing.at.point is None:
        return f"between {span} these pairs do not tell whether it crosses"
    low, high = crossing.at.low, crossing.at.high
    bounds = (
        f" [{rounded(low, 3, math.floor)}, {rounded(high, 3, math.ceil)}]"
        if low is not None and high is not None
        else ""
    )
    below, above = (candidate, base) if crossing.better_below else (base, candidate)
    sides = f"{below} is ahead below, {above} above"
    if crossing.gap:
        a, b = crossing.gap
        where = f"between {a:,.6g} and {b:,.6g} {unit}, on a straight line at {rounded(crossing.at.point, 3)}{bounds}"
        return f"crosses {where}: {sides}"
    return f"crosses at {rounded(crossing.at.point, 3)}{bounds} {unit}: {sides}"


def _points(result: Result, experiment: Experiment, crossing: Crossing) -> tuple[tuple[float, Ratio], ...]:
    found = []
    for row in result.comparisons:
        same = (row.candidate, row.metric, row.statistic) == (crossing.candidate, crossing.metric, crossing.statistic)
        if same and row.workload in crossing.workloads and row.outcome != "invalid":
            level = _level(experiment, crossing, row.workload or "", row.load)
            if level is not None and row.ratio.point is not None:
                found.append((level, row.ratio))
    return tuple(sorted(found, key=lambda point: point[0]))


def _level(experiment: Experiment, crossing: Crossing, workload: str, load: dict[str, float]) -> float | None:
    if crossing.axis in ("input_tokens", "output_tokens"):
        if load != crossing.load:
            return None
        known = experiment.workload(workload)
        tokens = known.prompts.input_tokens if crossing.axis == "input_tokens" else known.output_tokens
        return float(tokens) if tokens else None
    return load.get(crossing.axis)
