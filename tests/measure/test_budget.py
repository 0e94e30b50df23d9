from __future__ import annotations

import msgspec
import pytest

from bakeoff.errors import UsageError
from bakeoff.measure.budget import Ledger
from bakeoff.measure.plan import Plan
from bakeoff.model import Budget, RequestRecord, Spend, Variant

from .test_plan import experiment

PRICED = {"price": {"input": 1.0, "output": 10.0, "currency": "USD"}}


def priced(limit: Spend | None, **budget: object) -> Ledger:
    variants = (Variant(name="base", engine="openai", settings=PRICED), Variant(name="b", engine="openai"))
    limits = msgspec.structs.replace(Budget(spend=limit), **budget)
    return Ledger(experiment(2, variants=variants, budget=limits))


def record(input_tokens: int, output_tokens: int) -> RequestRecord:
    return RequestRecord(index=0, prompt_id=0, scheduled_ns=0, input_tokens=input_tokens, output_tokens=output_tokens)


def test_money_is_tokens_times_price_per_million() -> None:
    ledger = priced(Spend(amount=5))
    ledger.saw_requests("base", [record(1_000_000, 100_000)], 8)
    ledger.saw_requests("b", [record(1_000_000, 100_000)], 8)
    assert ledger.spent == pytest.approx(2.0)
    assert ledger.requests == 2


def test_blocks_that_could_break_the_spend_budget_do_not_begin() -> None:
    ledger = priced(Spend(amount=1.0))
    assert ledger.refusal([], 1, worst_cost=0.9) is None
    assert "spend budget" in (ledger.refusal([], 1, worst_cost=1.1) or "")


def test_a_budget_in_another_currency_is_refused() -> None:
    with pytest.raises(UsageError, match="EUR"):
        priced(Spend(amount=1.0, currency="EUR"))


def test_request_budget() -> None:
    ledger = priced(None, requests=10)
    assert ledger.refusal([], 10, 0.0) is None
    assert "request budget" in (ledger.refusal([], 11, 0.0) or "")


def test_a_round_that_would_not_fit_into_the_time_left_does_not_begin() -> None:
    ledger = Ledger(experiment(2, budget=Budget(seconds=100.0)), elapsed_s=50.0)
    steps = next(iter(Plan(experiment(2)).groups()))
    assert ledger.refusal(steps, 1, 0.0) is None  # nothing known yet: it may begin
    for step in steps:
        ledger.saw_block(step, 5.0)
        ledger.saw_start(step.variant, 1.0)
    assert ledger.predicted_s(steps) == pytest.approx(4 * 5.0 + 2 * 1.0)
    assert ledger.refusal(steps, 1, 0.0) is None
    for step in steps:
        ledger.saw_block(step, 50.0)
        ledger.saw_block(step, 50.0)
    assert "time budget" in (ledger.refusal(steps, 1, 0.0) or "")


def test_time_used_before_a_resume_counts() -> None:
    assert "time budget" in (Ledger(experiment(2, budget=Budget(seconds=10)), elapsed_s=11).refusal([], 1, 0) or "")


def test_tokens_that_nobody_told_cost_what_they_may_cost_at_most() -> None:
    """A server without `usage` must not make a spend budget endless."""
    ledger = priced(Spend(amount=5))
    answered = RequestRecord(index=0, prompt_id=0, scheduled_ns=0, status=200, prompt="x" * 3_000_000)
    refused = RequestRecord(index=1, prompt_id=1, scheduled_ns=0, status=401, prompt="x" * 3_000_000)
    ledger.saw_requests("base", [answered, refused], 100_000)
    assert ledger.spent == pytest.approx(1.0 + 1.0)  # 1 M prompt tokens at 1, 0.1 M output tokens at 10
