import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bakeoff.errors import TooFewData
from bakeoff.model import Method
from bakeoff.stats.crossover import Crossover, crossover

LEVELS = [100.0, 200.0, 400.0, 800.0]


def pairs(seed: int, *, slope: float = 0.15, at: float = 300.0, n: int = 12) -> NDArray[np.float64]:
    """Log ratios (levels, pairs) of a truth that crosses at `at`; a round's luck is common to its levels."""
    rng = np.random.default_rng(seed)
    truth = slope * np.log(np.array(LEVELS) / at)
    return np.asarray(truth[:, None] + rng.normal(0, 0.02, (1, n)) + rng.normal(0, 0.03, (len(LEVELS), n)))


def test_two_levels_are_fiellers_interval() -> None:
    """The edges are where the t statistic of the weighted pair values is exactly at its critical value."""
    from scipy import stats

    y = pairs(3)[1:3]
    found = crossover(LEVELS[1:3], y, method="fixed").crossings[0]
    critical = float(stats.t.ppf(0.975, y.shape[1] - 1))
    for edge in (found.low, found.high):
        w = math.log(edge / 200) / math.log(2)
        values = (1 - w) * y[0] + w * y[1]
        t = values.mean() / (values.std(ddof=1) / math.sqrt(values.size))
        assert abs(t) == pytest.approx(critical)
    w = math.log(found.point / 200) / math.log(2)
    assert float(((1 - w) * y[0] + w * y[1]).mean()) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("method", "least"), [("fixed", 0.93), ("anytime", 0.97)])
def test_the_interval_covers_the_true_crossing(method: Method, least: float) -> None:
    found = [crossover(LEVELS, pairs(seed), method=method) for seed in range(400)]
    assert {one.status for one in found} == {"crosses"}
    hits = [any(c.low <= 300 <= c.high for c in one.crossings) for one in found]
    assert np.mean(hits) >= least


def test_the_same_sign_everywhere_is_no_crossing() -> None:
    rng = np.random.default_rng(1)
    above = rng.normal(0.2, 0.02, (3, 10))
    assert crossover([1, 4, 16], above) == Crossover("none", (), 1)
    assert crossover([1, 4, 16], -above) == Crossover("none", (), -1)


def test_no_difference_anywhere_is_not_resolved() -> None:
    rng = np.random.default_rng(2)
    false = [crossover([1, 4, 16], rng.normal(0, 0.02, (3, 10))).status for _ in range(300)]
    assert np.mean([status != "unresolved" for status in false]) <= 0.02


def test_a_crossing_that_may_lie_outside_the_range_is_not_resolved() -> None:
    rng = np.random.default_rng(4)
    truth = np.array([[0.0], [0.1], [0.2]])
    assert crossover([1, 2, 4], truth + rng.normal(0, 0.02, (3, 10))).status == "unresolved"


def test_two_crossings_are_both_found() -> None:
    rng = np.random.default_rng(5)
    truth = np.array([[-0.2], [0.2], [-0.2]])
    found = crossover([1, 4, 16], truth + rng.normal(0, 0.02, (3, 12)))
    assert found.status == "crosses"
    assert [c.rising for c in found.crossings] == [True, False]
    assert found.crossings[0].point == pytest.approx(2, rel=0.1)
    assert found.crossings[1].point == pytest.approx(8, rel=0.1)


def test_noiseless_pairs_cross_at_one_place() -> None:
    found = crossover([1.0, 2.0, 4.0], [[-0.1] * 6, [0.0] * 6, [0.1] * 6])
    assert [(c.low, c.point, c.high) for c in found.crossings] == [(2.0, 2.0, 2.0)]


@pytest.mark.parametrize(
    ("levels", "logs"),
    [
        ([1.0], [[0.1, 0.2]]),
        ([1.0, 1.0], [[0.1, 0.2], [0.1, 0.2]]),
        ([0.0, 1.0], [[0.1, 0.2], [0.1, 0.2]]),
        ([1.0, 2.0], [[0.1, 0.2], [0.1]]),
        ([1.0, 2.0], [[0.1, math.nan], [0.1, 0.2]]),
        ([1.0, 2.0], [[0.1, 0.2]]),
    ],
)
def test_what_is_no_axis_is_refused(levels: list[float], logs: list[list[float]]) -> None:
    with pytest.raises(TooFewData):
        crossover(levels, logs)


def test_one_pair_resolves_nothing() -> None:
    assert crossover([1.0, 2.0], [[-0.1], [0.1]]).status == "unresolved"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 500), st.floats(0.1, 50))
def test_unit_of_the_axis_order_of_pairs_and_swapped_arms(seed: int, factor: float) -> None:
    y = pairs(seed)
    plain = crossover(LEVELS, y)
    scaled = crossover([level * factor for level in LEVELS], y)
    shuffled = crossover(LEVELS, y[:, np.random.default_rng(seed).permutation(y.shape[1])])
    swapped = crossover(LEVELS, -y)
    assert plain.status == scaled.status == shuffled.status == swapped.status
    for a, b, c, d in zip(*(one.crossings for one in (plain, scaled, shuffled, swapped)), strict=True):
        assert b.point == pytest.approx(a.point * factor)
        assert c.point == pytest.approx(a.point)
        assert (d.point, d.low, d.high) == pytest.approx((a.point, a.low, a.high))
        assert d.rising is not a.rising


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 500))
def test_more_confidence_widens(seed: int) -> None:
    wide, narrow = (crossover(LEVELS, pairs(seed), alpha=alpha, method="fixed") for alpha in (0.01, 0.1))
    if wide.status == "crosses":
        assert wide.crossings[0].low <= narrow.crossings[0].low <= narrow.crossings[0].high <= wide.crossings[0].high
