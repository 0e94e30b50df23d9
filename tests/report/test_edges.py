"""How much load each variant bears, in every format."""

from __future__ import annotations

import msgspec
import pytest

from bakeoff.compare.view import build_view
from bakeoff.model import Edge, Interval, Ratio
from bakeoff.report.html import render_html
from bakeoff.report.markdown import render_markdown
from bakeoff.report.terminal import render_terminal

from ..compare.simulate import Simulation, experiment, workload
from ..compare.test_engine import result_of

ASKED = experiment(workloads=(workload(slo={"ttft_s": 0.5}),))
EDGE = Edge(
    candidate="flash",
    workload="chat",
    kind="rate held",
    unit="1/s",
    axis="rate",
    levels=(4.0, 8.0),
    attainment=0.99,
    base=Interval(point=6.0, low=5.5, high=6.5),
    value=Interval(point=8.0, low=7.5),
    ratio=Ratio(point=1.333, low=1.25),
    outcome="faster",
    rounds=8,
    reason="flash held even the highest level in 2 of 8 rounds",
)


def pages(edge: Edge) -> dict[str, str]:
    result = msgspec.structs.replace(result_of(Simulation(ASKED).run(6)), edges=(edge,))
    view = build_view(result, ASKED)
    return {
        "terminal": " ".join(render_terminal(view, color=False, width=200).split()),
        "markdown": render_markdown(view),
        "html": render_html(view),
    }


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_an_edge_is_told_with_its_bounds(form: str) -> None:
    page = pages(EDGE)[form].replace("\\", "").replace("\u2060", "")
    assert "base holds 6 [5.5, 6.5], flash 8 [7.5, …] requests/s with 99 % of them within TTFT ≤ 500 ms" in page
    assert "+33 % [+25, …] ✓ faster (flash held even the highest level in 2 of 8 rounds)" in page


def test_a_peak_has_no_limits_and_hostile_text_stays_text() -> None:
    peak = msgspec.structs.replace(
        EDGE, kind="peak throughput", attainment=None, reason="<script>alert(1)</script>\x1b[31m", outcome="invalid"
    )
    shown = pages(peak)
    assert "base reaches 6 [5.5, 6.5], flash 8 [7.5, …] requests/s: +33 %" in shown["terminal"]
    assert "\x1b" not in shown["terminal"]
    assert "<script>" not in shown["html"]


def test_without_a_search_nothing_is_told() -> None:
    result = result_of(Simulation(ASKED).run(6))
    view = build_view(result, ASKED)
    assert "How much load" not in render_html(view)
    assert "\nLoad " not in render_terminal(view, color=False, width=100)
