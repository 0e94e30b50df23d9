"""report.html: one self-contained page without a script, that fetches nothing and escapes all that it shows."""

from __future__ import annotations

from ..compare.view_types import View
from .html_edges import edges
from .html_element import Markup, h
from .html_evidence import crossings, distributions, environment, method, outputs, pairs, timeline
from .html_page import page
from .html_svg import Draftsman
from .html_verdict import findings, hero, measurements, resources, warnings
from .price_html import price_of_resources, task_time
from .quality_html import quality


def render_html(view: View) -> str:
    """The page. Without the chart library, or if it fails, tables stay and one line says why charts are missing."""
    pen = Draftsman()
    sections = [
        measurements(view, pen),
        resources(view, pen),
        quality(view),
        task_time(view, pen),
        price_of_resources(view),
        edges(view),
        crossings(view, pen),
        findings(view),
        warnings(view),
        distributions(view, pen),
        pairs(view, pen),
        timeline(view, pen),
        outputs(view),
        environment(view),
        method(view),
    ]
    present = [section for section in sections if section is not None]
    title = f"{view.base} → {', '.join(view.candidates)} · {view.name}"
    return page(
        title,
        h("a", {"class": "skip", "href": "#measurements"}, "Skip to the measurements"),
        hero(view),
        h("main", None, _problem(pen), present),
        h("footer", None, f"Bakeoff · run {view.run}", " · redacted for sharing" if view.redacted else None),
    )


def _problem(pen: Draftsman) -> Markup | None:
    if pen.problem is None:
        return None
    return h(
        "p", {"class": "banner"}, f"! The charts could not be drawn: {pen.problem}. All figures are in the tables."
    )
