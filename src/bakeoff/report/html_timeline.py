"""The block timeline: every block on its variant's lane, and below it how fit the bench was, on the same axis."""

from __future__ import annotations

from collections.abc import Sequence

from ..compare.view_types import ArmView, Strip, Timeline
from .html_element import Markup
from .html_svg import Draftsman, Spec, arm_color

WIDTH = 1000
_LANE, _STRIP = 24, 42
_EXTENT = 92
_STRIPS = 9
# Below these a strip's axis would show the noise of an idle machine as if it mattered.
_LEAST = {"other_cpu_share": 0.2, "steal_share": 5.0, "send_delay_p99_s": 1.0, "loop_lag_p99_s": 1.0,
          "parse_backlog_p99_s": 1.0,
          "tree_cpu_share": 1.0, "client_cpu_share": 0.2, "gpu_busy": 100.0}  # fmt: skip


def timeline_chart(pen: Draftsman, data: Timeline, arms: Sequence[ArmView]) -> Markup | None:
    """One drawing, wider than a phone: the page lets it scroll."""
    last = max(bar.end for bar in data.bars)
    factor, unit = (60.0, "s") if last < 3 else (1.0, "min")
    x = {"field": "a", "type": "quantitative", "scale": {"domain": [0, last * factor], "nice": False}}
    shown = data.strips[:_STRIPS]
    strips = [_strip(strip, arms, x, factor, bottom=i == len(shown) - 1, unit=unit) for i, strip in enumerate(shown)]
    lanes = _lanes(data, arms, x, factor, None if strips else unit)
    spec = {
        "padding": {"left": 2, "right": 14, "top": 4, "bottom": 2},
        "spacing": 14,
        "vconcat": [lanes, *strips],
    }
    return pen.draw(spec, "Blocks and bench quantities over time", css="chart wide")


def _x(x: Spec, unit: str | None) -> Spec:
    if unit is None:
        return {**x, "axis": None}
    return {**x, "axis": {"title": f"time [{unit}]", "grid": False, "tickCount": 8, "format": ".6~r", "domain": True}}


def _lanes(data: Timeline, arms: Sequence[ArmView], x: Spec, factor: float, unit: str | None) -> Spec:
    y = {
        "field": "lane",
        "type": "nominal",
        "sort": [arm.name for arm in arms],
        "axis": {
            "title": None,
            "minExtent": _EXTENT,
            "maxExtent": _EXTENT,
            "labelLimit": _EXTENT - 10,
            "labelFontSize": 12,
        },
        "scale": {"domain": [arm.name for arm in arms], "paddingInner": 0.25},
    }
    layers: list[Spec] = []
    for arm in arms:
        for again in (False, True):
            bars = [b for b in data.bars if b.arm == arm.name and b.aa is again]
            if not bars:
                continue
            values = [{"a": b.start * factor, "b": b.end * factor, "lane": b.arm} for b in bars]
            mark = {"type": "rect", "cornerRadius": 1.5, "color": arm_color(arm), "aria": False}
            if again:
                mark |= {"fill": "var(--card)", "stroke": arm_color(arm), "strokeWidth": 1.5}
            encoding = {"x": _x(x, unit), "x2": {"field": "b"}, "y": y}
            layers.append({"data": {"values": values}, "mark": mark, "encoding": encoding})
    failed = [{"a": (b.start + b.end) / 2 * factor, "lane": b.arm} for b in data.bars if b.errors]
    if failed:
        mark = {"type": "point", "shape": "triangle-down", "size": 70, "filled": True, "opacity": 1, "aria": False}
        mark |= {"color": "var(--bad)", "stroke": "var(--card)", "strokeWidth": 1.5, "yOffset": -9}
        layers.append({"data": {"values": failed}, "mark": mark, "encoding": {"x": _x(x, unit), "y": y}})
    return {"width": WIDTH - _EXTENT, "height": _LANE * len(arms), "layer": layers}


def _strip(strip: Strip, arms: Sequence[ArmView], x: Spec, factor: float, *, bottom: bool, unit: str) -> Spec:
    """Steps, one value a block; a gap between two blocks is a start, a warm-up or a pause."""
    scale, label = _unit(strip)
    largest = max(value for *_, value in strip.segments) * scale
    smallest = min(value for *_, value in strip.segments) * scale
    from_zero = strip.unit not in ("MHz", "°C")
    domain = [0.0, max(largest, _LEAST.get(strip.name, 0.0)) or 1.0] if from_zero else [smallest * 0.98, largest * 1.02]
    y = {
        "field": "v",
        "type": "quantitative",
        "scale": {"domain": domain, "nice": 2},
        "axis": {"title": None, "tickCount": 2, "format": ".6~r", "minExtent": _EXTENT, "maxExtent": _EXTENT},
    }
    layers: list[Spec] = []
    for arm in arms:
        values: list[Spec] = []
        for name, start, end, value in strip.segments:
            if name == arm.name:
                values += [{"a": start * factor, "v": value * scale}, {"a": end * factor, "v": value * scale}]
                values.append({"a": end * factor, "v": None})
        if values:
            mark = {"type": "line", "color": arm_color(arm), "strokeWidth": 2.5, "strokeCap": "butt", "aria": False}
            encoding = {"x": _x(x, unit if bottom else None), "y": y, "order": {"value": None}}
            layers.append({"data": {"values": values}, "mark": mark, "encoding": encoding})
    title = {"text": f"{strip.label} [{label}]", "anchor": "start", "frame": "group"}
    return {"title": title, "width": WIDTH - _EXTENT, "height": _STRIP, "layer": layers}


def _unit(strip: Strip) -> tuple[float, str]:
    if strip.unit == "share":
        return 100.0, "%"
    if strip.unit == "s":
        return 1e3, "ms"
    if strip.unit == "B":
        return (1e-9, "GB") if max(v for *_, v in strip.segments) >= 2e9 else (1e-6, "MB")
    return 1.0, strip.unit
