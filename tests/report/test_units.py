"""Quantities as every report writes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.units import point_count, quantity, seconds, size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.009996, "10.0 ms"),
        (0.01, "10.0 ms"),
        (0.0099949, "9.99 ms"),
        (0.9996, "1.00 s"),
        (0.00099951, "1.00 ms"),
        (0.0217, "21.7 ms"),
        (6.62, "6.62 s"),
        (119.4, "119 s"),
        (119.6, "2.0 min"),
        (0.0, "0 s"),
    ],
)
def test_times_round_before_their_digits_are_counted(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(25_282_000_000, "25.3 GB"), (999_600_000, "1.00 GB"), (99_960, "100 kB"), (999, "999 B")]
)
def test_sizes_are_decimal(value: float, text: str) -> None:
    assert size(value) == text


@given(st.floats(1e-6, 99))
def test_a_value_and_what_it_rounds_to_are_written_alike(value: float) -> None:
    for unit in ("s", "token/s"):
        assert quantity(value, unit) == quantity(float(f"{value:.2e}"), unit)


@given(st.floats(1e-6, 999_000))
def test_three_digits(value: float) -> None:
    text = quantity(value, "token/s").removesuffix(" token/s").replace(",", "")
    assert math.isclose(float(text), value, rel_tol=0.0051)
    assert len(text.replace(".", "").lstrip("0")) <= max(3, len(str(int(value))) + 1)


@pytest.mark.parametrize(("value", "text"), [(1.0, "1 point"), (0.5, "0.5 points"), (2.0, "2 points")])
def test_one_point_is_one(value: float, text: str) -> None:
    assert point_count(value) == text
