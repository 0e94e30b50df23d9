"""What these pairs could have shown, and how many more would decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ..model import Method
from .anytime import multiplier
from .checks import finite_vector
from .paired import t_multiplier

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


def detectable(n: float, factor: float) -> float:
    """Smallest true effect, in units of the sd, that n pairs with an interval of ±factor·sd show with 80 %."""
    return factor + _Z_POWER / math.sqrt(n) if n > 0 else math.inf


def half_width(n: float, alpha: float, method: Method = "anytime", freedom: int | None = None) -> float:
    """Half-width of an interval over n pairs in units of the sd: t for one look at a fixed n, else anytime-valid."""
    return multiplier(n, alpha, freedom) if method == "anytime" else t_multiplier(n, alpha, freedom)


def minimum_detectable(sd: float, n: float, alpha: float, method: Method = "anytime") -> float | None:
    """Log ratio that n pairs of standard deviation `sd` show to differ from 0 with probability 80 %.

    None while the interval is infinite or the sd unknown.
    """
    factor = half_width(n, alpha, method)
    if not (math.isfinite(factor) and math.isfinite(sd)):
        return None
    return sd * detectable(n, factor)


def detectable_error(error: float, freedom: int, alpha: float) -> float | None:
    """As `minimum_detectable`, of one look at an estimate with a standard error and its degrees of freedom."""
    if freedom < 1 or not math.isfinite(error):
        return None
    return error * (t_multiplier(1.0, alpha, freedom) + _Z_POWER)


def pairs_to_decide(mean: float, sd: float, alpha: float, margin: float, method: Method = "anytime") -> int | None:
    """Smallest n at which the half-width falls below the distance of `mean` from the nearer bound ±margin.

    All in log ratio. Beyond the bound that decides faster/slower, inside it `equivalent`. With a fixed n, where there
    is one look only, it is the n that decides with 80 %. None above 10,000 pairs (the mean sits on the bound) or where
    the sd is unknown. It is an estimate: mean and sd are those seen so far.
    """
    distance = abs(abs(mean) - margin)
    if not math.isfinite(sd) or not math.isfinite(distance) or distance == 0.0:
        return None

    def suffices(n: int) -> bool:
        factor = half_width(n, alpha, method)
        if not math.isfinite(factor):
            return False
        return sd * (factor if method == "anytime" else detectable(n, factor)) < distance

    if not suffices(PAIRS_LIMIT):
        return None
    low, high = 1, PAIRS_LIMIT
    while high - low > 1:  # the half-width falls with n, so bisection is exact
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def pairs_fixed(sd: float, distance: float, alpha: float = 0.05) -> int | None:
    """Pairs for one fixed-n look with 80 % power at level alpha: ((z + 0.84)·sd/distance)² + 2. None at distance 0.

    At 5 % that is the usual (2.8·sd/distance)² + 2; the 2 make up for the t distribution.
    """
    if distance <= 0 or not math.isfinite(sd):
        return None
    z = round(NormalDist().inv_cdf(1 - alpha / 2) + _Z_POWER, 2)
    return math.ceil((z * sd / distance) ** 2 + 2)
