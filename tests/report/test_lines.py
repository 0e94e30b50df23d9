"""Wrapping: nothing lost, no line too wide, numbers not torn from their units."""

from hypothesis import given
from hypothesis import strategies as st

from bakeoff.report.lines import columns, wrap

WORDS = st.lists(st.text(alphabet="ab%[],−5", min_size=1, max_size=8), min_size=1, max_size=30).map(" ".join)


@given(WORDS, st.integers(min_value=10, max_value=60), st.integers(min_value=0, max_value=6))
def test_nothing_is_lost_and_no_line_is_too_wide(text: str, width: int, indent: int) -> None:
    lines = wrap(text, width, indent)
    assert " ".join(lines).split() == text.split()
    assert all(columns(line) <= width or " " not in line.strip() for line in lines)
    assert all(line.startswith(" " * indent) for line in lines[1:])


@given(st.integers(min_value=24, max_value=70))
def test_a_number_keeps_its_unit_and_an_interval_its_bounds(width: int) -> None:
    text = "16 pairs show changes from 5.4 % on, TTFT −12 % [−16, −8.7] after 30.5 ms, 1.2 GB and 48 min of waiting"
    lines = wrap(text, width)
    assert all(columns(line) <= width for line in lines)
    for whole in ("5.4 %", "−12 %", "[−16, −8.7]", "30.5 ms", "1.2 GB", "48 min"):
        assert any(whole in line for line in lines), (whole, lines)


def test_where_only_a_number_and_its_unit_are_left_the_width_wins() -> None:
    assert wrap("123456789 %", 10) == ["123456789", "%"]
    assert wrap("[−123456, −123456]", 12) == ["[−123456,", "−123456]"]
