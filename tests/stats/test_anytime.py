import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.errors import TooFewData
from bakeoff.stats import anytime
from bakeoff.stats.anytime import interval, multiplier, p_value

VALUES = st.lists(st.floats(-1, 1, allow_nan=False).map(lambda v: round(v, 6)), min_size=2, max_size=30)


def test_formula_by_hand() -> None:
    # n = 9, alpha = 0.05, c² = 1: k = 10, A = (√10 / 0.05)^(2/9) = 2.5130, x = (A − 1)/(1 − A/10) = 2.0209
    k = 10.0
    a = (math.sqrt(k) / 0.05) ** (2 / 9)
    x = (a - 1) / (1 - a / k)
    values = np.arange(9.0)
    half = math.sqrt(x * 8) * values.std(ddof=1) / 3
    found = interval(values, 0.05)
    assert found.point == 4.0
    assert found.low == pytest.approx(4 - half)
    assert found.high == pytest.approx(4 + half)
    assert half == pytest.approx(multiplier(9, 0.05) * values.std(ddof=1))


@pytest.mark.parametrize(("alpha", "first"), [(0.05, 5), (0.05 / 4, 6), (0.05 / 8, 7)])
def test_infinite_until_enough_pairs(alpha: float, first: int) -> None:
    assert all(math.isinf(multiplier(n, alpha)) for n in range(first))
    assert math.isfinite(multiplier(first, alpha))
    unknown = interval([0.1] * (first - 1), alpha)
    assert (unknown.low, unknown.high) == (None, None)


def test_multiplier_shrinks_with_pairs_and_grows_with_confidence() -> None:
    widths = [multiplier(n, 0.05) for n in range(5, 2000)]
    assert all(a > b for a, b in itertools.pairwise(widths))
    assert multiplier(12, 0.01) > multiplier(12, 0.05)


@given(VALUES, st.sampled_from([0.2, 0.05, 0.05 / 8, 0.001]))
def test_p_value_is_where_zero_leaves_the_interval(values: list[float], alpha: float) -> None:
    p = p_value(values)
    found = interval(values, alpha)
    excluded = found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)
    if not math.isclose(p, alpha, rel_tol=1e-6):
        assert excluded == (p < alpha)


@given(VALUES, st.floats(1e-3, 1e3), st.randoms())
def test_scale_and_order_do_not_matter(values: list[float], scale: float, random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    assert p_value([v * scale for v in shuffled]) == pytest.approx(p_value(values), rel=1e-4, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], 1.0), ([3.0], 1.0), ([0.0] * 8, 1.0), ([1.0, -1.0] * 4, 1.0), ([0.5] * 9, 10.0 ** (-4))],
)
def test_degenerate_p_values(values: list[float], expected: float) -> None:
    # Nine equal values: the supremum of the evidence, k^((n − 1)/2) with k = 10.
    assert p_value(values) == pytest.approx(expected)


def test_constant_values_have_an_interval_of_no_width() -> None:
    found = interval([0.25] * 9, 0.05)
    assert (found.low, found.point, found.high) == (0.25, 0.25, 0.25)


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(TooFewData, match="1 of 2 values are not finite"):
        interval([0.1, math.nan], 0.05)
    with pytest.raises(TooFewData, match="shape"):
        p_value(np.zeros((2, 2)))


@settings(deadline=None)
@given(VALUES)
def test_wider_at_higher_confidence(values: list[float]) -> None:
    narrow, wide = interval(values, 0.2), interval(values, 0.01)
    if wide.low is not None and narrow.low is not None:
        assert wide.low <= narrow.low


@pytest.mark.parametrize("mean", [0.0, 0.3])
def test_time_uniform_coverage(mean: float) -> None:
    """Looking after every pair up to 40: the share of runs that *ever* miss the true mean stays below 5 %."""
    rng = np.random.default_rng(7)
    x = rng.normal(mean, 1.0, size=(4000, 40))
    n = np.arange(1, 41)
    means = np.cumsum(x, axis=1) / n
    squares = np.cumsum(x**2, axis=1) - n * means**2
    missed = np.zeros(4000, dtype=bool)
    for i in range(1, 40):
        sd = np.sqrt(np.maximum(squares[:, i], 0) / i)
        missed |= np.abs(means[:, i] - mean) > multiplier(i + 1, 0.05) * sd
    assert 0.005 < missed.mean() < 0.05


@given(st.integers(2, 60), st.floats(0.01, 10.0))
def test_no_pairs_are_surer_than_those_that_do_not_scatter(n: int, scatter: float) -> None:
    values = 1.0 + scatter * np.sin(np.arange(float(n)))
    assert anytime.p_value(values) >= anytime.least_p_value(n) * (1 - 1e-9)
    assert anytime.p_value(1.0 + 1e-12 * np.arange(float(n))) == pytest.approx(anytime.least_p_value(n), rel=1e-6)
