"""Detectors on the series of pair differences: is it stationary, are its members independent?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .checks import finite_vector

Vector = NDArray[np.float64] | Sequence[float]


def slope(values: Vector) -> tuple[float, float]:
    """(change over the whole series by a least-squares line, its two-sided p). (0, 1) for fewer than four values."""
    y = finite_vector(values)
    n = y.size
    if n < 4:
        return 0.0, 1.0
    x = np.arange(n) - (n - 1) / 2
    sxx = float((x**2).sum())
    gradient = float((x * y).sum()) / sxx
    residual = y - y.mean() - gradient * x
    total, left = float(((y - y.mean()) ** 2).sum()), float((residual**2).sum())
    change = gradient * (n - 1)
    if total == 0.0:
        return 0.0, 1.0
    if left <= 1e-24 * total:
        return change, 0.0
    t = gradient / math.sqrt(left / (n - 2) / sxx)
    return change, float(2 * stats.t.sf(abs(t), n - 2))


def lag1(values: Vector) -> tuple[float, float]:
    """(lag-1 autocorrelation, two-sided p under independence). (0, 1) for fewer than five values or no variance.

    Under independence r has mean −1/n and variance about (n − 2)² / (n²·(n − 1)).
    """
    y = finite_vector(values)
    n = y.size
    if n < 5:
        return 0.0, 1.0
    centred = y - y.mean()
    total = float((centred**2).sum())
    if total <= 1e-30 * float((y**2).sum()) or total == 0.0:
        return 0.0, 1.0
    r = float((centred[1:] * centred[:-1]).sum()) / total
    z = (r + 1 / n) / math.sqrt((n - 2) ** 2 / (n**2 * (n - 1)))
    return r, float(2 * stats.norm.sf(abs(z)))


def first_change(values: Vector) -> tuple[float, float]:
    """(first value minus the mean of the rest, two-sided p by the t prediction interval). (0, 1) below four values."""
    y = finite_vector(values)
    n = y.size
    if n < 4:
        return 0.0, 1.0
    rest = y[1:]
    difference, sd = float(y[0] - rest.mean()), float(rest.std(ddof=1))
    if sd == 0.0:
        return difference, 1.0 if difference == 0.0 else 0.0
    t = difference / (sd * math.sqrt(1 + 1 / rest.size))
    return difference, float(2 * stats.t.sf(abs(t), rest.size - 1))


def prediction_bound(sd: float, freedom: int, n: int, alpha: float) -> float:
    """Largest |mean| of n values that a true mean of 0 explains at level 1 − alpha, given a pooled sd (else inf)."""
    if freedom < 1 or n < 1 or not math.isfinite(sd):
        return math.inf
    return float(stats.t.ppf(1 - alpha / 2, freedom)) * sd / math.sqrt(n)
