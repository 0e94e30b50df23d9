"""Advice by traffic, where a crossing lies between the cells that are won and those that are lost."""

from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.decide import decide
from bakeoff.decide.split import _point, _span
from bakeoff.model import (
    BlockSize,
    Comparison,
    Crossing,
    Experiment,
    Interval,
    Load,
    Outcome,
    Prompts,
    Ratio,
    Variant,
    Workload,
)
from bakeoff.units import rounded

LENGTHS = (128, 256, 512)


def experiment(levels: tuple[float, ...] = (1.0,), lengths: tuple[int, ...] = LENGTHS) -> Experiment:
    workloads = tuple(
        Workload(
            name=f"p{n}",
            prompts=Prompts(input_tokens=n),
            output_tokens=32,
            load=Load(kind="closed", levels=levels),
            block=BlockSize(requests=8),
        )
        for n in lengths
    )
    variants = (Variant(name="base", engine="openai"), Variant(name="flash", engine="openai"))
    return Experiment(name="x", variants=variants, workloads=workloads, gates=("e2e_latency_s",))


def row(length: int, outcome: Outcome, level: float = 1.0) -> Comparison:
    point = {"faster": 0.8, "slower": 1.25, "probably faster": 0.97, "equivalent": 1.0}.get(outcome, 1.01)
    return Comparison(
        candidate="flash",
        workload=f"p{length}",
        load={"concurrency": level},
        metric="e2e_latency_s",
        statistic="p50",
        unit="s",
        better="lower",
        base=Interval(point=1.0),
        value=Interval(point=point),
        ratio=Ratio(point=point, low=point - 0.06, high=point + 0.06),
        outcome=outcome,
        margin=0.03,
        pairs=8,
        gate=True,
    )


def crossing(
    at: float = 300.0,
    *,
    better_below: bool = True,
    status: Literal["crosses", "none"] = "crosses",
    levels: tuple[float, ...] = LENGTHS,
) -> Crossing:
    return Crossing(
        candidate="flash",
        axis="input_tokens",
        workloads=tuple(f"p{n:g}" for n in levels),
        load={"concurrency": 1.0},
        metric="e2e_latency_s",
        statistic="p50",
        levels=levels,
        status=status,
        at=Interval(point=at, low=at * 0.83, high=at * 1.2) if status == "crosses" else Interval(point=None),
        better_below=better_below,
    )


def test_short_prompts_to_one_and_long_ones_to_the_other() -> None:
    rows = (row(128, "faster"), row(256, "faster"), row(512, "slower"))
    found = decide(experiment(), rows, crossings=(crossing(),))
    assert found.ship == "flash"
    assert found.conditions[0] == "for prompts under about 300 tokens, base above (crossing at 240–360)"
    assert found.reasons[0] == "E2E: flash is ahead of base for prompts under about 300 tokens (240–360)"


def test_levels_far_apart_leave_the_place_to_an_assumption() -> None:
    rows = (row(128, "faster"), row(2048, "slower"))
    found = decide(experiment(lengths=(128, 2048)), rows, crossings=(crossing(levels=(128, 2048)),))
    assert found.conditions[0] == (
        "for prompts under about 300 tokens, base above (crossing at 240–360 on a straight line between 128 and 2,048)"
    )


@pytest.mark.parametrize(
    ("levels", "at", "gap"),
    [
        ((1.0, 2.0, 4.0), (1.8, 2.2), None),  # doublings
        ((1.0, 8.0), (2.0, 3.0), (1.0, 8.0)),
        ((1.0, 2.0, 16.0), (1.2, 1.8), None),  # the wide gap is elsewhere
        ((1.0, 2.0, 16.0), (1.9, 2.2), (1.0, 16.0)),
        ((128.0, 2048.0), (300.0, None), (128.0, 2048.0)),
    ],
)
def test_how_far_apart_the_levels_around_a_crossing_are(
    levels: tuple[float, ...], at: tuple[float, float | None], gap: tuple[float, float] | None
) -> None:
    place = Interval(point=at[0], low=at[0], high=at[1])
    assert msgspec.structs.replace(crossing(levels=levels), at=place).gap == gap


def test_the_other_way_round() -> None:
    rows = (row(128, "slower"), row(256, "slower"), row(512, "faster"))
    found = decide(experiment(), rows, crossings=(crossing(better_below=False),))
    assert found.conditions[0] == "for prompts over about 300 tokens, base below (crossing at 240–360)"


def test_an_undecided_cell_at_the_crossing_does_not_hold_the_advice_up() -> None:
    rows = (row(128, "faster"), row(256, "probably faster"), row(512, "slower"))
    assert decide(experiment(), rows).ship is None
    assert decide(experiment(), rows, crossings=(crossing(),)).ship == "flash"


@pytest.mark.parametrize(
    "found",
    [
        crossing(600.0),  # not between the cells decided
        crossing(better_below=False),
        crossing(status="none"),
        crossing(levels=(128, 512)),  # not all cells are on its line
    ],
)
def test_a_crossing_that_does_not_fit_the_cells_is_no_ground(found: Crossing) -> None:
    rows = (row(128, "faster"), row(256, "probably faster"), row(512, "slower"))
    assert decide(experiment(), rows, crossings=(found,)).ship is None


def test_cells_that_turn_back_are_listed() -> None:
    rows = (row(128, "faster"), row(256, "slower"), row(512, "faster"))
    found = decide(experiment(), rows, crossings=(crossing(200.0), crossing(400.0, better_below=False)))
    assert found.conditions[0].startswith("for p128 128/32, 1 at a time and p512")


def test_an_invalid_cell_leaves_the_question_open() -> None:
    rows = (row(128, "faster"), row(256, "invalid"), row(512, "slower"))
    assert decide(experiment(), rows, crossings=(crossing(),)).ship is None


def test_cells_on_several_lines_are_listed() -> None:
    rows = tuple(row(n, "faster" if n < 300 else "slower", level) for n in LENGTHS for level in (1.0, 4.0))
    found = decide(experiment((1.0, 4.0)), rows, crossings=(crossing(),))
    assert found.conditions[0].startswith("for p128 128/32, 1 at a time and p128 128/32, 4 at a time")


@pytest.mark.parametrize(
    ("level", "text"), [(284.3, "280"), (2.47, "2.5"), (1024.0, "1,000"), (0.305, "0.3"), (16.0, "16"), (0.0, "0")]
)
def test_levels_have_two_digits(level: float, text: str) -> None:
    assert rounded(level) == text


@given(st.floats(1e-3, 1e5), st.floats(0, 1), st.floats(1e-4, 2))
def test_the_place_holds_its_whole_interval_and_its_point(low: float, part: float, width: float) -> None:
    high = low * (1 + width)
    at = Interval(point=min(high, low + part * (high - low)), low=low, high=high)
    ends = [float(end.replace(",", "")) for end in _span(at).split("–")]
    assert ends[0] <= low * (1 + 1e-12)
    assert ends[1] >= high * (1 - 1e-12)
    assert ends[0] <= float(_point(at).replace(",", "")) <= ends[1]


def test_ends_are_rounded_outward() -> None:
    assert _span(Interval(point=181, low=176, high=186)) == "170–190"
    assert _span(Interval(point=184.5, low=184.2, high=184.9)) == "184–185"
    assert _point(Interval(point=184.5, low=184.2, high=184.9)) == "184"
    assert _span(Interval(point=184.5, low=None, high=184.9)) == "…–190"
    assert rounded(9.96) == "10"
