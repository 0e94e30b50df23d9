import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bakeoff.errors import TooFewData
from bakeoff.stats import paired

SAMPLE = np.array([0.12, 0.05, -0.02, 0.08, 0.11, 0.03, 0.07, -0.01, 0.09, 0.04])


def test_t_agrees_with_scipy() -> None:
    found = paired.t_interval(SAMPLE, 0.05)
    low, high = stats.ttest_1samp(SAMPLE, 0).confidence_interval(0.95)
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)
    assert paired.t_p_value(SAMPLE) == pytest.approx(stats.ttest_1samp(SAMPLE, 0).pvalue)


@pytest.mark.parametrize("n", [5, 10, 30])
def test_wilcoxon_agrees_with_scipy(n: int) -> None:
    x = np.random.default_rng(n).normal(0.3, 1, n)
    assert paired.wilcoxon_p_value(x) == pytest.approx(stats.wilcoxon(x, method="exact").pvalue)


def test_wilcoxon_of_many_pairs_is_close_to_scipys_normal_limit() -> None:
    x = np.random.default_rng(3).normal(0.1, 1, 200)
    expected = stats.wilcoxon(x, method="approx", correction=False).pvalue
    assert paired.wilcoxon_p_value(x) == pytest.approx(expected, rel=1e-9)


def test_wilcoxon_with_ties_is_the_exact_conditional_distribution() -> None:
    x = np.array([1.0, 1.0, -1.0, 2.0, 2.0])
    ranks = np.array([2.0, 2.0, 2.0, 4.5, 4.5])
    signs = 1 - 2 * ((np.arange(32)[:, None] >> np.arange(5)) & 1)
    sums = (ranks * (signs > 0)).sum(axis=1)
    upper = np.mean(sums >= 13.0)
    assert paired.wilcoxon_p_value(x) == pytest.approx(2 * upper)


def test_sign_flip_enumerates_all_signs() -> None:
    assert paired.sign_flip_p_value([1.0, 2.0, 3.0]) == pytest.approx(2 / 8)
    many = np.random.default_rng(1).normal(0.5, 1, 20)
    assert paired.sign_flip_p_value(many) == pytest.approx(paired.t_p_value(many), abs=0.01)


def test_hodges_lehmann_of_six_pairs() -> None:
    # The least n with a 95 % interval; it then spans the extreme pairs: P(T = 0) = 2⁻⁶ = 1.6 % ≤ 2.5 %.
    x = [1.0, 2.0, 4.0, 7.0, 11.0, 16.0]
    found = paired.hodges_lehmann(x, 0.05)
    assert (found.low, found.high) == (1.0, 16.0)
    assert found.point == 6.5
    assert paired.hodges_lehmann(x[:5], 0.05).low is None


def test_hodges_lehmann_covers() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(400):
        found = paired.hodges_lehmann(rng.standard_t(3, 12) + 1, 0.05)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1 <= found.high
    assert 0.92 <= hits / 400 <= 0.99


@given(st.lists(st.floats(-10, 10).map(lambda v: round(v, 3)), min_size=1, max_size=14))
def test_swapping_the_arms_mirrors(values: list[float]) -> None:
    mirrored = [-v for v in values]
    assert paired.wilcoxon_p_value(values) == pytest.approx(paired.wilcoxon_p_value(mirrored))
    assert paired.sign_flip_p_value(values) == pytest.approx(paired.sign_flip_p_value(mirrored))
    a, b = paired.hodges_lehmann(values, 0.05), paired.hodges_lehmann(mirrored, 0.05)
    assert a.point == pytest.approx(-(b.point or 0.0), abs=1e-9)
    if a.low is not None and b.high is not None:
        assert a.low == pytest.approx(-b.high, abs=1e-9)


@pytest.mark.parametrize("values", [[], [0.5], [0.0, 0.0, 0.0]])
def test_degenerate_input_shows_nothing(values: list[float]) -> None:
    assert paired.t_p_value(values) == 1.0
    assert paired.sign_flip_p_value(values) == 1.0
    assert paired.wilcoxon_p_value(values) == 1.0
    assert paired.t_interval(values[:1], 0.05).low is None
    assert paired.hodges_lehmann(values[:1], 0.05).low is None


def test_zero_variance() -> None:
    found = paired.t_interval([0.25, 0.25, 0.25], 0.05)
    assert found.low == found.high == 0.25
    assert paired.t_p_value([0.25, 0.25, 0.25]) == 0.0


def test_nan_is_refused() -> None:
    for function in (paired.t_p_value, paired.wilcoxon_p_value, paired.sign_flip_p_value):
        with pytest.raises(TooFewData):
            function([math.nan, 1.0])
