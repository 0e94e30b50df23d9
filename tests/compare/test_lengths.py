"""Lengths asked against got: a note where they vary, a warning where an arm got others, else silence."""

from __future__ import annotations

from typing import Any

import numpy as np

from bakeoff.model import Prompts, Result

from .simulate import Arm, experiment, workload
from .test_audit import cautions, measured, one

_SIZES = np.array([100.0, 200, 300, 400] * 4)


def _columns(**changes: Any) -> dict[str, Any]:
    return {
        "asked_input_tokens": lambda _: _SIZES,
        "input_tokens": lambda _: _SIZES,
        "asked_output_tokens": 32.0,
        **changes,
    }


def _arms(flash: dict[str, Any] | None = None, **kw: Any) -> Result:
    return measured({"base": Arm(columns=_columns()), "flash": Arm(columns=_columns(**(flash or {})))}, **kw)


def test_one_length_that_all_got_is_not_worth_a_word() -> None:
    fixed = {"asked_input_tokens": 128.0, "asked_output_tokens": 32.0}
    result = measured({name: Arm(columns=fixed) for name in ("base", "flash")})
    assert [c.code for c in result.warnings] == ["tails"]


def test_varying_lengths_are_told_with_their_quantiles() -> None:
    note = one(_arms(), "lengths")
    assert note.severity == "note"
    assert "prompts asked 250/400/400, base 250/400/400, flash 250/400/400" in note.message
    assert "answers" not in note.message


def test_a_template_is_no_difference_but_it_is_told() -> None:
    more = {"input_tokens": lambda _: _SIZES + 17}
    result = measured({name: Arm(columns=_columns(**more)) for name in ("base", "flash")})
    assert cautions(result, "lengths-differ") == []
    assert "of them 17 a template's" in one(result, "lengths").message


def test_prompts_that_a_server_truncates_are_found() -> None:
    found = one(_arms({"input_tokens": lambda _: np.minimum(_SIZES, 250)}), "lengths-differ")
    assert (found.severity, found.variant) == ("warning", "flash")
    assert "50 % of the prompts of flash in chat are not as long as asked for" in found.message
    assert "on average 200 tokens, asked 250" in found.message


def test_answers_of_scattered_length_are_found_though_their_mean_is_right() -> None:
    scattered = {"output_tokens": lambda _: np.array([24.0, 40.0] * 8)}
    found = one(_arms(scattered), "lengths-differ")
    assert "100 % of the answers of flash" in found.message
    assert cautions(_arms(scattered), "output-shortfall") == []


def test_a_mean_that_is_off_is_told_once_against_what_was_asked() -> None:
    longer = {"asked_output_tokens": 64.0}
    result = measured({name: Arm(columns=_columns(**longer)) for name in ("base", "flash")})
    assert cautions(result, "lengths-differ") == []
    assert "32 tokens on average where 64 were asked for" in cautions(result, "output-shortfall")[0].message


def test_natural_answers_may_end_before_the_limit() -> None:
    asked = experiment(workloads=(workload(length="natural"),))
    assert cautions(_arms({"output_tokens": lambda _: np.array([8.0, 20.0] * 8)}, asked=asked), "lengths-differ") == []


def test_own_cuts_and_skips_are_counted_and_no_difference() -> None:
    asked = experiment(workloads=(workload(prompts=Prompts(source="jsonl", path="p", max_input_tokens=300)),))
    columns = _columns(input_tokens=lambda _: np.minimum(_SIZES, 300))
    block = {"notes": ("longer than 300 tokens and skipped, of this round's prompts: 2",)}
    result = measured({name: Arm(columns=columns, block=block) for name in ("base", "flash")}, asked, rounds=8)
    assert cautions(result, "lengths-differ") == []
    note = one(result, "lengths").message
    assert "25 % of the prompts cut by max_input_tokens" in note
    assert "16 prompts skipped, in 8 rounds" in note
    assert cautions(result, "prompt-note") == []
