from __future__ import annotations

import numpy as np
import pytest

from bakeoff.errors import UsageError
from bakeoff.model import Arrivals, Load
from bakeoff.workloads import derive_seed, draw_schedule


def _open(arrivals: Arrivals = "poisson") -> Load:
    return Load(kind="open", levels=(2.0,), arrivals=arrivals)


def test_constant_is_exact_and_does_not_accumulate_rounding() -> None:
    offsets = draw_schedule(_open("constant"), 3.0, count=3_000_001, seed=1)
    assert offsets[:4] == (0, 333_333_333, 666_666_667, 1_000_000_000)
    assert offsets[3_000_000] == 1_000_000 * 10**9


@pytest.mark.parametrize(("rate", "seconds", "expected"), [(2.0, 3.0, 6), (2.5, 1.0, 3), (0.1, 5.0, 1), (7.0, 0.0, 0)])
def test_constant_over_a_time_holds_every_arrival_before_the_end(rate: float, seconds: float, expected: int) -> None:
    offsets = draw_schedule(_open("constant"), rate, seconds=seconds, seed=1)
    assert len(offsets) == expected
    assert all(0 <= offset < seconds * 1e9 for offset in offsets)


def test_poisson_counts_have_dispersion_one() -> None:
    """Theory: counts per window are Poisson, so variance ÷ mean = 1 (standard error √(2/windows) = 0.022)."""
    offsets = np.array(draw_schedule(_open(), 10.0, seconds=4000.0, seed=7)) / 1e9
    counts = np.histogram(offsets, bins=4000, range=(0, 4000))[0]
    assert counts.mean() == pytest.approx(10.0, abs=0.2)
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.09)


def test_poisson_gaps_are_exponential_and_independent() -> None:
    offsets = np.array((0, *draw_schedule(_open(), 5.0, count=40_000, seed=11))) / 1e9
    gaps = np.diff(offsets)  # from the block's start on: the first arrival waits like any other
    assert gaps.mean() == pytest.approx(0.2, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)  # coefficient of variation of an exponential
    assert np.mean(gaps > 0.2) == pytest.approx(np.exp(-1), abs=0.01)
    centred = gaps - gaps.mean()
    for lag in (1, 2, 5):
        correlation = float(np.mean(centred[:-lag] * centred[lag:]) / gaps.var())
        assert abs(correlation) < 0.02  # standard error 0.005


def test_the_first_arrival_is_not_at_the_start() -> None:
    firsts = np.array([draw_schedule(_open(), 2.0, count=1, seed=seed)[0] for seed in range(4000)]) / 1e9
    assert firsts.mean() == pytest.approx(0.5, rel=0.06)


def test_one_seed_one_schedule_and_longer_ones_extend_shorter_ones() -> None:
    long = draw_schedule(_open(), 4.0, count=5000, seed=3)
    assert draw_schedule(_open(), 4.0, count=700, seed=3) == long[:700]
    by_time = draw_schedule(_open(), 4.0, seconds=100.0, seed=3)
    assert by_time == long[: len(by_time)]
    assert long[len(by_time)] >= 100 * 10**9
    assert draw_schedule(_open(), 4.0, count=5000, seed=4) != long
    assert list(long) == sorted(long)


def test_a_time_longer_than_expected_is_drawn_on() -> None:
    # Over many seeds some need more than mean + 6 deviations + 16 only if drawing on were broken: none may end early.
    for seed in range(200):
        offsets = draw_schedule(_open(), 50.0, seconds=2.0, seed=seed)
        extended = draw_schedule(_open(), 50.0, count=len(offsets) + 1, seed=seed)
        assert extended[:-1] == offsets
        assert extended[-1] >= 2 * 10**9


def test_what_cannot_be_scheduled() -> None:
    with pytest.raises(UsageError, match="closed loop"):
        draw_schedule(Load(kind="closed", levels=(4.0,)), 4.0, count=3, seed=0)
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="not possible"):
            draw_schedule(_open(), rate, count=3, seed=0)
    with pytest.raises(UsageError, match="either"):
        draw_schedule(_open(), 1.0, seed=0)
    with pytest.raises(UsageError, match="either"):
        draw_schedule(_open(), 1.0, count=1, seconds=1.0, seed=0)
    with pytest.raises(UsageError, match="limit"):
        draw_schedule(_open(), 1e6, seconds=1e6, seed=0)


def test_seeds_differ_with_every_part_and_never_with_the_machine() -> None:
    assert derive_seed(1, "chat", 2) == derive_seed(1, "chat", 2) == 8775865632323924559
    assert len({derive_seed(1, 2), derive_seed(2, 1), derive_seed("1", 2), derive_seed(12), derive_seed(1, 2, 0)}) == 5
    assert all(0 <= derive_seed(n) < 2**63 for n in range(1000))
