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


def throughput(first_ns: Ints, last_ns: Ints, weights: Floats, window_ns: tuple[int, int]) -> float:
    """Σ weights × share of the answer that arrived inside the window (start, end] ÷ its length [1/s].

    Arrays of shape (requests,): arrival of an answer's first and last chunk (−1: none, counts nothing), between which
    it is taken to flow evenly. NaN for an empty window. Counting whole answers by their end instead would let the
    place at which the window cuts a batch decide: with g answers in step, up to g − 1 of them, nearly done, would be
    lost. The start is left out because a steady window usually begins *at* a completion, which belongs to the ramp.
    """
    start, end = window_ns
    if end <= start:
        return math.nan
    return float((weights * arrived(first_ns, last_ns, window_ns)).sum()) / ((end - start) / 1e9)


def arrived(first_ns: Ints, last_ns: Ints, window_ns: tuple[int, int]) -> Floats:
    """Share of each answer, which flows evenly from its first to its last chunk, that arrives inside (start, end]."""
    start, end = window_ns
    inside = np.minimum(last_ns, end) - np.maximum(first_ns, start)
    length = last_ns - first_ns
    at_once = (last_ns > start) & (last_ns <= end)
    shares = np.where(length > 0, np.clip(inside, 0, None) / np.maximum(length, 1), at_once)
    return np.where((first_ns >= 0) & (length >= 0), shares, 0.0)


def _occurrences(ids: Ints) -> NDArray[np.complex128]:
    """A key per row that is unique: the id and how often it was seen before (complex: one sortable number)."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if ids.size else np.zeros(0, dtype=np.int64)
    counts = np.diff(np.r_[starts, ids.size])
    nth = np.empty(ids.size, dtype=np.float64)
    nth[order] = np.arange(ids.size) - np.repeat(starts, counts)
    return ids.astype(np.float64) + 1j * nth
