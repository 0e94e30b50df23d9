"""Which share of a gap one switch holds: a ratio of two means, with an anytime-valid interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..model import Interval
from ..stats.anytime import multiplier
from ..stats.ratios import quotient_of_means


def share_of_gap(effect: NDArray[np.float64], gap: NDArray[np.float64], alpha: float) -> Interval:
    """mean(effect) ÷ mean(gap), both in log and from the same replicates (shape (n,)).

    The interval is Fieller's on the confidence sequence. No bounds where the gap itself is not clear of 0.
    """
    return quotient_of_means(effect, gap, multiplier(effect.size, alpha) if effect.size else float("inf"))
