import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.stats import estimators

POSITIVE = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20)


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def test_joins_on_the_prompt_not_on_the_place() -> None:
    found = estimators.paired_prompt_log_ratio(
        ids(0, 1, 2), np.array([1.0, 10.0, 100.0]), ids(2, 0, 9), np.array([200.0, 2.0, 5.0])
    )
    assert found == pytest.approx(math.log(2))


def test_repeated_prompts_join_occurrence_by_occurrence() -> None:
    found = estimators.paired_prompt_log_ratio(ids(7, 7, 7), np.array([1.0, 2.0, 3.0]), ids(7, 7), np.array([2.0, 4.0]))
    assert found == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("base", "other"),
    [([math.nan, 1.0], [1.0, math.nan]), ([0.0, 0.0], [1.0, 1.0]), ([], [])],
)
def test_nothing_in_common_is_undefined(base: list[float], other: list[float]) -> None:
    keys = np.arange(len(base))
    assert math.isnan(estimators.paired_prompt_log_ratio(keys, np.array(base), keys, np.array(other)))


@given(POSITIVE, st.floats(0.1, 10), st.floats(1e-6, 1e6))
def test_a_common_factor_is_found_in_any_unit(values: list[float], factor: float, unit: float) -> None:
    base = np.array(values)
    keys = np.arange(base.size)
    found = estimators.paired_prompt_log_ratio(keys, base * unit, keys, base * factor * unit)
    assert found == pytest.approx(math.log(factor), abs=1e-6)


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), min_size=1, max_size=20))
def test_swapping_the_arms_inverts_the_ratio(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    keys = np.arange(a.size)
    there = estimators.paired_prompt_log_ratio(keys, a, keys, b)
    assert there == pytest.approx(-estimators.paired_prompt_log_ratio(keys, b, keys, a), abs=1e-9)


def test_block_statistics_leave_undefined_values_out() -> None:
    values = np.array([1.0, math.nan, 3.0, 10.0])
    assert estimators.block_mean(values) == pytest.approx(14 / 3)
    assert estimators.block_quantile(values, 0.5) == 3.0
    assert estimators.block_quantile(np.arange(101.0), 0.99) == pytest.approx(99.0)
    assert math.isnan(estimators.block_mean(np.array([math.nan])))
    assert math.isnan(estimators.block_quantile(np.zeros(0), 0.5))


def test_throughput_counts_answers_after_the_start_up_to_the_end() -> None:
    at = np.array([0, 10, 20, 30, 40], dtype=np.int64) * 10**8
    weights = np.array([5.0, 5.0, 5.0, 5.0, 5.0])
    assert estimators.throughput(at, at, weights, (0, 3 * 10**9)) == pytest.approx(5.0)
    assert math.isnan(estimators.throughput(at, at, weights, (10, 10)))


@pytest.mark.parametrize(
    ("first", "last", "share"),
    [(100, 200, 1.0), (50, 150, 0.5), (150, 250, 0.5), (0, 400, 0.25), (0, 100, 0.0), (200, 300, 0.0), (-1, -1, 0.0),
     (150, 150, 1.0), (100, 100, 0.0), (200, 200, 1.0)],
)  # fmt: skip
def test_an_answer_counts_by_the_share_that_arrived_in_the_window(first: int, last: int, share: float) -> None:
    assert estimators.arrived(ids(first), ids(last), (100, 200)) == [share]


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1), st.integers(1, 10**6 - 1))
def test_neighbouring_windows_count_every_answer_once(spans: list[tuple[int, int]], cut: int) -> None:
    first = np.array([min(span) + 1 for span in spans], dtype=np.int64)
    last = np.array([max(span) + 1 for span in spans], dtype=np.int64)
    ends = (0, cut, 10**6 + 1)
    counted = [
        estimators.throughput(first, last, np.ones(len(spans)), (a, b)) * (b - a) / 1e9
        for a, b in itertools.pairwise(ends)
    ]
    assert sum(counted) == pytest.approx(len(spans))


@pytest.mark.parametrize("slots", [1, 4, 6, 8])
@pytest.mark.parametrize("requests", [33, 40, 47])
def test_a_batch_that_the_window_cuts_counts_in_full(slots: int, requests: int) -> None:
    """A server of so many slots, all in step, eight requests in flight: its rate is slots ÷ service time."""
    service, prefill = 1_000_000_000, 10_000_000
    ended = [(i // slots + 1) * service for i in range(requests)]
    first = np.array([end - service + prefill for end in ended], dtype=np.int64)
    last = np.array(ended, dtype=np.int64) + np.arange(requests) % slots * 100_000  # a batch ends within a millisecond
    window = (0, int(last[requests - 8 - 1]))  # the last dispatch follows the completion eight before the end
    rate = estimators.throughput(first, last, np.ones(requests), window)
    assert rate == pytest.approx(slots, rel=0.01)


@pytest.mark.parametrize(("value", "base"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0)])
def test_log_ratio_of_what_has_none(value: float, base: float) -> None:
    assert math.isnan(estimators.log_ratio(value, base))
