"""Vega-Lite specs to static, compact SVG. No chart is worth a failed report: a missing library gives None."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..compare.view_types import ArmView
from .html_element import Markup, h

Spec = dict[str, Any]

# Colours are names of CSS variables, so that one drawing serves dark, light and print.
INK, MUTED, GRID, LINE, BAND = "var(--ink)", "var(--muted)", "var(--grid)", "var(--line)", "var(--band)"
ARM_COLORS = 6
# Dashes tell the arms apart without colour; the base is solid.
DASHES: tuple[list[int], ...] = ([1, 0], [7, 3], [2, 2], [8, 3, 2, 3], [4, 4], [12, 3])

_NAMESPACES = re.compile(r' xmlns(?::xlink)?="[^"]*"')
_EMPTY_PATH = re.compile(r'<path class="(?:fore|back)ground" aria-hidden="true" d="[^"]*"(?: pointer-events="none")?'
                         r'(?: opacity="1")?(?: display="none")?/>')  # fmt: skip
_HIDDEN_TEXT = re.compile(r'<text [^>]*opacity="0">[^<]*</text>')
_GEOMETRY = re.compile(r' (?:d|transform|x2|y2|width|height|viewBox)="[^"]*"')
_LONG_NUMBER = re.compile(r"(\d\.\d\d)\d+")
_ROLES = re.compile(r' (?:role|aria-roledescription|aria-label|aria-hidden|pointer-events)="[^"]*"')
_ROOT = re.compile(r"<svg[^>]*>")


def arm_color(arm: ArmView) -> str:
    """The arm's colour, the same in every chart and legend."""
    return f"var(--arm-{arm.index % ARM_COLORS})"


def base_config() -> Spec:
    """One look for all charts."""
    return {
        "font": "sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": MUTED, "titleColor": MUTED, "domainColor": LINE, "tickColor": LINE, "gridColor": GRID,
            "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "domain": False, "ticks": False,
            "labelPadding": 6, "aria": False,
        },
        "title": {"color": MUTED, "fontSize": 11, "fontWeight": "normal", "anchor": "start", "offset": 4,
                  "aria": False},
        "mark": {"aria": False},
    }  # fmt: skip


class Draftsman:
    """Draws specs; remembers why it could not, so that the report says so once."""

    def __init__(self) -> None:
        self.problem: str | None = None
        try:
            import vl_convert
        except ImportError:
            self._convert: Any = None
            self.problem = "the package vl-convert-python is not installed"
        else:
            self._convert = vl_convert.vegalite_to_svg

    def draw(self, spec: Mapping[str, Any], title: str, *, css: str = "chart") -> Markup | None:
        """The chart as an `svg` element named `title` for those who cannot see it; None if it cannot be drawn."""
        if self._convert is None:
            return None
        whole = {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "background": None,
            "config": base_config(),
            **spec,
        }
        try:
            # No base URL is allowed: a chart has its data inside, and a report never reaches for a network.
            svg = self._convert(whole, allowed_base_urls=[])
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the converter is no Exception
            self.problem = self.problem or f"the chart library failed ({type(error).__name__})"
            return None
        return _compact(svg, title, css)


def _compact(svg: str, title: str, css: str) -> Markup:
    """Drops what the page does not need: namespaces, empty paths, hidden labels, digits below 1/100 pixel."""
    root = _ROOT.search(svg)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', root[0]) if root else None
    if root is None or size is None:
        raise ValueError("the chart library did not return an svg element")
    inner = svg[root.end() : svg.rindex("</svg>")]
    inner = _HIDDEN_TEXT.sub("", _ROLES.sub("", _EMPTY_PATH.sub("", _NAMESPACES.sub("", inner))))
    inner = _GEOMETRY.sub(lambda m: _LONG_NUMBER.sub(r"\1", m[0]), inner)
    attributes = {
        "class": css,
        "role": "img",
        "viewBox": f"0 0 {size[1]} {size[2]}",
        "width": size[1],
        "height": size[2],
    }
    return h("svg", attributes, h("title", None, title), Markup(inner))
