"""Corrections for asking several questions at once. All take p-values of shape (m,) and keep their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .checks import finite_vector

Vector = NDArray[np.float64] | Sequence[float]


def bonferroni_level(alpha: float, questions: int) -> float:
    """Level of each of m questions so that together they err with probability at most alpha."""
    return alpha / max(1, questions)


def holm(p_values: Vector) -> NDArray[np.float64]:
    """Adjusted p-values, family-wise error (Holm 1979)."""
    p = finite_vector(p_values)
    m = p.size
    order = np.argsort(p, kind="stable")
    adjusted = np.minimum(1.0, np.maximum.accumulate(p[order] * (m - np.arange(m))))
    return _unsort(adjusted, order)


def holm_levels(p_values: Vector, alpha: float) -> NDArray[np.float64]:
    """The level that Holm's procedure tests each question at, given all p-values.

    The k-th smallest p is tested at alpha/(m − k + 1) as long as all smaller ones are rejected; where one is not, it
    and all larger ones are held to its level. An interval of 1 − that level excludes the null exactly where Holm
    rejects it.
    """
    p = finite_vector(p_values)
    order = np.argsort(p, kind="stable")
    steps = alpha / (p.size - np.arange(p.size))
    kept = np.flatnonzero(p[order] > steps)
    if kept.size:
        steps[kept[0] :] = steps[kept[0]]
    return _unsort(steps, order)


def benjamini_hochberg(p_values: Vector) -> NDArray[np.float64]:
    """Adjusted p-values, false discovery rate (Benjamini and Hochberg 1995)."""
    p = finite_vector(p_values)
    m = p.size
    order = np.argsort(p, kind="stable")
    scaled = p[order] * m / np.arange(1, m + 1)
    adjusted = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return _unsort(adjusted, order)


def _unsort(values: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    out = np.empty_like(values)
    out[order] = values
    return out
