"""Anytime-valid inference for a mean: the t confidence sequence with a Gaussian mixture.

The interval may be looked at after every pair, and a run may stop because of what it shows, without spoiling its
coverage: the probability that it *ever* misses the true mean is at most alpha. Source: arXiv 2310.03722 (the
scale-invariant Gaussian mixture). With k = 1 + n·c², and t the usual t statistic, the evidence against mean 0 is

    e = k^(−1/2) · ((1 + y) / (1 + y/k))^(n/2),    y = t² / (n − 1),

whose inverse is an anytime-valid p-value; solving e < 1/alpha for the mean gives the interval. With several strata
n − 1 becomes the degrees of freedom of the residuals, n/2 half of one more than those, and the n in k the information
on the mean (linear models: arXiv 2210.08589).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..model import Interval
from .strata import Labels, summarise

#: Prior variance of the effect in units of the pair's own variance. 1 suits runs of about 5 to 50 pairs.
MIXTURE_VARIANCE = 1.0


def multiplier(n: float, alpha: float, freedom: int | None = None) -> float:
    """Half-width of the interval in units of the sd of the residuals; infinite while n is too small for alpha.

    n: values (with strata: their information, `Summary.n`). freedom: degrees of freedom of the sd, n − 1 by default.
    """
    free = int(n) - 1 if freedom is None else freedom
    if free < 1:
        return math.inf
    k = 1.0 + n * MIXTURE_VARIANCE
    log_a = (0.5 * math.log(k) - math.log(alpha)) * 2.0 / (free + 1)
    if log_a >= math.log(k):
        return math.inf
    a = math.exp(log_a)
    x = (a - 1.0) / (1.0 - a / k)
    return math.sqrt(x * free / n)


def interval(values: NDArray[np.float64] | Sequence[float], alpha: float, strata: Labels | None = None) -> Interval:
    """Mean of `values` (shape (n,), any unit) with its anytime-valid interval at level 1 − alpha.

    strata: which stratum each value is of. Bounds are None while they are infinite. Raises TooFewData for NaN or
    infinite input.
    """
    mean, sd, n, freedom = summarise(values, strata)
    if n == 0:
        return Interval(point=None)
    factor = multiplier(n, alpha, freedom)
    if not math.isfinite(factor):
        return Interval(point=mean)
    return Interval(point=mean, low=mean - factor * sd, high=mean + factor * sd)


def p_value(values: NDArray[np.float64] | Sequence[float], strata: Labels | None = None) -> float:
    """Smallest alpha at which the interval excludes 0 (closed form: 1/e, at most 1). 1.0 for fewer than two values."""
    mean, sd, n, freedom = summarise(values, strata)
    if freedom < 1 or mean == 0.0:
        return 1.0
    k = 1.0 + n * MIXTURE_VARIANCE
    log_ratio = -math.log(k)  # limit of (1 + y/k) / (1 + y) as y grows
    if sd > 0.0 and math.isfinite(mean / sd):
        y = n * (mean / sd) ** 2 / freedom
        log_ratio = -math.log(k) if not math.isfinite(y) else math.log1p(y / k) - math.log1p(y)
    return math.exp(min(0.0, 0.5 * math.log(k) + 0.5 * (freedom + 1) * log_ratio))


def least_p_value(n: int) -> float:
    """The limit of `p_value` for n pairs that do not scatter: no n pairs, whatever they show, have a smaller one."""
    return (1.0 + n * MIXTURE_VARIANCE) ** (-0.5 * (n - 1)) if n >= 2 else 1.0
