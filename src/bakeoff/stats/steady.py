"""Is a series steady, does it settle, or does it never? Change points of its level, found without assuming a shape.

Segments are fitted by optimal partitioning with pruning (PELT: Killick, Fearnhead and Eckley 2012) under a squared
cost. Three things make it fit for latencies: values are bounded around their running median first, so that a single
outlier is no segment; the noise is measured from first differences, which a shift of level hardly touches; and the
penalty for a segment grows with the long-run variance, because neighbouring requests resemble each other. How the
segments are read (steady, settling, no steady state) follows Barrett et al. 2017, *Virtual Machine Warmup Blows Hot
and Cold*.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .checks import finite_vector

Vector = NDArray[np.float64] | Sequence[float]
Floats = NDArray[np.float64]

#: steady: one level. settles: another level first, then one to the end. none: no level that lasts.
Kind = Literal["steady", "settles", "none"]

#: Fewer values show no change of level.
LEAST = 6
#: Robust standard deviations from the median beyond which a value stands apart.
OUTLIER_SD = 5.0
_SHORTEST = 2  # values of a segment
_BOUND = 3.0  # robust sd around the running median
_PENALTY = 3.0  # × long-run variance × ln n; 2 is the Schwarz criterion, more makes up for the unknown variance
_FEW = 20.0  # a variance from n differences is itself uncertain: the penalty grows by this ÷ n
_MAD = 1.4826  # of normal values: sd ÷ median absolute deviation


class Segment(NamedTuple):
    """Values start ≤ i < end of one level."""

    start: int
    end: int
    level: float


class Steadiness(NamedTuple):
    """How a series stands. `start`: first value of its steady part (its length where there is none)."""

    kind: Kind
    start: int
    segments: tuple[Segment, ...]

    @property
    def step(self) -> float:
        """Level before the steady part minus the level in it; for `none`, highest minus lowest level."""
        levels = [segment.level for segment in self.segments]
        return levels[0] - levels[-1] if self.kind == "settles" else max(levels) - min(levels) if levels else 0.0


def steadiness(values: Vector, *, tolerance: float = 0.0, least_share: float = 0.5) -> Steadiness:
    """Reads a series in order of time. Raises TooFewData for NaN.

    tolerance: levels that close to the last one count as it (in the values' unit). least_share: the part of the series
    that its last level must hold for to be called steady.
    """
    x = finite_vector(values)
    found = segments(x)
    if not found:
        return Steadiness("steady", 0, ())
    last = found[-1]
    start = last.start
    for segment in reversed(found[:-1]):
        if abs(segment.level - last.level) > tolerance:
            break
        start = segment.start
    if start == 0:
        return Steadiness("steady", 0, found)
    lasts = x.size - start >= least_share * x.size
    return Steadiness("settles" if lasts else "none", start if lasts else x.size, found)


def segments(values: Vector) -> tuple[Segment, ...]:
    """The levels of a series; empty for no values, one segment below LEAST values or without a shift."""
    x = finite_vector(values)
    n = x.size
    if n == 0:
        return ()
    bounded, variance = _bounded(x)
    if n < LEAST or variance <= 0.0:
        return _unlike(x) if n >= LEAST else (Segment(0, n, float(x.mean())),)
    edges = _pelt(bounded, _PENALTY * (1 + _FEW / n) * variance * math.log(n))
    return tuple(Segment(a, b, float(bounded[a:b].mean())) for a, b in itertools.pairwise(edges))


def outliers(values: Vector, threshold: float = OUTLIER_SD) -> tuple[int, ...]:
    """Places of values beyond `threshold` robust standard deviations from the median.

    (Iglewicz and Hoaglin 1993 take 3.5; with 6 to 40 values that cries wolf in one series of ten. The threshold grows
    by 4/n, because the deviation of a handful is uncertain: one in a hundred.) Empty for fewer than LEAST values or
    where more than half of them are equal.
    """
    x = finite_vector(values)
    if x.size < LEAST:
        return ()
    away = np.abs(x - np.median(x))
    # The median absolute deviation of a handful of values is too small on average: n/(n − 0.8), Croux and Rousseeuw.
    sd = _MAD * float(np.median(away)) * x.size / (x.size - 0.8)
    bound = threshold * (1 + 4 / x.size) * sd
    return tuple(int(i) for i in np.flatnonzero(away > bound)) if sd > 0 else ()


def _bounded(x: Floats) -> tuple[Floats, float]:
    """(values within _BOUND robust sd of their running median, long-run variance of the noise)."""
    n = x.size
    if n < LEAST:
        return x, 0.0
    steps = np.diff(x)
    sd = _MAD * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2)
    if sd <= 0.0:
        return x, 0.0
    padded = np.pad(x, 2, mode="reflect")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    bounded = np.clip(x, middle - _BOUND * sd, middle + _BOUND * sd)
    # For an AR(1) series with correlation φ, first differences have variance 2σ²(1 − φ) and correlation −(1 − φ)/2.
    d = np.clip(steps, -4 * sd, 4 * sd)
    d = d - d.mean()
    total = float((d**2).sum())
    rho = float((d[1:] * d[:-1]).sum()) / total if total > 0 else -0.5
    phi = min(max(1 + 2 * rho, 0.0), 0.9)
    variance = sd**2 / (1 - phi)  # of the values, from that of the differences
    return bounded, variance * (1 + phi) / (1 - phi)


def _unlike(x: Floats) -> tuple[Segment, ...]:
    """Segments of a series without noise: wherever the value changes."""
    edges = [0, *(np.flatnonzero(np.diff(x) != 0) + 1).tolist(), x.size]
    if len(edges) > x.size // 2 + 1:  # most differ, half of them by nothing: no levels to speak of
        return (Segment(0, x.size, float(x.mean())),)
    return tuple(Segment(a, b, float(x[a:b].mean())) for a, b in itertools.pairwise(edges))


def _pelt(x: Floats, penalty: float) -> list[int]:
    """Edges (0 … n) of the partition with the least Σ squared residuals + penalty per segment."""
    n = x.size
    sums, squares = np.r_[0.0, np.cumsum(x)], np.r_[0.0, np.cumsum(x**2)]
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    origin = np.zeros(n + 1, dtype=np.int64)
    candidates = np.array([0], dtype=np.int64)
    for end in range(_SHORTEST, n + 1):
        length = end - candidates
        residual = squares[end] - squares[candidates] - (sums[end] - sums[candidates]) ** 2 / length
        cost = best[candidates] + residual + penalty
        chosen = int(np.argmin(cost))
        best[end], origin[end] = cost[chosen], candidates[chosen]
        # A start that is already worse than the best by more than a segment costs can never win again.
        candidates = candidates[best[candidates] + residual <= best[end] + 1e-12]
        if end >= 2 * _SHORTEST - 1 and np.isfinite(best[end - _SHORTEST + 1]):
            candidates = np.append(candidates, end - _SHORTEST + 1)
    edges = [n]
    while edges[-1] > 0:
        edges.append(int(origin[edges[-1]]))
    return edges[::-1]
