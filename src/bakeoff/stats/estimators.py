"""From the requests of two blocks to one number per pair."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def log_ratio(value: float, base: float) -> float:
    """ln(value / base); NaN where either is missing or not positive."""
    if not (math.isfinite(value) and math.isfinite(base)) or value <= 0 or base <= 0:
        return math.nan
    return math.log(value) - math.log(base)


def paired_prompt_log_ratio(base_ids: Ints, base: Floats, other_ids: Ints, other: Floats) -> float:
    """Median over common prompts of ln(other / base); the typical request's change.

    Arrays of shape (requests,): prompt ids and values (NaN: undefined). A prompt that occurs k times in both blocks
    is joined occurrence by occurrence. NaN when no prompt has a value in both.
    """
    common, left, right = np.intersect1d(_occurrences(base_ids), _occurrences(other_ids), return_indices=True)
    if common.size == 0:
        return math.nan
    a, b = base[left], other[right]
    good = np.isfinite(a) & np.isfinite(b) & (a > 0) & (b > 0)
    if not good.any():
        return math.nan
    return float(np.median(np.log(b[good]) - np.log(a[good])))


def block_mean(values: Floats) -> float:
    """Mean of the defined values; NaN when there is none."""
    defined = values[np.isfinite(values)]
    return float(defined.mean()) if defined.size else math.nan


def block_quantile(values: Floats, q: float) -> float:
    """Quantile (linear interpolation, numpy's default) of the defined values; NaN when there is none."""
    defined = values[np.isfinite(values)]
    return float(np.quantile(defined, q)) if defined.size else math.nan


def throughput(completed_ns: Ints, weights: Floats, window_ns: tuple[int, int]) -> float:
    """Σ weights of completions inside the window (start, end] ÷ its length [1/s]. NaN for an empty window.

    The start is left out because a steady window usually begins *at* a completion, which belongs to the ramp.
    """
    start, end = window_ns
    if end <= start:
        return math.nan
    inside = (completed_ns > start) & (completed_ns <= end)
    return float(weights[inside].sum()) / ((end - start) / 1e9)


def _occurrences(ids: Ints) -> NDArray[np.complex128]:
    """A key per row that is unique: the id and how often it was seen before (complex: one sortable number)."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if ids.size else np.zeros(0, dtype=np.int64)
    counts = np.diff(np.r_[starts, ids.size])
    nth = np.empty(ids.size, dtype=np.float64)
    nth[order] = np.arange(ids.size) - np.repeat(starts, counts)
    return ids.astype(np.float64) + 1j * nth
