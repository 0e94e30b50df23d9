import math

import numpy as np
import pytest
from numpy.typing import NDArray

from bakeoff.stats.fixed import by_error
from bakeoff.stats.quantiles import _resampled, pooled_quantile


def blocks(rng: np.random.Generator, n: int, m: int) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Pairs of blocks on common prompts, with a slow wander that both share and the luck of each start."""
    base, other = [], []
    for _ in range(n):
        common = rng.normal(0, 0.4, m) + rng.normal(0, 0.02)
        base.append(np.exp(common + rng.normal(0, 0.01) + rng.normal(0, 0.15, m)))
        other.append(np.exp(common + rng.normal(0, 0.01) + rng.normal(0, 0.15, m)))
    return base, other


def test_the_point_is_the_ratio_of_the_pooled_quantiles() -> None:
    base, other = blocks(np.random.default_rng(1), 8, 50)
    found = pooled_quantile(base, [values * 1.2 for values in other], 0.95)
    expected = np.quantile(np.concatenate(other) * 1.2, 0.95) / np.quantile(np.concatenate(base), 0.95)
    assert found.point == pytest.approx(math.log(expected))
    assert found.freedom == 7
    assert found == pooled_quantile(base, [values * 1.2 for values in other], 0.95)  # seeded


def test_pairing_is_kept_in_the_error() -> None:
    base, _ = blocks(np.random.default_rng(2), 10, 60)
    assert pooled_quantile(base, base, 0.95).error == 0.0


def test_swapped_arms_and_units() -> None:
    base, other = blocks(np.random.default_rng(3), 8, 50)
    there, back = pooled_quantile(base, other, 0.95), pooled_quantile(other, base, 0.95)
    assert back.point == pytest.approx(-there.point)
    assert back.error == pytest.approx(there.error)
    milli = pooled_quantile([b * 1e3 for b in base], [o * 1e3 for o in other], 0.95)
    assert milli.point == pytest.approx(there.point)
    assert milli.error == pytest.approx(there.error)


def test_it_covers() -> None:
    rng = np.random.default_rng(4)
    hits = 0
    for seed in range(150):
        base, other = blocks(rng, 10, 60)
        found = by_error(pooled_quantile(base, other, 0.95, seed=seed)).interval(0.05)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0 <= found.high
    assert 0.90 <= hits / 150 <= 0.99


def test_undefined_and_few() -> None:
    values = np.array([1.0, math.nan, 2.0])
    assert pooled_quantile([values], [values], 0.95).freedom == 0
    assert math.isnan(pooled_quantile([], [], 0.95).point)
    empty = np.array([math.nan])
    assert math.isnan(pooled_quantile([empty, empty], [values, values], 0.95).error)


def test_resampling_by_counts_is_numpys_quantile_of_the_repeated_values() -> None:
    rng = np.random.default_rng(9)
    parts = [rng.lognormal(0, 1, size) for size in (5, 1, 12, 7)]
    parts[2][3] = math.nan
    times = rng.multinomial(4, [0.25] * 4, size=30)
    for q in (0.0, 0.5, 0.95, 1.0):
        expected = []
        for row in times:
            drawn = np.concatenate([np.tile(part, count) for part, count in zip(parts, row, strict=True)])
            expected.append(np.quantile(drawn[np.isfinite(drawn)], q))
        assert _resampled(parts, times, q) == pytest.approx(np.array(expected))
