import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.stats.accuracy import Flips, clustered_t_interval, difference, flips, items_for, mcnemar_p_value
from bakeoff.stats.paired import t_interval


def test_mid_p_of_fagerlands_example() -> None:
    """Airway hyper-responsiveness before and after transplantation: 1 and 7 of 21 change; mid-p 0.039, exact 0.070."""
    assert mcnemar_p_value(Flips(7, 1, 21)) == pytest.approx(0.0391, abs=5e-5)


def test_flips_are_counted_by_direction() -> None:
    base = np.array([True, True, False, False, True])
    other = np.array([True, False, True, True, True])
    assert flips(base, other) == Flips(lost=1, won=2, items=5)


def test_no_flip_is_no_evidence() -> None:
    assert mcnemar_p_value(Flips(0, 0, 100)) == 1.0
    assert mcnemar_p_value(Flips(5, 5, 100)) == 1.0
    found = difference(Flips(0, 0, 100), 0.05)
    assert found.point == 0
    assert found.low is not None
    assert found.high is not None
    assert -0.05 < found.low < 0 < found.high < 0.05
    assert difference(Flips(0, 0, 0), 0.05).point is None


@given(st.integers(0, 60), st.integers(0, 60), st.integers(120, 400))
def test_swapping_the_arms(lost: int, won: int, items: int) -> None:
    there, back = Flips(lost, won, items), Flips(won, lost, items)
    assert mcnemar_p_value(there) == pytest.approx(mcnemar_p_value(back))
    a, b = difference(there, 0.05), difference(back, 0.05)
    assert a.low == pytest.approx(-(b.high or 0))
    assert a.point == pytest.approx(-(b.point or 0))


def test_mid_p_keeps_its_level_and_the_interval_covers() -> None:
    rng = np.random.default_rng(7)
    p, hits = [], 0
    for _ in range(1500):
        lost, won = rng.multinomial(400, [0.07, 0.07, 0.86])[:2]
        p.append(mcnemar_p_value(Flips(int(lost), int(won), 400)))
        found = difference(Flips(int(lost), int(won), 400), 0.05)
        hits += (found.low or 0) <= 0 <= (found.high or 0)
    assert np.mean(np.array(p) <= 0.05) <= 0.065
    assert 0.935 <= hits / 1500 <= 0.97


def test_items_as_the_rule_of_thumb_has_them() -> None:
    assert items_for(0.14, 0.01) == 8652
    assert items_for(0.14, 0.04) == 541
    assert items_for(0.14, 0.0) is None


def test_clusters_widen_what_they_share() -> None:
    rng = np.random.default_rng(8)
    groups = np.repeat(np.arange(20), 5)
    x = rng.normal(0, 0.3, 20)[groups] + rng.normal(0, 0.1, 100)
    naive, clustered = t_interval(x, 0.05), clustered_t_interval(x, groups, 0.05)
    assert clustered.point == naive.point
    assert (clustered.high or 0) - (clustered.low or 0) > 1.5 * ((naive.high or 0) - (naive.low or 0))


def test_clusters_of_one_are_the_plain_interval() -> None:
    x = np.random.default_rng(9).normal(0, 1, 12)
    alone = clustered_t_interval(x, np.arange(12), 0.05)
    plain = t_interval(x, 0.05)
    assert (alone.low, alone.high) == pytest.approx((plain.low, plain.high))
    assert clustered_t_interval(x, np.zeros(12, dtype=np.int64), 0.05).low is None
    assert clustered_t_interval([], np.zeros(0, dtype=np.int64), 0.05).point is None


def test_clustered_interval_covers() -> None:
    rng = np.random.default_rng(10)
    groups = np.repeat(np.arange(25), 4)
    hits = 0
    for _ in range(600):
        found = clustered_t_interval(rng.normal(0, 0.3, 25)[groups] + rng.normal(0, 0.3, 100), groups, 0.05)
        hits += (found.low or 0) <= 0 <= (found.high or 0)
    assert 0.925 <= hits / 600 <= 0.975
    assert not math.isnan(hits)
