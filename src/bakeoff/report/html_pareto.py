"""Time of a solved task against quality, memory as size: which variant is beaten in both?"""

from __future__ import annotations

from ..compare.view_price_types import ParetoPoint, ParetoView
from ..compare.view_types import View
from ..units import seconds, size
from .html_charts import PANEL_HEIGHT, PANEL_WIDTH, time_scale
from .html_element import Markup
from .html_svg import INK, LINE, Draftsman, Spec, arm_color

_LARGEST, _SMALLEST = 900.0, 60.0  # areas of the largest memory and of an unknown one [px²]

_WIDTH, _HEIGHT = PANEL_WIDTH + 60, PANEL_HEIGHT + 40  # of the drawing without its axis, about
_NEAREST, _LINE, _CHARACTER = 9, 15, 6.3  # of the names [px]


def pareto(pen: Draftsman, view: View, data: ParetoView) -> Markup | None:
    """Up and to the left is better. A line joins the variants that none of the others beats in both."""
    known = [p for p in data.points if p.time.point is not None and p.quality.point is not None]
    if len(known) < 2:
        return None
    times = [v for p in known for v in (p.time.point, p.time.low, p.time.high) if v is not None]
    factor, unit = time_scale(max(times))
    shares = [v for p in known for v in (p.quality.point, p.quality.low, p.quality.high) if v is not None]
    room = 0.12 * (max(times) - min(times)) or 0.1 * max(times)
    air = max(0.12 * (max(shares) - min(shares)), 0.01)
    x = _axis("t", [(min(times) - room) * factor, (max(times) + 3 * room) * factor], f"time of a solved task [{unit}]")
    y = _axis("q", [min(shares) - air, max(shares) + air], None)
    y["axis"] |= {"labelExpr": "round(datum.value * 1000) / 10 + ' %'", "minExtent": 52, "maxExtent": 52}
    layers = [_front(known, factor, x, y)]
    largest = max((p.memory or 0.0) for p in known)
    ordered = sorted(known, key=lambda p: p.time.point or 0.0)
    place = {"x": x, "y": y}
    for point in ordered:
        layers += _point(view, point, factor, place, largest)
    for point, shift in zip(
        ordered, name_shifts(ordered, x["scale"]["domain"], y["scale"]["domain"], factor), strict=True
    ):
        layers += _name(point, factor, place, (largest, shift))
    told = "; ".join(_words(point) for point in known)
    spec = {
        "width": _WIDTH + 60,
        "height": _HEIGHT,
        "padding": {"left": 2, "right": 12, "top": 8, "bottom": 2},
        "autosize": {"type": "fit", "contains": "padding"},
        "layer": layers,
    }
    return pen.draw(spec, f"Quality against the time of a solved task, {data.title}: {told}")


def _axis(field: str, domain: list[float], title: str | None) -> Spec:
    axis = {"title": title, "grid": True, "tickCount": 5, "format": ".6~r", "labelFlush": False}
    return {"field": field, "type": "quantitative", "scale": {"domain": domain, "nice": False}, "axis": axis}


def _front(points: list[ParetoPoint], factor: float, x: Spec, y: Spec) -> Spec:
    best = sorted((p for p in points if p.best), key=lambda p: p.time.point or 0.0)
    values = [{"t": (p.time.point or 0.0) * factor, "q": p.quality.point} for p in best]
    mark = {"type": "line", "color": LINE, "strokeWidth": 1.5, "interpolate": "step-after", "aria": False}
    return {"data": {"values": values}, "mark": mark, "encoding": {"x": x, "y": y}}


def name_shifts(points: list[ParetoPoint], x: list[float], y: list[float], factor: float) -> list[float]:
    """How far above (−) or below its disc each name stands [px], so that no two run into each other.

    Each takes the nearest free place; sizes are estimates, for text is laid out by the browser only.
    """
    taken: list[tuple[float, float, float]] = []  # left, right, centre
    shifts = []
    for point in points:
        left = ((point.time.point or 0.0) * factor - x[0]) / (x[1] - x[0]) * _WIDTH
        level = (y[1] - (point.quality.point or 0.0)) / (y[1] - y[0]) * _HEIGHT
        right = left + _CHARACTER * len(_label(point))
        near = (sign * step for step in range(_NEAREST, _NEAREST + _LINE * 2 * len(points), _LINE) for sign in (-1, 1))
        free = (
            s
            for s in near
            if all(right < a or left > b or abs(level + s - c) >= _LINE for a, b, c in taken)
            and 0 <= level + s <= _HEIGHT
        )
        shift = next(free, -_NEAREST)
        taken.append((left, right, level + shift))
        shifts.append(float(shift))
    return shifts


def _point(view: View, point: ParetoPoint, factor: float, place: Spec, largest: float) -> list[Spec]:
    """Its intervals as a cross, its memory as the disc's area (largest: of all), hollow where it is not known."""
    arm = view.arms[point.index]
    color = arm_color(arm)
    value = {"t": (point.time.point or 0.0) * factor, "q": point.quality.point}
    thin = {"type": "rule", "color": color, "strokeWidth": 1.25, "aria": False}
    layers: list[Spec] = []
    if point.time.low is not None and point.time.high is not None:
        ends = {**value, "t": point.time.low * factor, "to": point.time.high * factor}
        layers.append({"data": {"values": [ends]}, "mark": thin, "encoding": {**place, "x2": {"field": "to"}}})
    if point.quality.low is not None and point.quality.high is not None:
        ends = {**value, "q": point.quality.low, "to": point.quality.high}
        layers.append({"data": {"values": [ends]}, "mark": thin, "encoding": {**place, "y2": {"field": "to"}}})
    disc: Spec = {"type": "point", "size": _area(point, largest), "stroke": color, "strokeWidth": 2, "aria": False}
    disc |= (
        {"fill": color, "fillOpacity": 0.22, "opacity": 1} if point.memory else {"fill": "var(--card)", "opacity": 1}
    )
    layers.append({"data": {"values": [value]}, "mark": disc, "encoding": place})
    dot: Spec = {"type": "point", "size": 18, "filled": True, "color": color, "opacity": 1, "aria": False}
    layers.append({"data": {"values": [value]}, "mark": dot, "encoding": place})
    return layers


def _name(point: ParetoPoint, factor: float, place: Spec, look: tuple[float, float]) -> list[Spec]:
    """The point's name on a border of the card's colour, so that it can be read across discs and lines.

    look: the largest memory of all, and how far below the disc's middle the name stands [px].
    """
    largest, shift = look
    value = {"t": (point.time.point or 0.0) * factor, "q": point.quality.point, "name": _label(point)}
    text: Spec = {"type": "text", "align": "left", "baseline": "middle", "fontSize": 11, "aria": False}
    text |= {"dx": 4 + (_area(point, largest) ** 0.5) / 2, "dy": shift, "color": INK}
    border = {**text, "stroke": "var(--card)", "strokeWidth": 4, "color": "var(--card)"}
    encoding = {**place, "text": {"field": "name", "type": "nominal"}}
    return [{"data": {"values": [value]}, "mark": mark, "encoding": encoding} for mark in (border, text)]


def _area(point: ParetoPoint, largest: float) -> float:
    return _SMALLEST if not point.memory or not largest else max(_SMALLEST, _LARGEST * point.memory / largest)


def _label(point: ParetoPoint) -> str:
    return f"{point.arm}, {size(point.memory)}" if point.memory else point.arm


def _words(point: ParetoPoint) -> str:
    quality = (point.quality.point or 0.0) * 100
    best = "" if point.best else ", another is no slower and no worse"
    return f"{_label(point)}: {seconds(point.time.point)}, {quality:.1f} %{best}"
