"""The gap between two tasks' times as a waterfall: from the base's time, part by part, to the candidate's."""

from __future__ import annotations

from itertools import pairwise

from ..compare.view_price_types import TaskTimeView
from ..compare.view_types import ArmView, View
from ..units import seconds
from .html_charts import PANEL_WIDTH, time_scale
from .html_element import Markup
from .html_svg import INK, LINE, Draftsman, Spec, arm_color

_ROW = 30
_LABELS = 124
_BAR = 14


def waterfall(pen: Draftsman, view: View, task: TaskTimeView) -> Markup | None:
    """Bars in seconds: both whole times in the arms' colours, each part red where it makes the task longer, green where
    shorter, its interval a thin line. None where the gap is not split."""
    if not task.parts or task.base_s is None or task.value_s is None:
        return None
    gap = sum(part.seconds for part in task.parts)
    # The parts are means over rounds, the times over tasks: what they differ by is less than a line's width.
    end = task.base_s + gap
    factor, unit = time_scale(max(task.base_s, end))
    base, candidate = _arm(view, view.base), _arm(view, task.candidate)
    rows: list[Spec] = [_whole(view.base, task.base_s, factor, arm_color(base))]
    at = task.base_s
    for part in task.parts:
        color = "var(--bad)" if part.seconds > 0 else "var(--good)"
        text = f"{part.change}{f', {part.share}' if part.share else ''}  ({part.base} → {part.value})"
        low = None if part.low is None else (at + part.low) * factor
        high = None if part.high is None else (at + part.high) * factor
        row = {
            "name": part.name,
            "from": at * factor,
            "to": (at + part.seconds) * factor,
        }
        rows.append({**row, "color": color, "text": text, "low": low, "high": high})
        at += part.seconds
    rows.append(_whole(task.candidate, end, factor, arm_color(candidate)))
    title = f"Time of {task.title} from {view.base} to {task.candidate}: " + "; ".join(
        f"{part.name} {part.change}" for part in task.parts
    )
    return pen.draw(_spec(rows, f"time of a task [{unit}]"), title)


def _arm(view: View, name: str) -> ArmView:
    return next((arm for arm in view.arms if arm.name == name), view.arms[0])


def _whole(name: str, time_s: float, factor: float, color: str) -> Spec:
    text = seconds(time_s)
    return {"name": name, "from": 0.0, "to": time_s * factor, "color": color, "text": text, "low": None, "high": None}


def _spec(rows: list[Spec], title: str) -> Spec:
    for place, row in enumerate(rows):
        row["row"] = place
    most = max(max(r["from"], r["to"], r["high"] or 0.0) for r in rows)
    least = min(0.0, *(min(r["from"], r["to"], 0.0 if r["low"] is None else r["low"]) for r in rows))
    ends = [least, most * 1.02]
    # Labels stand right of the bar and its interval; where that leaves the panel, the scale makes room for them.
    ends[1] += 0.62 * (most - least)
    x = {"type": "quantitative", "scale": {"domain": ends, "nice": False}}
    axis = {"title": title, "grid": True, "tickCount": 5, "format": ".6~r", "labelFlush": False}
    names = [row["name"] for row in rows]
    y = {
        "field": "row", "type": "ordinal", "title": None, "scale": {"paddingInner": 0.3},
        "axis": {"labelExpr": _labels(names), "labelLimit": _LABELS, "labelColor": INK, "minExtent": _LABELS,
                 "maxExtent": _LABELS, "grid": False},
    }  # fmt: skip
    color = {"field": "color", "type": "nominal", "scale": None}
    bars = {"type": "bar", "height": _BAR, "cornerRadius": 2, "aria": False}
    layers: list[Spec] = [
        _layer(rows, bars, {"x": {**x, "field": "from", "axis": axis}, "x2": {"field": "to"}, "y": y, "color": color})
    ]
    steps = [{"row": a["row"], "next": b["row"], "at": a["to"]} for a, b in pairwise(rows)]
    thin = {"type": "rule", "color": LINE, "strokeDash": [2, 2], "aria": False}
    layers.append(
        _layer(
            steps, thin, {"x": {**x, "field": "at", "axis": None}, "y": {**y, "field": "row"}, "y2": {"field": "next"}}
        )
    )
    sure = [row for row in rows if row["low"] is not None and row["high"] is not None]
    if sure:
        line = {"type": "rule", "color": INK, "strokeWidth": 1.5, "aria": False}
        layers.append(_layer(sure, line, {"x": {**x, "field": "low", "axis": None}, "x2": {"field": "high"}, "y": y}))
    placed = [{**row, "end": max(row["from"], row["to"], row["high"] or 0.0)} for row in rows]
    text = {"type": "text", "align": "left", "dx": 6, "color": INK, "fontSize": 11, "aria": False}
    label = {"field": "text", "type": "nominal"}
    layers.append(_layer(placed, text, {"x": {**x, "field": "end", "axis": None}, "y": y, "text": label}))
    return {
        "width": PANEL_WIDTH + 240,
        "height": _ROW * len(rows),
        "padding": {"left": 2, "right": 12, "top": 8, "bottom": 2},
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": layers,
    }


def _labels(names: list[str]) -> str:
    """An expression that picks a name by its row; names are quoted as JSON, so that they cannot leave their quotes."""
    import json

    return f"{json.dumps(names)}[datum.value]"


def _layer(values: list[Spec], mark: Spec, encoding: Spec) -> Spec:
    return {"data": {"values": values}, "mark": mark, "encoding": encoding}
