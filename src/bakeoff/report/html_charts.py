"""The charts of the HTML report, as Vega-Lite specs. They place what the view holds; they compute no statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..compare.view_types import ArmView, CrossingView, Distribution, PairSeries, Row
from ..units import seconds
from .html_element import Markup
from .html_svg import BAND, DASHES, INK, LINE, Draftsman, Spec, arm_color

PLOT_WIDTH, PLOT_HEIGHT = 230, 26
PANEL_WIDTH, PANEL_HEIGHT = 480, 196
TONES = {
    "good": "var(--good)", "bad": "var(--bad)", "equal": "var(--equal)",
    "unsure": "var(--unsure)", "invalid": "var(--invalid)",
}  # fmt: skip
# Changes in percent that a reader takes in at a glance, from the inside out.
_NICE = (0, -5, 5, -10, 10, -20, 20, -30, 30, -50, 50, -40, 40, 100, -75, 75, 200, -90, 400, 900, -95, 1900)
_PERCENT = (
    "abs(datum.value - 1) < 1e-6 ? '0 %' : "
    "(datum.value > 1 ? '+' : '−') + format(round(abs(datum.value - 1) * 1000) / 10, '~g') + ' %'"
)

# A fixed extent: the page's fonts are not those that the chart library measures with.
_Y_AXIS: Spec = {"title": None, "minExtent": 52, "maxExtent": 52}


def ratio_domain(rows: Sequence[Row]) -> tuple[float, float]:
    """Room for every interval of a table and for its margin, on a log axis."""
    margin = max((row.margin for row in rows), default=0.05)
    values = [1 - 2 * margin, 1 + 2 * margin]
    for row in rows:
        values += [v for v in (row.ratio.point, row.ratio.low, row.ratio.high) if v is not None and v > 0]
    return padded(values)


def padded(values: Sequence[float]) -> tuple[float, float]:
    """The values' range with 6 % of air on a log axis; beyond ×20 nothing would be readable."""
    low, high = max(min(values), 0.05), min(max(values), 20.0)
    air = max(0.06 * math.log(high / low), 0.004)
    return low * math.exp(-air), high * math.exp(air)


def ratio_ticks(domain: tuple[float, float], room: float = 0.17) -> list[float]:
    """Ratios to label, at least `room` of the axis apart."""
    span = math.log(domain[1] / domain[0])
    chosen: list[float] = []
    for percent in _NICE:
        ratio = 1 + percent / 100
        if domain[0] <= ratio <= domain[1] and all(abs(math.log(ratio / c)) >= room * span for c in chosen):
            chosen.append(ratio)
    return sorted(chosen)


def _within(ratio: float, domain: tuple[float, float]) -> float:
    """Drawn at the edge where it lies beyond it; a clip path would need ids that are unique in the page."""
    return min(max(ratio, domain[0]), domain[1])


def _ratio_x(domain: tuple[float, float]) -> Spec:
    return {"type": "quantitative", "scale": {"type": "log", "domain": list(domain), "nice": False}, "axis": None}


def _fixed(width: float, height: float, **rest: object) -> Spec:
    return {"width": width, "height": height, "padding": 0, "autosize": {"type": "none"}, **rest}


def interval_axis(pen: Draftsman, domain: tuple[float, float]) -> Markup | None:
    """The axis above the interval plots of one table."""
    axis = {"values": ratio_ticks(domain, 0.21), "labelExpr": _PERCENT, "orient": "top", "labelPadding": 2,
            "grid": False, "labelFlush": True, "labelBound": False, "title": None}  # fmt: skip
    spec = _fixed(
        PLOT_WIDTH,
        18,
        padding={"top": 0, "left": 0, "right": 0, "bottom": 0},
        data={"values": [{"r": 1}]},
        mark={"type": "tick", "opacity": 0, "color": LINE, "aria": False},
        encoding={"x": {**_ratio_x(domain), "field": "r", "axis": axis}},
    )
    # The axis hangs above the plot, so the plot is pushed down by its height.
    spec["autosize"] = {"type": "fit", "contains": "padding"}
    return pen.draw(spec, "Axis: change against the base in percent", css="plot axis")


def interval_plot(pen: Draftsman, row: Row, domain: tuple[float, float]) -> Markup | None:
    """One row's interval (line), estimate (dot), the margin (band) and no change (rule)."""
    x = _ratio_x(domain)
    color = TONES[row.tone]
    layers: list[Spec] = [
        _layer(
            {"a": _within(1 / (1 + row.margin), domain), "b": _within(1 + row.margin, domain)},
            {"type": "rect", "color": BAND, "aria": False},
            x,
            "a",
            "b",
        ),
        _layer({"a": 1}, {"type": "rule", "color": LINE, "aria": False}, x, "a"),
    ]
    low, high = row.ratio.low, row.ratio.high
    if low is not None or high is not None:
        ends = {
            "a": domain[0] if low is None else _within(low, domain),
            "b": domain[1] if high is None else _within(high, domain),
        }
        mark = {"type": "rule", "color": color, "strokeWidth": 3, "strokeCap": "round", "aria": False}
        if row.tone in ("unsure", "invalid"):
            mark |= {"strokeDash": [4, 4]}
        layers.append(_layer(ends, mark, x, "a", "b"))
    if row.ratio.point is not None:
        filled = row.tone not in ("unsure", "invalid")
        mark = {"type": "point", "size": 70, "opacity": 1, "stroke": color, "strokeWidth": 2, "aria": False}
        mark |= {"fill": color if filled else "var(--card)"}
        layers.append(_layer({"a": _within(row.ratio.point, domain)}, mark, x, "a"))
    title = f"{row.label} of {row.candidate}: {row.word}"
    return pen.draw(_fixed(PLOT_WIDTH, PLOT_HEIGHT, layer=layers), title, css="plot")


def _layer(value: Spec, mark: Spec, x: Spec, field: str, to: str | None = None) -> Spec:
    encoding: Spec = {"x": {**x, "field": field}}
    if to:
        encoding["x2"] = {"field": to}
    return {"data": {"values": [value]}, "mark": mark, "encoding": encoding}


def time_scale(largest: float) -> tuple[float, str]:
    """(factor, unit) that suits times up to `largest` [s]."""
    return (1e6, "µs") if largest < 1e-3 else (1e3, "ms") if largest < 2 else (1.0, "s")


def distribution(pen: Draftsman, data: Distribution, arms: Sequence[ArmView]) -> Markup | None:
    """Empirical distribution functions of all arms; the dot is the median."""
    low = min(curve.x[0] for curve in data.curves)
    high = max(curve.x[-1] for curve in data.curves)
    factor, unit = time_scale(high)
    by_name = {arm.name: arm for arm in arms}
    # A linear axis would press everything but the tail against the left edge.
    scale: Spec = {"type": "log" if low > 0 and high / low > 12 else "linear", "zero": False, "nice": False}
    scale["domain"] = [low * factor, high * factor] if high > low else [low * factor * 0.9, low * factor * 1.1 + 1e-9]
    axis = {"tickCount": 5, "format": ".6~r", "title": f"{data.label} [{unit}]", "grid": False, "domain": True}
    x = {"field": "x", "type": "quantitative", "scale": scale, "axis": axis}
    shares = {"values": [0, 0.25, 0.5, 0.75, 1], "labelExpr": "round(datum.value * 100) + ' %'", **_Y_AXIS}
    y = {"field": "p", "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": shares}
    layers: list[Spec] = []
    for curve in data.curves:
        arm = by_name[curve.arm]
        points = [{"x": curve.x[0] * factor, "p": 0.0}]
        points += [{"x": v * factor, "p": p} for v, p in zip(curve.x, curve.p, strict=True)]
        line = {"type": "line", "interpolate": "step-after", "strokeWidth": 2, "strokeDash": DASHES[arm.index % 6]}
        line |= {"color": arm_color(arm), "aria": False}
        layers.append({"data": {"values": points}, "mark": line, "encoding": {"x": x, "y": y}})
        dot = {"type": "point", "filled": True, "size": 52, "opacity": 1, "color": arm_color(arm), "aria": False}
        middle = [{"x": curve.median * factor, "p": 0.5}]
        layers.append({"data": {"values": middle}, "mark": dot, "encoding": {"x": x, "y": y}})
    title = f"{data.label}: share of requests at or below a value. " + "; ".join(
        f"{curve.arm} median {seconds(curve.median)}" for curve in data.curves
    )
    return pen.draw(_panel(layers), title)


def _panel(layers: list[Spec]) -> Spec:
    return {
        "width": PANEL_WIDTH,
        "height": PANEL_HEIGHT,
        "padding": {"left": 2, "right": 12, "top": 8, "bottom": 2},
        "autosize": {"type": "fit", "contains": "padding"},
        "layer": layers,
    }


def pair_plot(pen: Draftsman, series: PairSeries, arms: Sequence[ArmView]) -> Markup | None:
    """Candidate ÷ base of every pair in order of time, on the margin's band, with base against base beside it."""
    rounds = sorted({p.round for p in series.points})
    domain = padded([*(p.ratio for p in series.points), 1 - 2 * series.margin, 1 + 2 * series.margin])
    across = [rounds[0] - 0.5, rounds[-1] + 0.5]
    step = max(1, math.ceil(len(rounds) / 10))
    axis = {"values": rounds[::step], "format": "d", "title": "round", "grid": False, "labelFlush": False}
    axis |= {"labelExpr": "datum.value + 1"}
    x = {"field": "n", "type": "quantitative", "scale": {"domain": across, "nice": False}, "axis": axis}
    changes = {"values": ratio_ticks(domain), "labelExpr": _PERCENT, **_Y_AXIS}
    scale = {"type": "log", "domain": list(domain), "nice": False}
    y = {"field": "r", "type": "quantitative", "scale": scale, "axis": changes}
    layers: list[Spec] = _groups(series, across)
    band = {"n": across[0], "to": across[1], "r": 1 / (1 + series.margin), "s": 1 + series.margin}
    layers.append({
        "data": {"values": [band]}, "mark": {"type": "rect", "color": BAND, "aria": False},
        "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "y2": {"field": "s"}},
    })  # fmt: skip
    layers.append({
        "data": {"values": [{"n": across[0], "to": across[1], "r": 1}]},
        "mark": {"type": "rule", "color": LINE, "aria": False},
        "encoding": {"x": x, "x2": {"field": "to"}, "y": y},
    })  # fmt: skip
    for arm in arms:
        layers += _pair_layers(series, arm, x, y, domain)
    return pen.draw(_panel(layers), f"{series.label}: change against the base by round")


def _pair_layers(series: PairSeries, arm: ArmView, x: Spec, y: Spec, domain: tuple[float, float]) -> list[Spec]:
    """A candidate's pairs as dots on a thin line; the base's second visits as hollow diamonds."""
    points = [{"n": p.round, "r": _within(p.ratio, domain)} for p in series.points if p.arm == arm.name]
    if not points:
        return []
    color = arm_color(arm)
    data = {"values": points}
    encoding = {"x": x, "y": y}
    if arm.index == 0:
        mark = {"type": "point", "shape": "diamond", "size": 90, "strokeWidth": 2, "stroke": INK, "fill": "var(--card)"}
        return [{"data": data, "mark": {**mark, "opacity": 1, "aria": False}, "encoding": encoding}]
    line = {"type": "line", "color": color, "strokeWidth": 1.25, "strokeDash": DASHES[arm.index % 6], "aria": False}
    dot = {"type": "point", "filled": True, "size": 46, "opacity": 1, "color": color, "aria": False}
    layers: list[Spec] = [{"data": data, "mark": mark, "encoding": encoding} for mark in (line, dot)]
    apart = [{"n": p.round, "r": _within(p.ratio, domain)} for p in series.points if p.arm == arm.name and p.outlier]
    if apart:
        ring = {"type": "point", "filled": False, "size": 150, "strokeWidth": 1.5, "stroke": INK, "aria": False}
        layers.append({"data": {"values": apart}, "mark": ring, "encoding": encoding})
    return layers


def crossing_plot(pen: Draftsman, data: CrossingView, arms: Sequence[ArmView]) -> Markup | None:
    """The ratio at every level with its interval, and the stretch of the axis where it may be 1."""
    if len(data.points) < 2:
        return None
    color = next((arm_color(arm) for arm in arms if arm.name == data.candidate), INK)
    spread = [v for _, r in data.points for v in (r.point, r.low, r.high) if v is not None and v > 0]
    domain = padded([*spread, 1 - 2 * data.margin, 1 + 2 * data.margin])
    levels = [level for level, _ in data.points]
    across = [levels[0] / 1.12, levels[-1] * 1.12]
    axis = {"values": levels, "format": "~g", "title": f"{data.axis} [{data.unit}]", "grid": False, "labelFlush": False}
    x = {"field": "n", "type": "quantitative", "axis": axis}
    x["scale"] = {"type": "log", "domain": across, "nice": False}
    changes = {"values": ratio_ticks(domain), "labelExpr": _PERCENT, **_Y_AXIS}
    y = {"field": "r", "type": "quantitative", "axis": changes}
    y["scale"] = {"type": "log", "domain": list(domain), "nice": False}
    wide = {"x": x, "x2": {"field": "to"}, "y": y, "y2": {"field": "s"}}
    band = {"n": across[0], "to": across[1], "r": 1 / (1 + data.margin), "s": 1 + data.margin}
    layers: list[Spec] = [_marks([band], {"type": "rect", "color": BAND}, wide)]
    if data.at.low is not None and data.at.high is not None:
        stretch = {"n": data.at.low, "to": data.at.high, "r": domain[0], "s": domain[1]}
        layers.append(_marks([stretch], {"type": "rect", "color": color, "opacity": 0.16}, wide))
    rule = {"x": x, "x2": {"field": "to"}, "y": y}
    layers.append(_marks([{"n": across[0], "to": across[1], "r": 1}], {"type": "rule", "color": LINE}, rule))
    bars = [
        {"n": level, "r": _within(r.low, domain), "s": _within(r.high, domain)}
        for level, r in data.points
        if r.low is not None and r.high is not None
    ]
    dots = [{"n": level, "r": _within(r.point, domain)} for level, r in data.points if r.point is not None]
    place = {"x": x, "y": y}
    layers.append(_marks(bars, {"type": "rule", "color": color, "strokeWidth": 2}, {**place, "y2": {"field": "s"}}))
    layers.append(_marks(dots, {"type": "line", "color": color, "strokeWidth": 1.25}, place))
    dot = {"type": "point", "filled": True, "size": 56, "opacity": 1, "color": color}
    layers.append(_marks(dots, dot, place))
    return pen.draw(_panel(layers), f"{data.label} along {data.axis}: {data.text}")


def _marks(values: list[Spec], mark: Spec, encoding: Spec) -> Spec:
    return {"data": {"values": values}, "mark": {**mark, "aria": False}, "encoding": encoding}


def _groups(series: PairSeries, across: list[float]) -> list[Spec]:
    """Thin rules where new starts begin, if a start serves several rounds."""
    first: dict[int, int] = {}
    for point in series.points:
        first[point.group] = min(point.round, first.get(point.group, point.round))
    rounds = {p.round for p in series.points}
    if len(first) in (1, len(rounds)):
        return []
    edges = [{"n": number - 0.5} for number in sorted(first.values())[1:]]
    x = {"field": "n", "type": "quantitative", "scale": {"domain": across}, "axis": None}
    rule = {"type": "rule", "color": LINE, "strokeDash": [2, 3], "aria": False}
    return [{"data": {"values": edges}, "mark": rule, "encoding": {"x": x}}]
