import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.errors import TooFewData
from bakeoff.stats.shares import log_mean, product, split

POSITIVE = st.floats(1e-3, 1e3)


def test_longer_answers_are_not_faster_tokens() -> None:
    """TTFT 50, TPOT 10 ms: from 32 to 64 tokens seconds per token fall by 5.6 %, and TPOT holds none of the change."""
    per_token = {32: (50 + 31 * 10) / 32, 64: (50 + 63 * 10) / 64}
    assert per_token[64] / per_token[32] - 1 == pytest.approx(-0.056, abs=5e-4)
    parts = split({"prefill": 50.0, "decode": 310.0}, {"prefill": 50.0, "decode": 630.0})
    assert parts["prefill"] == 0.0
    assert parts["decode"] == pytest.approx(math.log(680 / 360))
    factors = product({"tokens": 31.0, "tpot": 10.0}, {"tokens": 63.0, "tpot": 10.0})
    assert factors["tpot"] == 0.0
    assert factors["tokens"] == pytest.approx(320)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=5))
def test_shares_sum_to_the_change(pairs: list[tuple[float, float]]) -> None:
    base = {str(i): a for i, (a, _) in enumerate(pairs)}
    other = {str(i): b for i, (_, b) in enumerate(pairs)}
    total = math.log(sum(other.values()) / sum(base.values()))
    assert sum(split(base, other).values()) == pytest.approx(total, abs=1e-9)
    change = math.prod(other.values()) - math.prod(base.values())
    assert sum(product(base, other).values()) == pytest.approx(change, rel=1e-6, abs=1e-9 * math.prod(base.values()))
    back = split(other, base)
    assert all(back[name] == pytest.approx(-share, abs=1e-9) for name, share in split(base, other).items())


@given(POSITIVE, POSITIVE)
def test_the_log_mean_lies_between_geometric_and_arithmetic_mean(a: float, b: float) -> None:
    assert math.sqrt(a * b) * (1 - 1e-9) <= log_mean(a, b) <= (a + b) / 2 * (1 + 1e-9)
    assert log_mean(a, b) == pytest.approx(log_mean(b, a))


def test_parts_that_vanish() -> None:
    assert split({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 1.0})["b"] == pytest.approx(math.log(2))
    assert split({"a": 1.0, "b": 0.0}, {"a": 2.0, "b": 0.0})["b"] == 0.0


@pytest.mark.parametrize("other", [{"a": 1.0}, {"a": -1.0, "b": 2.0}, {"a": 0.0, "b": 0.0}, {"a": math.inf, "b": 1.0}])
def test_what_cannot_be_split_is_refused(other: dict[str, float]) -> None:
    with pytest.raises(TooFewData):
        split({"a": 1.0, "b": 1.0}, other)
    with pytest.raises(TooFewData):
        product({"a": 1.0, "b": 1.0}, other)
