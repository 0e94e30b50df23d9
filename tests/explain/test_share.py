import numpy as np
import pytest

from bakeoff.explain.share import share_of_gap
from bakeoff.stats.anytime import interval


def test_share_and_its_interval_cover_the_truth() -> None:
    rng = np.random.default_rng(3)
    misses = 0
    for _ in range(400):
        gap = rng.normal(0.5, 0.03, 10)
        effect = 0.8 * gap + rng.normal(0, 0.02, 10)
        found = share_of_gap(effect, gap, 0.05)
        assert found.low is not None
        assert found.high is not None
        misses += not found.low <= 0.8 <= found.high
    assert misses / 400 <= 0.05


def test_its_ends_are_where_zero_leaves_the_interval() -> None:
    rng = np.random.default_rng(4)
    gap, effect = rng.normal(0.5, 0.1, 12), rng.normal(0.6, 0.1, 12)
    found = share_of_gap(effect, gap, 0.05)
    for end in (found.low, found.high):
        assert end is not None
        edge = interval(effect - end * gap, 0.05)
        assert edge.low is not None
        assert edge.high is not None
        assert min(abs(edge.low), abs(edge.high)) == pytest.approx(0, abs=1e-9)


def test_no_bounds_without_enough_pairs_or_without_a_gap() -> None:
    few = share_of_gap(np.array([0.4, 0.5]), np.array([0.5, 0.5]), 0.05)
    assert few.point == pytest.approx(0.9)
    assert (few.low, few.high) == (None, None)
    noise = np.array([0.5, -0.4, 0.3, -0.35, 0.1, -0.1, 0.2, -0.2])
    assert share_of_gap(np.ones(8), noise, 0.05).low is None
    assert share_of_gap(np.zeros(0), np.zeros(0), 0.05).point is None


def test_the_whole_gap() -> None:
    gap = np.array([0.5, 0.52, 0.48, 0.51, 0.49, 0.5])
    found = share_of_gap(gap, gap, 0.05)
    assert found.point == 1.0
    assert found.low == pytest.approx(1.0)
    assert found.high == pytest.approx(1.0)
