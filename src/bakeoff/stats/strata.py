"""Values from several strata (machines): one mean over them, with the spread inside them.

Every stratum counts alike, whatever its number of values: what is estimated is then fixed beforehand (the mean over
these machines), while weights by numbers would let a run that stopped early, because of what it saw, shift it. What
the machines differ by is no noise of the estimate: residuals are taken from each stratum's own mean. The interval
therefore speaks of these machines, and of no others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .checks import finite_vector

Vector = NDArray[np.float64] | Sequence[float]
Labels = NDArray[np.int64] | Sequence[int]


class Summary(NamedTuple):
    """Mean of the strata's means, its standard error being sd/√n.

    sd: of the residuals from each stratum's own mean, with `freedom` degrees. n: the number of values for one stratum;
    for S strata of n_s values S² / Σ(1/n_s), which is S·n_s where all are of one size.
    """

    mean: float
    sd: float  # NaN without a degree of freedom
    n: float
    freedom: int


def summarise(values: Vector, strata: Labels | None = None) -> Summary:
    """Raises TooFewData for NaN. strata: shape (n,), which stratum a value is of; None: all of one."""
    x = finite_vector(values)
    if x.size == 0:
        return Summary(math.nan, math.nan, 0.0, 0)
    labels = np.zeros(x.size, dtype=np.int64) if strata is None else np.asarray(strata, dtype=np.int64)
    parts = [x[labels == label] for label in np.unique(labels)]
    if len(parts) == 1:
        sd = float(x.std(ddof=1)) if x.size > 1 else math.nan
        return Summary(float(x.mean()), sd, float(x.size), x.size - 1)
    means = np.array([part.mean() for part in parts])
    freedom = x.size - len(parts)
    squares = sum(float(((part - mean) ** 2).sum()) for part, mean in zip(parts, means, strict=True))
    n = len(parts) ** 2 / sum(1 / part.size for part in parts)
    return Summary(float(means.mean()), math.sqrt(squares / freedom) if freedom else math.nan, n, freedom)


def aligned(values: Vector, strata: Labels | None = None) -> NDArray[np.float64]:
    """The values with every stratum moved to the mean over strata, so that only their spread inside is left."""
    x = finite_vector(values)
    if strata is None or x.size == 0:
        return x
    labels = np.asarray(strata, dtype=np.int64)
    means = {int(label): float(x[labels == label].mean()) for label in np.unique(labels)}
    own = np.array([means[int(label)] for label in labels], dtype=np.float64)
    return np.asarray(x - own + float(np.mean(list(means.values()))), dtype=np.float64)


def differ_p_value(values: Vector, strata: Labels | None) -> float:
    """P of strata with one common mean (one-way analysis of variance, Fisher). 1 where it cannot be told."""
    x = finite_vector(values)
    labels = np.zeros(x.size, dtype=np.int64) if strata is None else np.asarray(strata, dtype=np.int64)
    parts = [x[labels == label] for label in np.unique(labels)]
    if len(parts) < 2 or x.size <= len(parts):
        return 1.0
    between = sum(part.size * (float(part.mean()) - float(x.mean())) ** 2 for part in parts)
    within = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
    if within <= 1e-24 * between:
        return 0.0 if between > 0 else 1.0
    freedom = len(parts) - 1, x.size - len(parts)
    return float(stats.f.sf(between / freedom[0] / (within / freedom[1]), *freedom))
