"""Anytime-valid inference for a mean: the t confidence sequence with a Gaussian mixture.

The interval may be looked at after every pair, and a run may stop because of what it shows, without spoiling its
coverage: the probability that it *ever* misses the true mean is at most alpha. Source: arXiv 2310.03722 (the
scale-invariant Gaussian mixture). With k = 1 + n·c², and t the usual t statistic, the evidence against mean 0 is

    e = k^(−1/2) · ((1 + y) / (1 + y/k))^(n/2),    y = t² / (n − 1),

whose inverse is an anytime-valid p-value; solving e < 1/alpha for the mean gives the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..model import Interval
from .checks import finite_vector

#: Prior variance of the effect in units of the pair's own variance. 1 suits runs of about 5 to 50 pairs.
MIXTURE_VARIANCE = 1.0


def multiplier(n: int, alpha: float, mixture: float = MIXTURE_VARIANCE) -> float:
    """Half-width of the interval in units of the sample sd (ddof 1); infinite while n is too small for alpha."""
    if n < 2:
        return math.inf
    k = 1.0 + n * mixture
    log_a = (0.5 * math.log(k) - math.log(alpha)) * 2.0 / n
    if log_a >= math.log(k):
        return math.inf
    a = math.exp(log_a)
    x = (a - 1.0) / (1.0 - a / k)
    return math.sqrt(x * (n - 1) / n)


def interval(values: NDArray[np.float64] | Sequence[float], alpha: float) -> Interval:
    """Mean of `values` (shape (n,), any unit) with its anytime-valid interval at level 1 − alpha.

    Bounds are None while they are infinite. Raises TooFewData for NaN or infinite input.
    """
    x = finite_vector(values)
    if x.size == 0:
        return Interval(point=None)
    mean = float(x.mean())
    factor = multiplier(x.size, alpha)
    if not math.isfinite(factor):
        return Interval(point=mean)
    half = factor * float(x.std(ddof=1))
    return Interval(point=mean, low=mean - half, high=mean + half)


def p_value(values: NDArray[np.float64] | Sequence[float], mixture: float = MIXTURE_VARIANCE) -> float:
    """Smallest alpha at which the interval excludes 0 (closed form: 1/e, at most 1). 1.0 for fewer than two values."""
    x = finite_vector(values)
    n = x.size
    if n < 2:
        return 1.0
    k = 1.0 + n * mixture
    mean, sd = float(x.mean()), float(x.std(ddof=1))
    if mean == 0.0:
        return 1.0
    if sd == 0.0 or not math.isfinite(mean / sd):
        log_ratio = -math.log(k)  # limit of (1 + y/k) / (1 + y) as y grows
    else:
        y = n * (mean / sd) ** 2 / (n - 1)
        log_ratio = -math.log(k) if not math.isfinite(y) else math.log1p(y / k) - math.log1p(y)
    return math.exp(min(0.0, 0.5 * math.log(k) + 0.5 * n * log_ratio))
