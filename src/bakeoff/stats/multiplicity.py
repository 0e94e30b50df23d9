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
