import numpy as np
import pytest

from bakeoff.model import Interval
from bakeoff.stats.paired import t_multiplier
from bakeoff.stats.ratios import paired_ratio, quotient_of_means, wider


def test_the_ratio_of_sums_and_what_cancels() -> None:
    """Clusters that are long in both arms: each arm's own ratio scatters, their quotient does not."""
    seconds = np.array([1.0, 5.0, 2.0, 9.0])
    tasks = np.ones(4)
    found = paired_ratio((seconds, tasks), (2 * seconds, tasks), 0.05)
    assert found.base.point == pytest.approx(4.25)
    assert found.base.low is not None
    assert found.base.low < 3
    assert found.ratio.point == pytest.approx(2.0)
    assert found.ratio.low == pytest.approx(2.0)
    assert found.ratio.high == pytest.approx(2.0)


def test_nothing_solved_has_no_time_per_solved_task() -> None:
    seconds = np.array([1.0, 5.0, 2.0])
    found = paired_ratio((seconds, np.ones(3)), (seconds, np.zeros(3)), 0.05)
    assert found.other == found.ratio == Interval(point=None)
    rare = paired_ratio((seconds, np.ones(3)), (seconds, np.array([0.0, 1.0, 0.0])), 0.05)
    assert rare.other.point == pytest.approx(8.0)
    assert rare.other.high is None


def test_the_jackknife_covers() -> None:
    """Ratio of sums over 8 noisy clusters: about 95 of 100 intervals hold the truth."""
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        size = rng.integers(20, 40, 8).astype(float)
        luck = rng.normal(0, 0.1, 8)
        base = size * np.exp(luck + rng.normal(0, 0.05, 8))
        other = 1.3 * size * np.exp(luck + rng.normal(0, 0.05, 8))
        ratio = paired_ratio((base, size), (other, size), 0.05).ratio
        assert ratio.low is not None
        assert ratio.high is not None
        held += ratio.low <= 1.3 <= ratio.high
    assert 0.92 <= held / 400 <= 0.98


def test_quotient_of_means() -> None:
    rng = np.random.default_rng(3)
    top, bottom = 10 + rng.normal(0, 0.1, 8), 0.2 + rng.normal(0, 0.002, 8)
    found = quotient_of_means(top, bottom, t_multiplier(8, 0.05))
    assert found.low is not None
    assert found.high is not None
    assert found.low < 50 < found.high
    assert found.high - found.low < 3
    unclear = quotient_of_means(top, rng.normal(0, 0.2, 8), t_multiplier(8, 0.05))
    assert unclear.low is None
    assert quotient_of_means(np.zeros(0), np.zeros(0), 1.0).point is None
    assert quotient_of_means(np.ones(1), np.full(1, 2.0), np.inf) == Interval(point=0.5)


def test_the_wider_of_two() -> None:
    assert wider(Interval(point=1, low=0.5, high=2), Interval(point=3, low=0.7, high=4)) == Interval(
        point=1, low=0.5, high=4
    )
    assert wider(Interval(point=1, low=0.5, high=2), Interval(point=1)) == Interval(point=1)
