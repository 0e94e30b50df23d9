"""What these pairs could have shown, and how many more would decide."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .anytime import multiplier
from .checks import finite_vector

#: 80 % quantile of the standard normal: the usual power.
_Z_POWER = 0.8416212335729143
#: Beyond this many pairs "how many more" is no useful answer.
PAIRS_LIMIT = 10_000


def pooled_sd(samples: Sequence[NDArray[np.float64]]) -> tuple[float, int]:
    """(sd, degrees of freedom) of the residuals from each sample's own mean. (NaN, 0) without two values anywhere."""
    squares, freedom = 0.0, 0
    for sample in samples:
        x = finite_vector(sample)
        if x.size >= 2:
            squares += float(((x - x.mean()) ** 2).sum())
            freedom += x.size - 1
    return (math.sqrt(squares / freedom), freedom) if freedom else (math.nan, 0)


def minimum_detectable(sd: float, n: int, alpha: float) -> float | None:
    """Log ratio that n pairs of standard deviation `sd` show to differ from 0 with probability 80 % (anytime-valid).

    None while the interval is infinite or the sd unknown.
    """
    factor = multiplier(n, alpha)
    if not (math.isfinite(factor) and math.isfinite(sd)):
        return None
    return sd * (factor + _Z_POWER / math.sqrt(n))


def pairs_to_decide(mean: float, sd: float, alpha: float, margin: float) -> int | None:
    """Smallest n at which the anytime half-width falls below the distance of `mean` from the nearer bound ±margin.

    All in log ratio. Beyond the bound that decides faster/slower, inside it `equivalent`. None above 10,000 pairs
    (the mean sits on the bound) or where the sd is unknown. It is an estimate: mean and sd are those seen so far.
    """
    distance = abs(abs(mean) - margin)
    if not math.isfinite(sd) or not math.isfinite(distance) or sd * multiplier(PAIRS_LIMIT, alpha) >= distance:
        return None
    low, high = 1, PAIRS_LIMIT
    while high - low > 1:  # the multiplier falls with n, so bisection is exact
        middle = (low + high) // 2
        if sd * multiplier(middle, alpha) < distance if sd > 0 else math.isfinite(multiplier(middle, alpha)):
            high = middle
        else:
            low = middle
    return high


def pairs_fixed(sd: float, distance: float) -> int | None:
    """Pairs for one fixed-n look with 80 % power at 5 %: (2.8·sd/distance)² + 2. None at distance 0."""
    if distance <= 0 or not math.isfinite(sd):
        return None
    return math.ceil((2.8 * sd / distance) ** 2 + 2)
