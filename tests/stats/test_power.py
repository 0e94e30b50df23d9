import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.stats import power
from bakeoff.stats.anytime import multiplier


def test_pooling_takes_each_sample_by_its_own_mean() -> None:
    sd, freedom = power.pooled_sd([np.array([0.0, 2.0]), np.array([10.0, 12.0, 14.0]), np.array([99.0])])
    assert freedom == 3
    assert sd == pytest.approx(math.sqrt((2 + 8) / 3))
    assert math.isnan(power.pooled_sd([np.array([1.0])])[0])


@given(st.floats(-0.5, 0.5), st.floats(1e-4, 0.2), st.floats(0.01, 0.1))
def test_pairs_to_decide_is_the_smallest_that_suffices(mean: float, sd: float, margin: float) -> None:
    found = power.pairs_to_decide(mean, sd, 0.05, margin)
    distance = abs(abs(mean) - margin)
    if found is None:
        assert sd * multiplier(power.PAIRS_LIMIT, 0.05) >= distance
    else:
        assert sd * multiplier(found, 0.05) < distance
        assert sd * multiplier(found - 1, 0.05) >= distance


def test_without_noise_the_first_finite_interval_decides() -> None:
    assert power.pairs_to_decide(0.1, 0.0, 0.05, 0.03) == 5
    assert power.pairs_to_decide(0.03, 0.0, 0.05, 0.03) is None
    assert power.pairs_to_decide(0.1, math.nan, 0.05, 0.03) is None


def test_minimum_detectable_effect_is_detected_four_times_in_five() -> None:
    rng = np.random.default_rng(11)
    n, sd = 10, 0.02
    effect = power.minimum_detectable(sd, n, 0.05)
    assert effect is not None
    x = rng.normal(effect, sd, size=(4000, n))
    low = x.mean(axis=1) - multiplier(n, 0.05) * x.std(axis=1, ddof=1)
    assert 0.74 <= (low > 0).mean() <= 0.86
    assert power.minimum_detectable(sd, 3, 0.05) is None
    assert power.minimum_detectable(math.nan, 30, 0.05) is None


def test_fixed_n() -> None:
    assert power.pairs_fixed(0.02, 0.028) == 6
    assert power.pairs_fixed(0.02, 0.0) is None


@pytest.mark.parametrize("n", [6, 20])
def test_minimum_detectable_effect_of_one_look(n: int) -> None:
    rng = np.random.default_rng(12)
    effect = power.minimum_detectable(0.02, n, 0.05, "fixed")
    assert effect is not None
    x = rng.normal(effect, 0.02, size=(4000, n))
    low = x.mean(axis=1) - power.half_width(n, 0.05, "fixed") * x.std(axis=1, ddof=1)
    assert 0.74 <= (low > 0).mean() <= 0.86


def test_pairs_of_one_look_decide_four_times_in_five() -> None:
    needed = power.pairs_to_decide(0.06, 0.04, 0.05, 0.03, "fixed")
    assert needed is not None
    rng = np.random.default_rng(13)
    x = rng.normal(0.06, 0.04, size=(4000, needed))
    low = x.mean(axis=1) - power.half_width(needed, 0.05, "fixed") * x.std(axis=1, ddof=1)
    assert 0.74 <= (low > 0.03).mean() <= 0.87
    assert abs(needed - (power.pairs_fixed(0.04, 0.03) or 0)) <= 1
    assert power.pairs_fixed(0.04, 0.03, 0.01) == 23
    assert power.pairs_to_decide(0.03, 0.04, 0.05, 0.03, "fixed") is None


def test_detectable_error_is_that_of_a_known_standard_error() -> None:
    assert power.detectable_error(0.02 / math.sqrt(20), 19, 0.05) == pytest.approx(
        power.minimum_detectable(0.02, 20, 0.05, "fixed"), rel=1e-9
    )
    assert power.detectable_error(math.nan, 5, 0.05) is None
    assert power.detectable_error(0.1, 0, 0.05) is None
