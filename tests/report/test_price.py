"""The price of speed in every report: terminal, Markdown, HTML with its two charts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from bakeoff.app.verdict import Evidence, conclude
from bakeoff.compare.view import Material, View, build_view
from bakeoff.compare.view_price_types import ParetoPoint
from bakeoff.model import Interval, Power, Result, Variant
from bakeoff.report import render_html, render_markdown, render_terminal
from bakeoff.report.html_pareto import name_shifts, pareto
from bakeoff.report.html_svg import Draftsman
from bakeoff.report.html_waterfall import waterfall
from tests.compare.simulate import Arm, Simulation, workload
from tests.compare.test_task_time import asked_sums, questions

HOSTILE = "<b>fast</b>'];alert(1);//"


def _view(*, names: tuple[str, ...] = ("base", "flash"), hostile: bool = False) -> tuple[View, Result]:
    asked = asked_sums(
        variants=tuple(Variant(name=n, engine="llamacpp") for n in names),
        workloads=(workload(length="natural", output_tokens=512),),
        power=Power(idle=40, busy=120),
    )
    arms = {"base": Arm(output_tokens=32), names[1]: Arm(output_tokens=64, start_s=9.0)}
    run = Simulation(asked, arms).run(8)
    answers = [*questions("base", 33), *questions(names[1], 65)]
    result = conclude(
        asked, Evidence(blocks=run.blocks, starts=run.starts, answers=answers), run="runs/r", state="complete"
    )
    if hostile:
        (first, *rest) = result.task_times
        parts = tuple(msgspec.structs.replace(part, name=f"{part.name}{HOSTILE}") for part in first.parts)
        changed = msgspec.structs.replace(first, parts=parts, reason=HOSTILE)
        result = msgspec.structs.replace(result, task_times=(changed, *rest))
    return build_view(result, asked, Material(blocks=run.blocks, starts=run.starts)), result


@pytest.fixture(scope="module")
def told() -> tuple[View, Result]:
    return _view()


def test_the_terminal_says_what_a_task_takes_and_why(told: tuple[View, Result]) -> None:
    text = render_terminal(told[0], color=False, width=100)
    assert "Time of a task of sums · 120 tasks in 6 rounds" in text
    assert "time, solved" in text
    assert "where it goes: output tokens 33 → 65 +320 ms (100 %)" in text
    assert "energy" not in text
    assert "Ship base" in text or "No decision" in text
    assert "measured: its time split exactly" in text


def test_the_full_terminal_has_the_rest(told: tuple[View, Result]) -> None:
    text = render_terminal(told[0], color=False, width=120, full=True)
    for words in ("energy (modelled)", "Memory", "Start-up", "above idle", "modelled: declared watts", "prefill"):
        assert words in text, words


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(told: tuple[View, Result], width: int) -> None:
    for full in (False, True):
        lines = render_terminal(told[0], color=False, width=width, full=full).splitlines()
        after = lines[next(i for i, line in enumerate(lines) if line.startswith("Time of")) :]
        assert max(map(len, after)) <= width


def test_markdown_folds_the_tables_away(told: tuple[View, Result]) -> None:
    text = render_markdown(told[0])
    assert "#### Time of a task of sums · 120 tasks in 6 rounds" in text
    assert "<details><summary>Start-up</summary>" in text
    assert text.count("<details>") == text.count("</details>")


def test_the_page_has_both_charts(told: tuple[View, Result]) -> None:
    page = render_html(told[0])
    assert 'class="waterfall"' in page
    assert 'class="pareto"' in page
    assert '<h2 id="task-time-title">What a task takes</h2>' in page
    assert '<h2 id="price-title">Memory, start-up, energy and cost</h2>' in page
    assert "<script" not in page


def test_the_waterfall_names_its_parts_for_those_who_cannot_see_it(told: tuple[View, Result]) -> None:
    view = told[0]
    assert view.price is not None
    drawn = waterfall(Draftsman(), view, view.price.tasks[0])
    assert drawn is not None
    assert "<title>Time of a task of sums from base to flash: output tokens +320 ms" in drawn
    assert "var(--bad)" in drawn


def test_the_pareto_plot_says_who_is_beaten(told: tuple[View, Result]) -> None:
    view = told[0]
    assert view.price is not None
    assert view.price.pareto is not None
    points = {point.arm: point for point in view.price.pareto.points}
    assert points["base"].best
    assert not points["flash"].best  # as good, and slower
    drawn = pareto(Draftsman(), view, view.price.pareto)
    assert drawn is not None
    assert "80.0 %, another is no slower and no worse" in drawn
    assert "flash, 300 MB: 8" in drawn


def test_names_in_the_pareto_plot_keep_apart() -> None:
    points = [
        ParetoPoint(arm=f"arm-{i}", index=i, time=Interval(point=5 + i / 100), quality=Interval(point=0.78), memory=3e7,
                    best=False)
        for i in range(5)
    ]  # fmt: skip
    shifts = sorted(name_shifts(points, [0.0, 15.0], [0.7, 0.84], 1.0))
    assert all(b - a >= 15 for a, b in pairwise(shifts))
    far = [replace(points[0], time=Interval(point=1.0)), replace(points[1], time=Interval(point=12.0))]
    assert name_shifts(far, [0.0, 15.0], [0.7, 0.84], 1.0) == [-9.0, -9.0]


def test_hostile_names_stay_text() -> None:
    view, _ = _view(hostile=True)
    page = render_html(view)
    assert "<b>fast</b>" not in page
    assert "&lt;b&gt;fast" in page


def test_nothing_is_shown_where_nothing_is_known() -> None:
    from tests.report.sample import view as plain

    page = render_html(plain())
    assert "What a task takes" not in page
    assert "start-up, energy and cost" not in page
