"""Which share of a gap one switch holds: a ratio of two means, with an anytime-valid interval."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..model import Interval
from ..stats.anytime import multiplier


def share_of_gap(effect: NDArray[np.float64], gap: NDArray[np.float64], alpha: float) -> Interval:
    """mean(effect) ÷ mean(gap), both in log and from the same replicates (shape (n,)).

    The interval holds every share s for which effect − s·gap has an anytime-valid interval that contains 0
    (Fieller's construction on the confidence sequence). No bounds where the gap itself is not clear of 0.
    """
    n = effect.size
    if n == 0 or float(gap.mean()) == 0.0:
        return Interval(point=None)
    u, v = float(effect.mean()), float(gap.mean())
    point = u / v
    factor = multiplier(n, alpha)
    if not math.isfinite(factor):
        return Interval(point=point)
    cov = np.cov(effect, gap, ddof=1) * factor**2
    # (u − s·v)² ≤ Suu − 2·s·Suv + s²·Svv  ⇔  a·s² − 2·b·s + c ≤ 0
    a, b, c = v * v - float(cov[1, 1]), u * v - float(cov[0, 1]), u * u - float(cov[0, 0])
    if a <= 0:
        return Interval(point=point)
    root = math.sqrt(max(0.0, b * b - a * c))
    return Interval(point=point, low=min(point, (b - root) / a), high=max(point, (b + root) / a))
