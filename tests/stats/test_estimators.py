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


def test_throughput_counts_completions_after_the_start_up_to_the_end() -> None:
    completed = np.array([0, 10, 20, 30, 40], dtype=np.int64) * 10**8
    weights = np.array([5.0, 5.0, 5.0, 5.0, 5.0])
    assert estimators.throughput(completed, weights, (0, 3 * 10**9)) == pytest.approx(5.0)
    assert math.isnan(estimators.throughput(completed, weights, (10, 10)))


@pytest.mark.parametrize(("value", "base"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0)])
def test_log_ratio_of_what_has_none(value: float, base: float) -> None:
    assert math.isnan(estimators.log_ratio(value, base))
