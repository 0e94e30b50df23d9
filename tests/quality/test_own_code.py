"""A scorer of the user's own may do anything; none of it may end a run, and none of it is a score unless it is one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.quality.items import Reply
from bakeoff.quality.own_code import graded_by


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Unshown:
    def __repr__(self) -> str:
        raise RuntimeError

    def __float__(self) -> float:
        raise OverflowError


def raising(error: BaseException) -> Any:
    def score(_answer: str, _item: Mapping[str, Any]) -> float:
        raise error

    return score


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(), "SystemExit"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
        (ValueError("no"), "ValueError: no"),
        (Mute(), "Mute"),
        (RecursionError("deep"), "RecursionError: deep"),
    ],
)
def test_what_it_raises_is_the_reason(error: BaseException, said: str) -> None:
    grade = graded_by(raising(error), {})(Reply("4"))
    assert (grade.score, grade.status, grade.reason) == (None, "ungradable", f"the function raised {said}")


def test_sys_exit_is_one_of_them() -> None:
    assert graded_by(lambda _a, _i: sys.exit(0), {})(Reply("4")).status == "ungradable"


def test_an_interrupt_is_the_users_own() -> None:
    with pytest.raises(KeyboardInterrupt):
        graded_by(raising(KeyboardInterrupt()), {})(Reply("4"))


@pytest.mark.parametrize("value", [Unshown(), 10**400, "much", [], 1.5, -0.1, float("nan"), float("inf")])
def test_what_is_no_score_is_ungradable(value: object) -> None:
    grade = graded_by(lambda _a, _i: value, {})(Reply("4"))
    assert (grade.score, grade.status) == (None, "ungradable")
    assert "no score from 0 to 1" in (grade.reason or "")


@given(st.floats(0, 1))
def test_a_score_is_taken_as_it_is(value: float) -> None:
    assert graded_by(lambda _a, _i: value, {})(Reply("4")).score == value
