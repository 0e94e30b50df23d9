"""Divergence against an independent formula, its bounds, and the rows that a result shows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bakeoff.compare.divergence import divergence_scores
from bakeoff.model import Distribution, DivergencePass, Interval, QualityScore
from bakeoff.quality import divergence as along

Logits = NDArray[np.float64]
VOCABULARY = 40


def softmax(logits: Logits) -> Logits:
    p = np.exp(logits - logits.max())
    return np.asarray(p / p.sum())


def distribution(
    logits: Logits, token: int, *, prompt: int = 0, position: int = 0, top: int | None = None
) -> Distribution:
    """What a server tells that lists `top` tokens (None: all)."""
    logs = np.log(softmax(logits))
    order = np.argsort(-logs, kind="stable")[:top]
    rest = 0.0 if top is None or top >= logs.size else float(1 - np.exp(logs[order]).sum())
    return Distribution(
        prompt=prompt,
        position=position,
        variant="x",
        token=token,
        token_logprob=float(logs[token]),
        ids=[int(i) for i in order],
        logprobs=[float(logs[i]) for i in order],
        rest=rest,
    )


class Walk:
    """Random texts: logits of a base and of a candidate near it, and the tokens of the texts."""

    def __init__(self, seed: int, texts: int = 8, positions: int = 12, noise: float = 0.3) -> None:
        draw = np.random.default_rng(seed)
        self.places = [(t, n) for t in range(texts) for n in range(positions)]
        self.base = draw.normal(0, 3, (len(self.places), VOCABULARY))
        self.other = self.base + noise * draw.normal(0, 1, self.base.shape)
        self.tokens = [int(t) for t in draw.integers(0, VOCABULARY, len(self.places))]

    def rows(self, logits: Logits, top: int | None = None) -> list[Distribution]:
        return [
            distribution(logits[i], self.tokens[i], prompt=text, position=n, top=top)
            for i, (text, n) in enumerate(self.places)
        ]


def llama_cpp(base: Logits, other: Logits, tokens: Sequence[int]) -> dict[str, float]:
    """The measures of `llama-perplexity --kl-divergence`, in the order of its sums, over logits."""
    kld, same, dp2, nll, nll_base = [], 0, 0.0, 0.0, 0.0
    for one, two, token in zip(base, other, tokens, strict=True):
        log_p = one - one.max() - math.log(np.exp(one - one.max()).sum())
        log_q = two - two.max() - math.log(np.exp(two - two.max()).sum())
        kld.append(sum(math.exp(p) * (p - q) for p, q in zip(log_p, log_q, strict=True)))
        same += int(np.argmax(one) == np.argmax(two))
        dp2 += (math.exp(log_q[token]) - math.exp(log_p[token])) ** 2
        nll -= float(log_q[token])
        nll_base -= float(log_p[token])
    ordered, n = sorted(kld), len(kld)
    place = 0.99 * (n - 1)
    low = int(place)
    return {
        "kl_mean": sum(kld) / n,
        "kl_median": (ordered[(n - 1) // 2] + ordered[n // 2]) / 2,
        "kl_p99": ordered[low] + (place - low) * (ordered[min(low + 1, n - 1)] - ordered[low]),
        "same_top": same / n,
        "rms_dp": math.sqrt(dp2 / n),
        "perplexity_ratio": math.exp(nll / n) / math.exp(nll_base / n),
    }


@pytest.mark.parametrize("seed", range(4))
def test_measures_are_those_of_llama_cpp(seed: int) -> None:
    walk = Walk(seed)
    found = {s.measure: s.value.point for s in scores(walk.rows(walk.base), walk.rows(walk.other))}
    assert found == pytest.approx(llama_cpp(walk.base, walk.other, walk.tokens), rel=1e-9)


@given(seed=st.integers(0, 10_000), top=st.integers(1, VOCABULARY), noise=st.floats(0, 4))
@settings(deadline=None, max_examples=60)
def test_lumping_what_is_not_listed_never_raises_the_divergence(seed: int, top: int, noise: float) -> None:
    draw = np.random.default_rng(seed)
    base = draw.normal(0, 3, VOCABULARY)
    other = base + noise * draw.normal(0, 1, VOCABULARY)
    token = int(draw.integers(VOCABULARY))
    exact = along.kl_divergence(distribution(base, token), distribution(other, token))
    bound = along.kl_divergence(distribution(base, token, top=top), distribution(other, token, top=top))
    assert 0 <= bound <= exact + 1e-9
    p, q = softmax(base), softmax(other)
    assert exact == pytest.approx(float((p * np.log(p / q)).sum()), abs=1e-9)


@pytest.mark.parametrize("told", [-9999.0, -3.4e38, -math.inf])
def test_a_probability_that_underflowed_is_the_smallest_one_not_an_infinity(told: float) -> None:
    """A token as unlikely as 1e-30 for the base, and too unlikely for single precision for the candidate."""
    base = distribution(np.array([0.0, -1.0, -69.0]), 2)
    other = distribution(np.array([0.0, -1.0, -120.0]), 2)
    other.token_logprob = other.logprobs[2] = told
    found = along.compare([base], [other])
    assert found.kl[0] < 1e-20
    assert found.log_ratio[0] == pytest.approx(104.0 - 69.3, abs=0.1)


def test_longer_lists_come_nearer() -> None:
    walk = Walk(3, noise=1.0)
    means = []
    for top in (1, 5, 20, None):
        found = along.compare(walk.rows(walk.base, top), walk.rows(walk.other, top))
        means.append(float(found.kl.mean()))
    assert means[0] < means[2] <= means[3]
    assert means == sorted(means)


def test_a_walk_against_itself_is_zero_and_equivalent() -> None:
    walk = Walk(1)
    rows = walk.rows(walk.base)
    for score in scores(rows, rows):
        assert score.outcome == "equivalent"
        assert score.difference.point == pytest.approx(0.0, abs=1e-12)
    assert {s.measure: s.value.point for s in scores(rows, rows)} == pytest.approx(
        {"kl_mean": 0, "kl_median": 0, "kl_p99": 0, "same_top": 1, "rms_dp": 0, "perplexity_ratio": 1}, abs=1e-12
    )


def test_a_distance_has_an_interval_that_excludes_nothing_and_is_called_different() -> None:
    walk = Walk(2, texts=20, noise=0.8)
    by_name = {s.measure: s for s in scores(walk.rows(walk.base), walk.rows(walk.other))}
    kl = by_name["kl_mean"]
    assert kl.outcome == "different"
    assert kl.value.low is not None
    assert kl.value.high is not None
    assert kl.value.point is not None
    assert 0 < kl.value.low < kl.value.point < kl.value.high
    assert kl.items == 20
    assert kl.counts == {"positions": 240}
    assert "whole vocabulary" in kl.method
    assert kl.reason is None


def test_what_a_short_list_hides_is_said() -> None:
    walk = Walk(2)
    kl = scores(walk.rows(walk.base, 3), walk.rows(walk.other, 3), top=3)[0]
    assert "the likeliest 3 tokens" in kl.method
    assert kl.reason is not None
    assert "a lower bound" in kl.reason


def test_texts_are_what_is_counted_not_their_positions() -> None:
    """Copies of each position add none to what is known."""
    walk = Walk(5, texts=10, positions=4, noise=0.8)
    found = along.compare(walk.rows(walk.base), walk.rows(walk.other))
    names = ("text", "kl", "same_top", "delta_p", "log_ratio", "base_rest", "rest")
    copied = along.Compared(**{name: np.repeat(getattr(found, name), 50) for name in names})
    for estimate in (along.kl_mean, along.rms_delta_p, along.perplexity_ratio):
        once, often = estimate(found, 0.05), estimate(copied, 0.05)
        assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_one_text_has_no_interval() -> None:
    walk = Walk(5, texts=1)
    found = along.compare(walk.rows(walk.base), walk.rows(walk.other))
    for interval in (along.kl_mean(found, 0.05), along.same_top(found, 0.05), along.kl_quantile(found, 0.99, 0.05)):
        assert interval.point is not None
        assert interval.low is None
        assert interval.high is None


def test_intervals_of_clustered_positions_cover() -> None:
    """Texts differ from each other; 300 repetitions, so a share is known to about 2 points."""
    draw = np.random.default_rng(11)
    true_mean = math.exp(-6 + (0.5**2 + 1.0**2) / 2)
    true_median = math.exp(-6)
    covered = {"mean": 0, "median": 0, "top": 0}
    for _ in range(300):
        text = np.repeat(np.arange(24), 30)
        own = draw.normal(0, 1, 24)[text]
        kl = np.exp(-6 + 0.5 * own + draw.normal(0, 1, text.size))
        same = draw.random(text.size) < 0.95 + 0.03 * np.sign(own)
        none = np.zeros(text.size)
        found = along.Compared(text=text, kl=kl, same_top=same, delta_p=none, log_ratio=none, base_rest=none, rest=none)
        covered["mean"] += inside(true_mean, along.kl_mean(found, 0.05))
        covered["median"] += inside(true_median, along.kl_quantile(found, 0.5, 0.05))
        covered["top"] += inside(0.95, along.same_top(found, 0.05))
    assert all(count / 300 >= 0.90 for count in covered.values()), covered


def inside(truth: float, interval: Interval) -> bool:
    assert interval.low is not None
    return interval.low <= truth and (interval.high is None or truth <= interval.high)


def test_walks_along_different_texts_are_an_error() -> None:
    walk = Walk(1)
    moved = walk.rows(walk.base)
    moved[3].token = (moved[3].token + 1) % VOCABULARY
    with pytest.raises(ValueError, match="different texts"):
        along.compare(walk.rows(walk.base), moved)


def test_a_variant_without_probabilities_is_one_invalid_row_with_the_reason() -> None:
    passes = [
        DivergencePass(variant="base", part="a"),
        DivergencePass(variant="fast", problem="it tells none", remedy="use another"),
    ]
    walk = Walk(1)
    (row,) = divergence_scores(passes, lambda _: walk.rows(walk.base), "base", ["fast"], 0.95)
    assert row.outcome == "invalid"
    assert row.value.point is None
    assert row.reason == "fast: it tells none; use another"


def test_a_base_without_probabilities_invalidates_every_candidate() -> None:
    passes = [DivergencePass(variant="base", problem="it tells none")]
    rows = divergence_scores(passes, lambda _: [], "base", ["one", "two"], 0.95)
    assert [(row.candidate, row.outcome) for row in rows] == [("one", "invalid"), ("two", "invalid")]
    assert divergence_scores([], lambda _: [], "base", ["one"], 0.95) == ()


def scores(base: list[Distribution], other: list[Distribution], top: int | None = None) -> list[QualityScore]:
    """The rows of a run in which the base's second walk shows what its first did."""
    parts = {"a": base, "b": other, "c": base}
    passes = [
        DivergencePass(variant="base", told_by="test", top=top, part="a"),
        DivergencePass(variant="fast", told_by="test", top=top, part="b"),
        DivergencePass(variant="base", repeat=1, told_by="test", top=top, part="c"),
    ]
    return list(divergence_scores(passes, lambda p: parts[p.part or ""], "base", ["fast"], 0.95))
