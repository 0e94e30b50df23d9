"""How far two variants' next-token probabilities are apart, along texts that are the same for both.

Definitions are those of llama.cpp's ``llama-perplexity --kl-divergence``, position by position: KL(base ‖ candidate) in
nats; same top (the likeliest token is the same one); Δp, the change of the probability of the text's own token, whose
root mean square is taken; and the ratio of perplexities, exp(mean(ln p_base − ln p_candidate)).

Where a server lists only the likeliest tokens, all others are lumped into one. Merging outcomes never raises a KL
divergence (the data-processing inequality), so the value is then a lower bound; how much was lumped stands beside it.

Positions of one text depend on each other, so texts are what is counted: every standard error is that of leaving out
one text at a time (the jackknife), with texts − 1 degrees of freedom. Means of positive values are handled as
logarithms, which follows their skewness and keeps the bounds positive. Shares have the exact binomial interval with as
many observations as the design effect leaves (Korn and Graubard 1998); a quantile has the values at the ends of that
interval of its own share (Woodruff 1952).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..model import Distribution, Interval

Floats = NDArray[np.float64]

#: A lumped probability below this is what single precision leaves of nothing.
ROUNDING = 2e-6
#: Logarithm of the smallest probability of single precision. What is less, servers tell as some huge number.
SMALLEST = -104.0
#: Mean KL divergence [nats] up to which two runs of the same numbers in another order of summation differ.
NOISE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two walks along the same texts, by position; arrays of shape (positions,).

    text: which text a position belongs to. kl [nats]; same_top; delta_p: p_candidate − p_base of the text's token;
    log_ratio: ln p_base − ln p_candidate of it. base_rest, rest: probability that was lumped.
    """

    text: NDArray[np.int64]
    kl: Floats
    same_top: NDArray[np.bool_]
    delta_p: Floats
    log_ratio: Floats
    base_rest: Floats
    rest: Floats

    @property
    def texts(self) -> int:
        return int(np.unique(self.text).size)

    def where(self, texts: Sequence[int]) -> Compared:
        """Only the positions of these texts."""
        kept = np.isin(self.text, texts)
        names = ("text", "kl", "same_top", "delta_p", "log_ratio", "base_rest", "rest")
        return Compared(**{name: getattr(self, name)[kept] for name in names})


def compare(base: Sequence[Distribution], other: Sequence[Distribution]) -> Compared:
    """Joins two walks position by position; positions that only one of them has are left out.

    Raises ValueError where the two saw different tokens at a position.
    """
    theirs = {(row.prompt, row.position): row for row in other}
    pairs = [(row, theirs[key]) for row in base if (key := (row.prompt, row.position)) in theirs]
    if any(ours.token != their.token for ours, their in pairs):
        raise ValueError("the walks went along different texts")
    return Compared(
        text=np.array([ours.prompt for ours, _ in pairs], dtype=np.int64),
        kl=np.array([kl_divergence(ours, their) for ours, their in pairs], dtype=np.float64),
        same_top=np.array([ours.ids[:1] == their.ids[:1] for ours, their in pairs], dtype=np.bool_),
        delta_p=np.array(
            [math.exp(their.token_logprob) - math.exp(ours.token_logprob) for ours, their in pairs], dtype=np.float64
        ),
        log_ratio=np.array([_bounded(ours) - _bounded(their) for ours, their in pairs], dtype=np.float64),
        base_rest=np.array([ours.rest for ours, _ in pairs], dtype=np.float64),
        rest=np.array([their.rest for _, their in pairs], dtype=np.float64),
    )


def kl_divergence(base: Distribution, other: Distribution) -> float:
    """KL(base ‖ other) [nats] over the tokens that both list, and all others as one: exact where both lists are
    complete, else a lower bound."""
    ids, logs = _listed(base)
    other_ids, other_logs = _listed(other)
    _, ours, theirs = np.intersect1d(ids, other_ids, assume_unique=True, return_indices=True)
    log_p, log_q = logs[ours], other_logs[theirs]
    p = np.exp(log_p)
    total = float(np.sum(np.where(p > 0, p * (log_p - log_q), 0.0)))
    rest_p, rest_q = 1.0 - float(p.sum()), 1.0 - float(np.exp(log_q).sum())
    if rest_p > ROUNDING:
        total += rest_p * math.log(rest_p / max(rest_q, ROUNDING))
    return max(0.0, total)


def _listed(row: Distribution) -> tuple[NDArray[np.int64], Floats]:
    """Token ids with their logarithms, the text's own token among them."""
    ids, logs = list(row.ids), list(row.logprobs)
    if row.token not in ids:
        ids.append(row.token)
        logs.append(row.token_logprob)
    return np.array(ids, dtype=np.int64), np.maximum(np.array(logs, dtype=np.float64), SMALLEST)


def _bounded(row: Distribution) -> float:
    return max(row.token_logprob, SMALLEST)


# Estimates ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def kl_mean(found: Compared, alpha: float) -> Interval:
    """Mean KL divergence [nats]."""
    return _positive(found.kl, found.text, alpha)


def kl_quantile(found: Compared, share: float, alpha: float) -> Interval:
    """Quantile of the KL divergence [nats], linear interpolation. A bound beyond what was seen is None."""
    if found.kl.size == 0:
        return Interval(point=None)
    point = float(np.quantile(found.kl, share))
    low, high = _share_bounds(found.kl <= point, found.text, alpha, share)
    if low is None or high is None:
        return Interval(point=point)
    seen = high < 1 - 1 / found.kl.size
    return Interval(
        point=point,
        low=float(np.quantile(found.kl, low)),
        high=float(np.quantile(found.kl, high)) if seen or found.kl.max() == 0 else None,
    )


def same_top(found: Compared, alpha: float) -> Interval:
    """Share of positions at which both find the same token likeliest."""
    if found.same_top.size == 0:
        return Interval(point=None)
    point = float(found.same_top.mean())
    low, high = _share_bounds(found.same_top, found.text, alpha, point)
    return Interval(point=point, low=low, high=high)


def rms_delta_p(found: Compared, alpha: float) -> Interval:
    """Root mean square of Δp, in shares of 1."""
    squared = _positive(found.delta_p**2, found.text, alpha)
    return _mapped(squared, math.sqrt)


def perplexity_ratio(found: Compared, alpha: float) -> Interval:
    """Perplexity of the candidate on the texts ÷ that of the base."""
    return _mapped(mean_interval(found.log_ratio, found.text, alpha), math.exp)


def mean_interval(values: Floats, text: NDArray[np.int64], alpha: float) -> Interval:
    """Mean over positions, with the jackknife over texts. Fewer than two texts: no bounds."""
    if values.size == 0:
        return Interval(point=None)
    point, error, freedom = _jackknife(values, text, float)
    if error is None:
        return Interval(point=point)
    half = float(stats.t.ppf(1 - alpha / 2, freedom)) * error
    return Interval(point=point, low=point - half, high=point + half)


def _positive(values: Floats, text: NDArray[np.int64], alpha: float) -> Interval:
    """Mean of values that are never negative."""
    if values.size == 0:
        return Interval(point=None)
    if not values.any():
        return Interval(point=0.0, low=0.0, high=0.0) if np.unique(text).size > 1 else Interval(point=0.0)
    logs, error, freedom = _jackknife(values, text, lambda mean: math.log(mean) if mean > 0 else -math.inf)
    if error is None:
        return Interval(point=math.exp(logs))
    if not math.isfinite(error):  # all of it comes from a single text
        plain = mean_interval(values, text, alpha)
        return Interval(point=plain.point, low=0.0, high=plain.high)
    half = float(stats.t.ppf(1 - alpha / 2, freedom)) * error
    return Interval(point=math.exp(logs), low=math.exp(logs - half), high=math.exp(min(logs + half, 700.0)))


def _jackknife(
    values: Floats, text: NDArray[np.int64], form: Callable[[float], float]
) -> tuple[float, float | None, int]:
    """(form of the mean, its standard error by leaving out one text at a time, degrees of freedom)."""
    _, inverse = np.unique(text, return_inverse=True)
    sums, counts = np.bincount(inverse, weights=values), np.bincount(inverse)
    point = form(float(values.mean()))
    groups = sums.size
    if groups < 2:
        return point, None, 0
    without = [form(float((sums.sum() - s) / (counts.sum() - n))) for s, n in zip(sums, counts, strict=True)]
    if not all(map(math.isfinite, without)):
        return point, math.inf, groups - 1
    spread = float(np.sum((np.array(without) - np.mean(without)) ** 2))
    return point, math.sqrt((groups - 1) / groups * spread), groups - 1


def _share_bounds(
    hits: NDArray[np.bool_], text: NDArray[np.int64], alpha: float, share: float
) -> tuple[float | None, float | None]:
    """The exact binomial interval around `share`, with as many observations as the texts' design effect leaves.

    Positions never count as more than there are: a design effect below 1 is taken as 1.
    """
    n = hits.size
    _, error, freedom = _jackknife(hits.astype(np.float64), text, float)
    if error is None:
        return None, None
    plain = share * (1 - share) / n
    effective = n / max(1.0, error**2 / plain) if plain > 0 else float(n)
    # With few texts the design effect itself is uncertain.
    effective *= float(stats.norm.ppf(1 - alpha / 2) / stats.t.ppf(1 - alpha / 2, freedom)) ** 2
    x = share * effective
    low = float(stats.beta.ppf(alpha / 2, x, effective - x + 1)) if x > 0 else 0.0
    high = float(stats.beta.ppf(1 - alpha / 2, x + 1, effective - x)) if x < effective else 1.0
    return low, high


def _mapped(interval: Interval, form: Callable[[float], float]) -> Interval:
    bounds = [None if value is None else form(value) for value in (interval.point, interval.low, interval.high)]
    return Interval(point=bounds[0], low=bounds[1], high=bounds[2])
