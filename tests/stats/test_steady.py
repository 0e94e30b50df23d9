import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bakeoff.errors import TooFewData
from bakeoff.stats.steady import LEAST, outliers, segments, steadiness


def noise(seed: int, n: int, sd: float = 1.0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0, sd, n)


def ar(seed: int, n: int, phi: float = 0.6) -> NDArray[np.float64]:
    steps = noise(seed, n) * math.sqrt(1 - phi**2)
    x = np.zeros(n)
    x[0] = noise(seed + 1, 1)[0]
    for i in range(1, n):
        x[i] = phi * x[i - 1] + steps[i]
    return x


def test_a_step_is_found_where_it_is() -> None:
    x = noise(1, 60)
    x[:15] += 6
    found = steadiness(x)
    assert found.kind == "settles"
    assert found.start == 15
    assert found.step == pytest.approx(6, abs=1)


def test_a_late_step_is_no_steady_state() -> None:
    x = noise(2, 60)
    x[45:] += 6
    found = steadiness(x)
    assert (found.kind, found.start) == ("none", 60)
    assert found.step == pytest.approx(6, abs=1)


def test_a_slope_is_no_steady_state() -> None:
    assert steadiness(np.linspace(0, 12, 80) + noise(3, 80, 0.5)).kind == "none"


def test_levels_within_the_tolerance_are_one() -> None:
    x = noise(4, 60, 0.1)
    x[:20] += 1
    assert steadiness(x).kind == "settles"
    assert steadiness(x, tolerance=2).kind == "steady"


def test_a_lone_spike_is_no_level() -> None:
    x = noise(5, 40)
    x[20] += 30
    assert len(segments(x)) == 1


@pytest.mark.parametrize(("n", "most"), [(8, 0.04), (20, 0.04), (100, 0.04)])
def test_chance_makes_no_levels(n: int, most: float) -> None:
    assert np.mean([len(segments(noise(seed, n))) > 1 for seed in range(400)]) <= most


@pytest.mark.parametrize("n", [20, 100])
def test_neighbours_that_resemble_each_other_make_few_levels(n: int) -> None:
    assert np.mean([len(segments(ar(2 * seed, n))) > 1 for seed in range(300)]) <= 0.08


def test_without_noise() -> None:
    assert segments([]) == ()
    assert steadiness([]).kind == "steady"
    assert len(segments([1.0] * 10)) == 1
    assert [s.start for s in segments([1.0] * 5 + [2.0] * 5)] == [0, 5]
    assert steadiness([2.0] * 3 + [1.0] * 9).kind == "settles"
    assert len(segments([1.0, 9.0])) == 1  # fewer than LEAST


def test_nan_is_refused() -> None:
    for function in (segments, steadiness, outliers):
        with pytest.raises(TooFewData):
            function([1.0, math.nan, 2.0])


def test_outliers_are_told_by_place() -> None:
    x = noise(6, 12, 0.01)
    x[7] += 0.5
    x[2] -= 0.5
    assert outliers(x) == (2, 7)
    assert outliers([1.0] * 9 + [5.0]) == ()  # more than half equal: no spread to measure by
    assert outliers([0.0, 9.0]) == ()


def test_chance_makes_few_outliers() -> None:
    for n in (LEAST, 10, 30):
        assert np.mean([bool(outliers(noise(seed, n))) for seed in range(1000)]) <= 0.02


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 100), st.floats(-10, 10), st.integers(8, 40))
def test_unit_and_origin_do_not_matter(seed: int, scale: float, shift: float, n: int) -> None:
    x = noise(seed, n)
    x[: n // 3] += 5
    moved = x * scale + shift
    assert [s[:2] for s in segments(x)] == [s[:2] for s in segments(moved)]
    assert outliers(x) == outliers(moved)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), max_size=40))
def test_segments_partition_any_series(values: list[float]) -> None:
    found = segments(values)
    edges = [0, *(s.end for s in found)]
    assert [s.start for s in found] == edges[:-1]
    assert edges[-1] == len(values)
