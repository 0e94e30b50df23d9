"""Fixed-n inference for paired differences: t, sign-flip, Wilcoxon with the Hodges–Lehmann estimate.

Valid for one look at a number of pairs that was set in advance; for repeated looks use `anytime`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..model import Interval
from .checks import finite_vector
from .strata import Labels, summarise

Vector = NDArray[np.float64] | Sequence[float]

#: Up to here the signed-rank distribution is enumerated exactly (n³ additions); above, the normal limit is used.
_EXACT_RANK_PAIRS = 60
#: Up to here all 2ⁿ sign assignments are enumerated; above, a seeded sample of them.
_EXACT_FLIP_PAIRS = 14
_FLIP_SAMPLES = 20_000


def t_multiplier(n: float, alpha: float, freedom: int | None = None) -> float:
    """Half-width of Student's interval in units of the sd. n and freedom as for `anytime.multiplier`."""
    free = int(n) - 1 if freedom is None else freedom
    return float(stats.t.ppf(1 - alpha / 2, free)) / math.sqrt(n) if free >= 1 else math.inf


def t_interval(values: Vector, alpha: float, strata: Labels | None = None) -> Interval:
    """Mean with Student's t interval at level 1 − alpha, in the unit of `values` (shape (n,)). n < 2: no bounds."""
    mean, sd, n, freedom = summarise(values, strata)
    if n == 0:
        return Interval(point=None)
    if freedom < 1:
        return Interval(point=mean)
    half = t_multiplier(n, alpha, freedom) * sd
    return Interval(point=mean, low=mean - half, high=mean + half)


def t_tails(values: Vector, null: float = 0.0, strata: Labels | None = None) -> tuple[float, float]:
    """One-sided p of (mean ≤ null, mean ≥ null). (1, 1) for fewer than two values."""
    mean, sd, n, freedom = summarise(values, strata)
    if freedom < 1:
        return 1.0, 1.0
    away = mean - null
    if sd == 0.0:
        return (1.0, 1.0) if away == 0.0 else (0.0, 1.0) if away > 0 else (1.0, 0.0)
    t = away / (sd / math.sqrt(n))
    return float(stats.t.sf(t, freedom)), float(stats.t.cdf(t, freedom))


def t_p_value(values: Vector, strata: Labels | None = None) -> float:
    """Two-sided p of mean 0. 1.0 for fewer than two values or all zero; 0.0 for a constant that is not zero."""
    return min(1.0, 2 * min(t_tails(values, 0.0, strata)))


def sign_flip_p_value(values: Vector, seed: int = 0) -> float:
    """Two-sided p of a distribution symmetric about 0, by flipping signs of the mean (exact up to 14 pairs)."""
    x = finite_vector(values)
    n = x.size
    if n == 0:
        return 1.0
    observed = abs(float(x.sum()))
    if n <= _EXACT_FLIP_PAIRS:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        sums = np.abs((1 - 2 * bits) @ x)
        return float(np.mean(sums >= observed * (1 - 1e-12)))
    rng = np.random.default_rng(seed)
    signs = 1 - 2 * rng.integers(0, 2, size=(_FLIP_SAMPLES, n))
    hits = int(np.sum(np.abs(signs @ x) >= observed * (1 - 1e-12)))
    return (hits + 1) / (_FLIP_SAMPLES + 1)  # the observed assignment is one of the possible ones


def wilcoxon_tails(values: Vector, null: float = 0.0) -> tuple[float, float]:
    """One-sided signed-rank p of (centre ≤ null, centre ≥ null). Values equal to `null` are dropped, ties get
    mid-ranks; exact (conditional on the ties) to 60 pairs. (1, 1) where nothing is left."""
    x = finite_vector(values) - null
    x = x[x != 0]
    n = x.size
    if n == 0:
        return 1.0, 1.0
    ranks = stats.rankdata(np.abs(x))
    positive = float(ranks[x > 0].sum())
    if n <= _EXACT_RANK_PAIRS:
        doubled = np.rint(2 * ranks).astype(int)  # mid-ranks are multiples of one half
        cumulative = np.cumsum(_sum_distribution(doubled))
        at = round(2 * positive)
        upper = 1.0 - (float(cumulative[at - 1]) if at > 0 else 0.0)
        return max(0.0, upper), min(1.0, float(cumulative[at]))
    z = (positive - float(ranks.sum()) / 2) / math.sqrt(float((ranks**2).sum()) / 4)
    return float(stats.norm.sf(z)), float(stats.norm.cdf(z))


def wilcoxon_p_value(values: Vector) -> float:
    """Two-sided signed-rank p of centre 0 (twice the smaller tail). 1.0 without a value that is not 0."""
    return min(1.0, 2 * min(wilcoxon_tails(values)))


def hodges_lehmann(values: Vector, alpha: float) -> Interval:
    """Median of the Walsh averages, with the interval that inverts the signed-rank test at level 1 − alpha.

    Bounds are None where n is too small for alpha (for 95 %: fewer than 6 pairs). Source: Hodges and Lehmann 1963.
    """
    x = finite_vector(values)
    n = x.size
    if n == 0:
        return Interval(point=None)
    rows, columns = np.triu_indices(n)
    walsh = np.sort((x[rows] + x[columns]) / 2)
    point = float(np.median(walsh))
    if n <= _EXACT_RANK_PAIRS:
        cumulative = np.cumsum(_sum_distribution(np.arange(1, n + 1)))
        cut = int(np.searchsorted(cumulative, alpha / 2, side="right"))  # number of sums with P(T ≤ sum) ≤ alpha/2
    else:
        mean, sd = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        cut = math.floor(mean + float(stats.norm.ppf(alpha / 2)) * sd)
    if cut < 1:
        return Interval(point=point)
    return Interval(point=point, low=float(walsh[cut - 1]), high=float(walsh[walsh.size - cut]))


def _sum_distribution(weights: NDArray[np.int_]) -> NDArray[np.float64]:
    """P(sum = s) for s = 0 … Σ weights, where each weight counts with probability one half, independently."""
    probability = np.zeros(int(weights.sum()) + 1)
    probability[0] = 1.0
    for weight in weights:
        shifted = np.zeros_like(probability)
        shifted[weight:] = probability[: probability.size - weight]
        probability = 0.5 * (probability + shifted)
    return probability
