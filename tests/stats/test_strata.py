import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bakeoff.stats import anytime, paired
from bakeoff.stats.strata import aligned, differ_p_value, summarise

X = np.array([0.1, 0.2, 0.15, 0.4, 0.5, 0.45, 0.55])
S = np.array([0, 0, 0, 1, 1, 1, 1])


def test_every_stratum_counts_alike() -> None:
    found = summarise(X, S)
    assert found.mean == pytest.approx((X[:3].mean() + X[3:].mean()) / 2)
    assert found.freedom == 5
    assert found.n == pytest.approx(4 / (1 / 3 + 1 / 4))
    squares = ((X[:3] - X[:3].mean()) ** 2).sum() + ((X[3:] - X[3:].mean()) ** 2).sum()
    assert found.sd == pytest.approx(math.sqrt(squares / 5))


def test_one_stratum_is_the_plain_mean() -> None:
    assert summarise(X) == summarise(X, np.zeros(7, dtype=np.int64))
    assert anytime.interval(X, 0.05) == anytime.interval(X, 0.05, np.full(7, 3))
    assert paired.t_interval(X, 0.05) == paired.t_interval(X, 0.05, np.full(7, 3))


def test_degenerate() -> None:
    assert math.isnan(summarise([]).mean)
    one_each = summarise([1.0, 2.0], [0, 1])
    assert one_each.freedom == 0
    assert math.isnan(one_each.sd)
    assert paired.t_interval([1.0, 2.0], 0.05, [0, 1]).low is None
    assert anytime.interval([1.0, 2.0], 0.05, [0, 1]).low is None
    assert anytime.p_value([1.0, 2.0], [0, 1]) == 1.0


def test_alignment_moves_and_keeps_the_spread() -> None:
    moved = aligned(X, S)
    assert moved[:3].mean() == pytest.approx(moved[3:].mean())
    assert moved.mean() == pytest.approx(summarise(X, S).mean)
    assert np.diff(moved[:3]) == pytest.approx(np.diff(X[:3]))


def test_the_test_of_machines_is_an_analysis_of_variance() -> None:
    assert differ_p_value(X, S) == pytest.approx(stats.f_oneway(X[:3], X[3:]).pvalue)
    assert differ_p_value(X, None) == 1.0
    assert differ_p_value([1.0, 1.0, 2.0, 2.0], [0, 0, 1, 1]) == 0.0
    assert differ_p_value([1.0, 1.0, 1.0, 1.0], [0, 0, 1, 1]) == 1.0


def test_merged_machines_cover_their_mean_though_they_differ() -> None:
    rng = np.random.default_rng(6)
    labels = np.repeat([0, 1], [6, 14])
    truth = np.where(labels == 0, 0.0, 0.1)
    hits = {"fixed": 0, "anytime": 0}
    for _ in range(600):
        x = truth + rng.normal(0, 0.02, 20)
        for name, found in (("fixed", paired.t_interval), ("anytime", anytime.interval)):
            one = found(x, 0.05, labels)
            assert one.low is not None
            assert one.high is not None
            hits[name] += one.low <= 0.05 <= one.high
    assert 0.925 <= hits["fixed"] / 600 <= 0.975
    assert hits["anytime"] / 600 >= 0.985


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=12))
def test_order_does_not_matter_and_units_scale(values: list[float]) -> None:
    x = np.array(values)
    labels = np.arange(x.size) % 2
    order = np.random.default_rng(len(values)).permutation(x.size)
    plain, shuffled, scaled = summarise(x, labels), summarise(x[order], labels[order]), summarise(3 * x, labels)
    assert shuffled.mean == pytest.approx(plain.mean, abs=1e-12)
    assert shuffled.sd == pytest.approx(plain.sd, abs=1e-12)
    assert scaled.sd == pytest.approx(3 * plain.sd, abs=1e-12)
