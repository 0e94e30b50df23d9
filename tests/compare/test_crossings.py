"""Where variants change places, found through the whole path, and what the advice makes of it."""

import msgspec
import pytest

from bakeoff.compare.crossings import lines_of
from bakeoff.compare.view import Material, build_view
from bakeoff.decide import decide
from bakeoff.model import BlockSize, Cell, Experiment, Load, Prompts, Result, Sampling
from bakeoff.report import render_html, render_markdown, render_terminal

from .simulate import QUIET, Arm, Simulation, experiment, workload
from .test_engine import result_of

LENGTHS = (128, 256, 512, 1024)


class ByLength(Simulation):
    """flash reads short prompts faster and long ones slower; with prompts of 300 tokens both take as long."""

    def _columns(self, cell: Cell, arm: Arm, ttft: object, tpot: object, tokens: int) -> dict[str, object]:
        length = self.experiment.workload(cell.workload).prompts.input_tokens or 300
        factor = (length / 300) ** 0.5 if arm is self.arms["flash"] else 1.0
        return super()._columns(cell, arm, ttft * factor, tpot * factor, tokens)  # type: ignore[operator]


def asked(**changes: object) -> Experiment:
    lengths = tuple(workload(name=f"p{n}", prompts=Prompts(input_tokens=n)) for n in LENGTHS)
    return experiment(**{"workloads": lengths, "gates": ("e2e_latency_s",), **changes})


@pytest.fixture(scope="module")
def measured() -> tuple[ByLength, Result]:
    simulation = ByLength(asked(), {"flash": Arm(ttft_s=0.050)}, noise=QUIET, seed=2)
    simulation.run(9)
    return simulation, result_of(simulation)


def test_the_crossing_is_found_where_it_is(measured: tuple[ByLength, Result]) -> None:
    (found,) = measured[1].crossings
    assert (found.axis, found.status, found.better_below) == ("input_tokens", "crosses", True)
    assert found.workloads == tuple(f"p{n}" for n in LENGTHS)
    assert found.levels == LENGTHS
    assert found.load == {"concurrency": 1.0}
    assert found.at.low is not None
    assert found.at.high is not None
    assert found.at.low < 300 < found.at.high
    assert found.at.high / found.at.low < 1.2


def test_the_advice_names_the_level(measured: tuple[ByLength, Result]) -> None:
    result = measured[1]
    decision = decide(asked(), result.comparisons, crossings=result.crossings)
    assert decision.ship == "flash"
    assert decision.conditions[0].startswith("for prompts under about 3")
    assert ", base above (crossing at 2" in decision.conditions[0]
    without = decide(asked(), result.comparisons)
    assert without.conditions[0].startswith("for p128 128/32, 1 at a time")


def test_reports_show_it(measured: tuple[ByLength, Result]) -> None:
    simulation, result = measured
    view = build_view(result, asked(), Material(blocks=simulation.blocks, starts=simulation.starts))
    (one,) = view.crossings
    assert [level for level, _ in one.points] == list(LENGTHS)
    assert "flash is ahead below, base above" in one.text
    assert "Cross    E2E along prompt length" in render_terminal(view, color=False)
    assert "along prompt length" in render_markdown(view)
    page = render_html(view)
    assert 'id="crossings"' in page
    assert page.count("E2E along prompt length: crosses at") == 1


def test_lines_along_load_and_lengths() -> None:
    levels = Load(kind="closed", levels=(4.0, 1.0))
    several = tuple(workload(name=f"p{n}", prompts=Prompts(input_tokens=n), load=levels) for n in (128, 512))
    answers = workload(name="long-answers", output_tokens=128, load=levels, block=BlockSize(requests=4))
    other = workload(name="hot", sampling=Sampling(temperature=1.0), load=levels)
    found = lines_of(experiment(workloads=(*several, answers, other)))
    along = [(line.axis, [level for level, _ in line.cells], line.load) for line in found]
    assert along.count(("concurrency", [1.0, 4.0], {})) == 4
    assert ("input_tokens", [128.0, 512.0], {"concurrency": 1.0}) in along
    assert ("input_tokens", [128.0, 512.0], {"concurrency": 4.0}) in along
    assert ("output_tokens", [32.0, 128.0], {"concurrency": 1.0}) in along
    assert len(along) == 8


def test_a_clear_winner_crosses_nowhere() -> None:
    simulation = Simulation(asked(), {"flash": Arm(ttft_s=0.04, tpot_s=0.015)}).run(8)
    (found,) = result_of(simulation).crossings
    assert (found.status, found.better_below, found.at.point) == ("none", True, None)


def test_equals_are_not_resolved() -> None:
    (found,) = result_of(Simulation(asked()).run(8)).crossings
    assert (found.status, found.better_below) == ("unresolved", None)


def test_swapping_the_arms_keeps_the_place_and_turns_the_sides(measured: tuple[ByLength, Result]) -> None:
    simulation, result = measured
    swapped = asked(variants=tuple(reversed(simulation.experiment.variants)))
    from bakeoff.compare import compare_blocks

    back = compare_blocks(swapped, simulation.blocks, (), run="r", state="complete").crossings[0]
    there = result.crossings[0]
    assert back.at.point == pytest.approx(there.at.point)
    assert (back.at.low, back.at.high) == pytest.approx((there.at.low, there.at.high))
    assert back.better_below is False


def test_invalid_cells_have_no_place_on_a_line(measured: tuple[ByLength, Result]) -> None:
    simulation, _ = measured
    from bakeoff.compare.crossings import find_crossings
    from bakeoff.compare.pairs import Grid

    rows = [
        msgspec.structs.replace(r, outcome="invalid") if r.workload == "p128" else r for r in measured[1].comparisons
    ]
    (found,) = find_crossings(asked(), Grid(asked(), simulation.blocks), rows)
    assert found.levels == LENGTHS[1:]
