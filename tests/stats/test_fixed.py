import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bakeoff.stats import paired
from bakeoff.stats.fixed import Pooled, by_error, by_mean, by_ranks
from bakeoff.stats.multiplicity import holm, holm_levels
from bakeoff.stats.outcome import log_margin

SAMPLE = np.array([0.12, 0.05, -0.02, 0.08, 0.11, 0.03, 0.07, -0.01, 0.09, 0.04])
# Hollander and Wolfe 1973, p. 29: the example of R's wilcox.test. R says V = 40, one-sided p = 0.01953, estimate 0.46.
BEFORE = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
AFTER = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])


def test_the_depression_scale_of_rs_wilcox_test() -> None:
    assert paired.wilcoxon_tails(BEFORE - AFTER)[0] == pytest.approx(0.01953, abs=5e-6)
    assert paired.hodges_lehmann(BEFORE - AFTER, 0.05).point == pytest.approx(0.46, abs=5e-4)


def test_tails_agree_with_scipy() -> None:
    for null in (0.0, 0.03, -0.03):
        up, down = paired.t_tails(SAMPLE, null)
        assert up == pytest.approx(stats.ttest_1samp(SAMPLE, null, alternative="greater").pvalue)
        assert down == pytest.approx(stats.ttest_1samp(SAMPLE, null, alternative="less").pvalue)
        up, down = paired.wilcoxon_tails(SAMPLE, null + 0.001)
        assert up == pytest.approx(stats.wilcoxon(SAMPLE - null - 0.001, alternative="greater", method="exact").pvalue)
        assert down == pytest.approx(stats.wilcoxon(SAMPLE - null - 0.001, alternative="less", method="exact").pvalue)


def test_equivalence_is_the_ninety_percent_interval_inside() -> None:
    bound = log_margin(0.10)
    for scale in (0.3, 1.0, 3.0):
        look = by_mean(SAMPLE * scale)
        inner = look.interval(0.10)
        assert inner.low is not None
        assert inner.high is not None
        assert (look.p_equivalence(bound) < 0.05) == (-bound < inner.low and inner.high < bound)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.floats(-0.1, 0.1), st.sampled_from([by_mean, by_ranks]))
def test_tests_and_intervals_say_the_same(seed: int, effect: float, kind: object) -> None:
    x = np.random.default_rng(seed).normal(effect, 0.05, 12)
    look = by_mean(x) if kind is by_mean else by_ranks(x)
    interval, bound = look.interval(0.05), 0.03
    assert interval.low is not None
    assert interval.high is not None
    assert (look.p_difference() <= 0.05) == (interval.low > 0 or interval.high < 0)
    assert (look.p_beyond(bound) <= 0.05) == (interval.low > bound or interval.high < -bound)
    inner = look.interval(0.10)
    assert inner.low is not None
    assert inner.high is not None
    assert (look.p_equivalence(bound) <= 0.05) == (inner.low > -bound and inner.high < bound)


def test_an_estimate_with_its_error() -> None:
    look = by_error(Pooled(0.1, 0.02, 9))
    low, high = stats.t.interval(0.95, 9, 0.1, 0.02)
    found = look.interval(0.05)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert look.p_difference() == pytest.approx(2 * stats.t.sf(5, 9))
    unknown = by_error(Pooled(0.1, math.nan, 0))
    assert unknown.interval(0.05).low is None
    assert unknown.p_difference() == 1.0
    assert by_error(Pooled(0.1, 0.0, 5)).tails(0.0) == (0.0, 1.0)


def test_degenerate_series_claim_nothing() -> None:
    for look in (by_mean([]), by_mean([0.1]), by_ranks([]), by_ranks([0.1] * 3)):
        assert look.p_difference() > 0.05
        assert look.interval(0.05).low is None
    assert by_mean([0.125, 0.125, 0.125]).p_difference() == 0.0
    assert by_mean([0.0, 0.0]).p_difference() == 1.0


def test_holms_levels_reject_as_holm_does() -> None:
    p = [0.010, 0.04, 0.03, 0.005]
    assert list(holm_levels(p, 0.05)) == pytest.approx([0.05 / 3, 0.025, 0.025, 0.0125])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_an_interval_at_holms_level_excludes_what_holm_rejects(p: list[float]) -> None:
    levels, adjusted = holm_levels(p, 0.05), holm(p)
    for one, level, adjusted_p in zip(p, levels, adjusted, strict=True):
        if abs(one - level) > 1e-12:  # rounding decides ties
            assert (one <= level) == (adjusted_p <= 0.05)
