import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bakeoff.errors import TooFewData
from bakeoff.stats.logmean import PARTS, TaskMeans, log_mean, split_task_time

POSITIVE = st.floats(1e-3, 1e3)
TIME = st.one_of(st.just(0.0), st.floats(1e-4, 1e3))
TOKENS = st.one_of(st.just(0.0), st.floats(1, 1e4))
MEANS = st.builds(
    TaskMeans,
    calls=st.floats(1, 20),
    waiting_s=TIME,
    prefill_s=st.floats(1e-3, 1e3),
    decode_s=TIME,
    reasoning=TOKENS,
    output=TOKENS,
)


def one_call(ttft: float, tpot: float, tokens: int, reasoning: int = 0) -> TaskMeans:
    """A single call [s]; the first token belongs to the prefill."""
    thought = max(0, reasoning - 1)
    rest = tokens - 1 - thought
    return TaskMeans(1.0, 0.0, ttft, tpot * (tokens - 1), thought, rest)


def test_longer_answers_are_no_faster_tokens() -> None:
    """TTFT 50, TPOT 10 ms, 32 → 64 tokens: seconds per token fall by 5.6 %, yet the time per token holds nothing."""
    base, other = one_call(0.050, 0.010, 32), one_call(0.050, 0.010, 64)
    assert other.total_s / 64 / (base.total_s / 32) - 1 == pytest.approx(-0.056, abs=5e-4)
    parts = split_task_time(base, other)
    assert parts["time per token"] == pytest.approx(0, abs=1e-12)
    assert parts["prefill"] == pytest.approx(0, abs=1e-12)
    assert parts["output tokens"] == pytest.approx(math.log(other.total_s / base.total_s))


@given(MEANS, MEANS)
def test_the_parts_sum_to_the_whole_and_turn_with_it(base: TaskMeans, other: TaskMeans) -> None:
    parts = split_task_time(base, other)
    assert tuple(parts) == PARTS
    assert sum(parts.values()) == pytest.approx(math.log(other.total_s / base.total_s), abs=1e-7)
    back = split_task_time(other, base)
    for name in PARTS:
        assert back[name] == pytest.approx(-parts[name], abs=1e-7)


@given(MEANS, st.floats(1.1, 4))
def test_more_of_the_same_calls_is_named_calls(base: TaskMeans, factor: float) -> None:
    parts = split_task_time(base, TaskMeans(*(value * factor for value in base)))
    assert parts["calls"] == pytest.approx(math.log(factor), rel=1e-6)
    assert all(abs(share) < 1e-6 for name, share in parts.items() if name != "calls")


@given(st.floats(0.01, 2), st.floats(0.001, 0.1), st.integers(4, 400), st.integers(2, 4))
def test_a_talkative_answer_is_named_output_tokens(ttft: float, tpot: float, tokens: int, times: int) -> None:
    base, other = one_call(ttft, tpot, tokens), one_call(ttft, tpot, tokens * times)
    parts = split_task_time(base, other)
    assert parts["output tokens"] == pytest.approx(math.log(other.total_s / base.total_s))
    assert max(parts, key=lambda name: parts[name]) == "output tokens"


def test_reasoning_tokens_stand_apart() -> None:
    parts = split_task_time(one_call(0.05, 0.01, 101, 51), one_call(0.05, 0.01, 201, 151))
    assert parts["reasoning tokens"] == pytest.approx(math.log(2.05 / 1.05))
    assert parts["output tokens"] == pytest.approx(0, abs=1e-12)


@given(MEANS)
def test_an_arm_against_itself_has_no_gap(base: TaskMeans) -> None:
    assert all(abs(share) < 1e-9 for share in split_task_time(base, base).values())


def test_decode_in_one_arm_alone_is_for_its_tokens() -> None:
    parts = split_task_time(one_call(0.05, 0.01, 1), one_call(0.05, 0.01, 6))
    assert parts["output tokens"] == pytest.approx(math.log(2))
    assert parts["time per token"] == 0.0


@pytest.mark.parametrize("wrong", [{"calls": 0.0}, {"prefill_s": -1.0}, {"decode_s": math.inf}, {"output": math.nan}])
def test_what_is_no_task_is_refused(wrong: dict[str, float]) -> None:
    base = one_call(0.05, 0.01, 32)
    with pytest.raises(TooFewData):
        split_task_time(base, base._replace(**wrong))


@given(MEANS)
def test_time_per_token_is_that_of_later_tokens(base: TaskMeans) -> None:
    assume(base.tokens > 0)
    assert base.per_token_s * base.tokens == pytest.approx(base.decode_s)


@given(POSITIVE, POSITIVE)
def test_the_log_mean_lies_between_geometric_and_arithmetic_mean(a: float, b: float) -> None:
    assert math.sqrt(a * b) * (1 - 1e-9) <= log_mean(a, b) <= (a + b) / 2 * (1 + 1e-9)
    assert log_mean(a, b) == pytest.approx(log_mean(b, a))
