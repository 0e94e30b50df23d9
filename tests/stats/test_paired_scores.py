import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bakeoff.model import Interval
from bakeoff.stats.paired_scores import ScoreDifference, difference_of_shares, judge_difference, wilson

Floats = NDArray[np.float64]


def binary(lost: int, won: int, right: int, wrong: int) -> ScoreDifference:
    base = np.array([1.0] * lost + [0.0] * won + [1.0] * right + [0.0] * wrong)
    other = np.array([0.0] * lost + [1.0] * won + [1.0] * right + [0.0] * wrong)
    return ScoreDifference(base=base, other=other, binary=True)


def bounds(interval: Interval) -> tuple[float, float]:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low, interval.high


def test_wilsons_interval_of_his_examples() -> None:
    """Newcombe 1998 (two-sided intervals), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29 by the score method."""
    for right, items, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611),
                                    (1, 29, 0.0061, 0.1718)):  # fmt: skip
        assert bounds(wilson(right, items, 0.05)) == pytest.approx((low, high), abs=5e-5)
    assert wilson(0, 0, 0.05).point is None


def test_newcombes_interval_of_his_example() -> None:
    """Newcombe 1998 (difference of independent proportions), example a, method 10: 56/70 − 48/80 = 0.20."""
    found = difference_of_shares(wilson(48, 80, 0.05), wilson(56, 70, 0.05))
    assert found.point == pytest.approx(0.2)
    assert bounds(found) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert difference_of_shares(Interval(point=None), wilson(1, 2, 0.05)).point is None


def test_bonett_prices_interval_and_mcnemars_p() -> None:
    """One repeat: by hand, (lost+1, won+1)/(n+2) of Bonett and Price 2012, and mid-p of Fagerland's example."""
    found = binary(7, 1, 13, 0)
    n = 23
    won, lost = 2 / n, 8 / n
    half = 1.959964 * math.sqrt((won + lost - (won - lost) ** 2) / n)
    assert bounds(found.interval(0.05)) == pytest.approx((won - lost - half, won - lost + half), abs=1e-6)
    assert found.p_value() == pytest.approx(0.0391, abs=5e-5)
    assert found.method == "mid-p McNemar"
    assert found.counts() == (7, 1, 21)


scores = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.0, 0.25, 0.5, 1.0])), min_size=2)


@given(scores, st.booleans(), st.floats(0.001, 0.2))
def test_swapping_the_arms_negates(pairs: list[tuple[float, float]], grouped: bool, margin: float) -> None:
    a, b = np.array([x for x, _ in pairs]), np.array([y for _, y in pairs])
    groups = np.arange(a.size) // 2 if grouped else None
    there, back = ScoreDifference(base=a, other=b, groups=groups), ScoreDifference(base=b, other=a, groups=groups)
    one, two = there.interval(0.05), back.interval(0.05)
    assert one.point == pytest.approx(-(two.point or 0.0))
    if one.low is not None:
        assert bounds(one) == pytest.approx((-bounds(two)[1], -bounds(two)[0]))
    assert there.p_value() == pytest.approx(back.p_value())
    words = {"better": "worse", "probably better": "probably worse"}
    words |= {value: key for key, value in words.items()}
    word, other = judge_difference(there, 0.05, margin), judge_difference(back, 0.05, margin)
    if word in words:
        assert other in (words[word], "not worse", "inconclusive")
    if word == "equivalent":
        assert other == "equivalent"


def test_no_difference_at_all_is_no_certainty() -> None:
    """Twenty items that agree leave room for a few percent: a t interval would have no width."""
    same = np.ones(20)
    for found in (
        ScoreDifference(base=same, other=same, binary=True),
        ScoreDifference(base=same, other=same),
        ScoreDifference(base=same, other=same, groups=np.arange(20) // 2),
    ):
        low, high = bounds(found.interval(0.05))
        assert low < -0.03
        assert high > 0.03
        assert judge_difference(found, 0.05, 0.01) == "inconclusive"
        assert found.p_value() == 1.0


def test_words_by_where_the_interval_lies() -> None:
    assert judge_difference(binary(120, 20, 800, 60), 0.05, 0.04) == "worse"
    assert judge_difference(binary(20, 120, 800, 60), 0.05, 0.04) == "better"
    assert judge_difference(binary(10, 10, 900, 80), 0.05, 0.02) == "equivalent"
    assert judge_difference(binary(40, 70, 800, 90), 0.05, 0.02) == "probably better"
    assert judge_difference(binary(70, 40, 800, 90), 0.05, 0.02) == "probably worse"
    assert judge_difference(binary(70, 78, 800, 52), 0.05, 0.02) == "not worse"
    assert judge_difference(binary(70, 68, 800, 62), 0.05, 0.01) == "inconclusive"
    assert judge_difference(binary(0, 0, 0, 0), 0.05, 0.01) == "inconclusive"


def test_a_loss_on_one_of_many_tasks_needs_more_evidence() -> None:
    found = binary(88, 20, 800, 99)
    assert judge_difference(found, 0.05, 0.04) == "worse"
    assert judge_difference(found, 0.05, 0.04, questions=50) == "probably worse"


def test_needed_items_and_what_they_show() -> None:
    found = binary(70, 70, 800, 60)
    assert found.needed(0.01) == 8652
    assert found.needed(0.04) == 541
    assert found.detectable(0.05) == pytest.approx(2.8016 * math.sqrt(0.14 / 1000), rel=1e-3)
    assert ScoreDifference(base=np.zeros(0), other=np.zeros(0)).needed(0.01) is None
    assert ScoreDifference(base=np.zeros(0), other=np.zeros(0)).detectable(0.05) is None


def test_groups_widen_what_they_share() -> None:
    rng = np.random.default_rng(11)
    groups = np.repeat(np.arange(40), 10)
    shift = rng.normal(0, 0.4, 40)[groups]
    base = (rng.random(400) < 0.7).astype(float)
    other = np.clip(np.round(base + shift + rng.normal(0, 0.2, 400)), 0, 1)
    alone = ScoreDifference(base=base, other=other)
    together = ScoreDifference(base=base, other=other, groups=groups)
    assert np.diff(bounds(together.interval(0.05)))[0] > 1.3 * np.diff(bounds(alone.interval(0.05)))[0]
    assert "40 groups" in together.method
    assert (together.needed(0.02) or 0) > (alone.needed(0.02) or 0)


def _answers(rng: np.random.Generator, items: int, repeats: int, loss: float) -> tuple[Floats, Floats]:
    """Mean scores of both arms: the base answers right with an item's own probability, the other with `loss` less."""
    sure = rng.random(items) < 0.86
    p = np.where(sure, (rng.random(items) < 0.7).astype(float), 0.5)
    q = np.clip(p - loss, 0, 1)
    draw = rng.random((2, repeats, items))
    return (draw[0] < p).mean(axis=0), (draw[1] < q).mean(axis=0)


@pytest.mark.parametrize("repeats", [1, 3])
def test_an_aa_seldom_shows_a_difference(repeats: int) -> None:
    rng = np.random.default_rng(repeats)
    wrong = 0
    runs = 400
    for _ in range(runs):
        base, other = _answers(rng, 200, repeats, 0.0)
        low, high = bounds(ScoreDifference(base=base, other=other, binary=repeats == 1).interval(0.05))
        wrong += not low <= 0 <= high
    assert wrong / runs <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)


def test_a_clustered_aa_seldom_shows_a_difference() -> None:
    """Items of a group flip together: items taken for independent would err more than twice as often."""
    rng = np.random.default_rng(5)
    runs, naive, clustered = 400, 0, 0
    groups = np.repeat(np.arange(30), 5)
    for _ in range(runs):
        base = (rng.random(150) < 0.7).astype(float)
        lean = rng.normal(0, 0.25, 30)[groups]
        other = np.where(rng.random(150) < np.abs(lean), (lean > 0).astype(float), base)
        for found in (ScoreDifference(base=base, other=other), ScoreDifference(base=base, other=other, groups=groups)):
            low, high = bounds(found.interval(0.05))
            # The true difference is not 0, because right answers are the more frequent ones.
            truth = float(np.mean([0.5 * 0.3 - 0.5 * 0.7]) * 0.25 * math.sqrt(2 / math.pi))
            outside = not low <= truth <= high
            naive += outside and found.groups is None
            clustered += outside and found.groups is not None
    assert clustered / runs <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)
    assert naive / runs > 0.1
