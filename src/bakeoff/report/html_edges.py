"""The section on how much load each variant bears, where the load levels were searched."""

from __future__ import annotations

from ..compare.view_types import View
from .figures import edge_lines
from .html_element import Markup, h, prose
from .html_verdict import section


def edges(view: View) -> Markup | None:
    """One sentence a candidate and workload; nothing where no load was searched."""
    if not view.edges:
        return None
    lead = (
        "Load levels were searched with each variant alone, then compared interleaved. A bound of … is open: the "
        "levels do not reach it."
    )
    return section(
        "edges",
        "How much load each bears",
        lead,
        h("ul", None, [h("li", None, prose(t)) for t in edge_lines(view.edges)]),
    )
