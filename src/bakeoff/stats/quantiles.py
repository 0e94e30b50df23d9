"""Tail quantiles of blocks that are too small to have one each: all requests of an arm pooled.

Requests of a block are not independent, so the standard error comes from resampling whole pairs of blocks. It is good
for one look only: a bootstrap over a handful of pairs gives no interval that could be watched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .estimators import block_quantile, log_ratio
from .fixed import Pooled

Floats = NDArray[np.float64]

#: Replications of the bootstrap; its own error of the standard error is then about 4 %.
REPLICATIONS = 400
_AT_ONCE = 2_000_000  # counts that are held at a time


def pooled_quantile(base: Sequence[Floats], other: Sequence[Floats], q: float, *, seed: int = 0) -> Pooled:
    """ln(quantile of `other` ÷ quantile of `base`) over all requests, with a pair-bootstrap standard error.

    base, other: the values of each replicate (pair of blocks, or start group), in the same order; shape (requests,),
    NaN for undefined. The error is inflated by √(n/(n − 1)), because a bootstrap spreads like the n values around
    their own mean. NaN where a quantile is not positive or fewer than two replicates are there.
    """
    n = len(base)
    point = log_ratio(block_quantile(_joined(other), q), block_quantile(_joined(base), q))
    if n < 2 or not math.isfinite(point):
        return Pooled(point, math.nan, 0)
    rng = np.random.default_rng(seed)
    # How often each replicate is drawn: the same draws for both arms, so that pairs stay pairs.
    times = rng.multinomial(n, np.full(n, 1 / n), size=REPLICATIONS)
    left, right = _resampled(base, times, q), _resampled(other, times, q)
    good = (left > 0) & (right > 0)  # NaN compares as False
    draws = np.log(right[good]) - np.log(left[good])
    error = float(draws.std(ddof=1)) * math.sqrt(n / (n - 1)) if draws.size > 1 else math.nan
    return Pooled(point, error, n - 1)


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *parts])


def _resampled(parts: Sequence[Floats], times: NDArray[np.int64], q: float) -> Floats:
    """Quantile (linear interpolation) of the values when part i counts times[draw, i] times; shape (draws,).

    The values are sorted once; a draw only changes how often each counts, so its quantile is found by counting.
    """
    values, owner = _joined(parts), np.repeat(np.arange(len(parts)), [part.size for part in parts])
    known = np.isfinite(values)
    order = np.argsort(values[known], kind="stable")
    ordered, owner = values[known][order], owner[known][order]
    if not ordered.size:
        return np.full(len(times), np.nan)
    found = []
    for some in np.array_split(times, max(1, times.shape[0] * ordered.size // _AT_ONCE)):
        counts = np.cumsum(some[:, owner], axis=1)
        place = np.maximum(counts[:, -1] - 1, 0) * q
        low = np.floor(place)
        ends = [
            ordered[np.argmax(counts > np.minimum(at, counts[:, -1] - 1)[:, None], axis=1)] for at in (low, low + 1)
        ]
        between = ends[0] + (place - low) * (ends[1] - ends[0])
        found.append(np.where(counts[:, -1] > 0, between, np.nan))
    return np.concatenate(found)
