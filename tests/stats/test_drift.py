import numpy as np
import pytest
from scipy import stats

from bakeoff.stats import drift

NOISE = np.random.default_rng(2).normal(0, 0.01, 20)


def test_slope_agrees_with_scipy() -> None:
    y = NOISE + np.linspace(0, 0.05, 20)
    change, p = drift.slope(y)
    expected = stats.linregress(np.arange(20), y)
    assert change == pytest.approx(expected.slope * 19)
    assert p == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("function", [drift.slope, drift.lag1, drift.first_change])
def test_short_or_constant_series_show_nothing(function: object) -> None:
    assert callable(function)
    assert function([0.1, 0.2, 0.9]) == (0.0, 1.0)
    assert function([0.25] * 8)[1] == 1.0


def test_a_perfect_line_is_certain() -> None:
    change, p = drift.slope(np.arange(8.0))
    assert change == pytest.approx(7.0)
    assert p == 0.0


def test_lag1_finds_persistence_and_alternation() -> None:
    r, p = drift.lag1(np.sin(np.linspace(0, 6, 30)))
    assert r > 0.8
    assert p < 1e-4
    r, p = drift.lag1(np.array([1.0, -1.0] * 10))
    assert r < -0.8
    assert p < 1e-3


def test_lag1_false_alarms_are_as_rare_as_promised() -> None:
    rng = np.random.default_rng(4)
    alarms = [drift.lag1(rng.normal(size=15))[1] < 0.05 for _ in range(2000)]
    assert 0.02 < np.mean(alarms) < 0.08


def test_first_change_is_a_prediction_interval() -> None:
    rng = np.random.default_rng(5)
    alarms = [drift.first_change(rng.normal(size=10))[1] < 0.05 for _ in range(2000)]
    assert 0.035 < np.mean(alarms) < 0.065
    difference, p = drift.first_change([1.0, 0.0, 0.1, -0.1, 0.05, 0.0])
    assert difference == pytest.approx(0.99)
    assert p < 0.001
    assert drift.first_change([1.0, 0.0, 0.0, 0.0]) == (1.0, 0.0)


def test_prediction_bound() -> None:
    assert drift.prediction_bound(0.02, 10, 4, 0.05) == pytest.approx(stats.t.ppf(0.975, 10) * 0.01)
    assert drift.prediction_bound(0.02, 0, 4, 0.05) == np.inf
    assert drift.prediction_bound(np.nan, 3, 4, 0.05) == np.inf
