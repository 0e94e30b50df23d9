"""Token counts that cannot be right: what is divided by them is invalid, and nothing is concluded from them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from bakeoff.model import Result

from .simulate import Arm, changed, experiment, objects, workload
from .test_audit import cautions, invalid, measured, one
from .test_audit_streams import odd
from .test_engine import row

COUNTED = {"tpot_s", "token_throughput_tps"}


def lying(told: float, oddity: str, *, every: int = 1, chunks: int = 32) -> Arm:
    """32 tokens were asked for and so many chunks came; every so many answers are said to have another number."""

    def share(columns: dict[str, Any], wrong: Any, right: Any) -> Any:
        return [wrong if i % every == 0 else right for i in range(len(columns["index"]))]

    return Arm(
        columns={
            "asked_output_tokens": 32.0,
            "output_tokens": lambda c: np.array(share(c, float(told), 32.0)),
            "oddities": lambda c: objects(share(c, {oddity: 1}, {})),
            "chunk_ns": lambda c: objects([times[:chunks] for times in c["chunk_ns"]]),
            "chunk_tokens": lambda c: objects([sizes[:chunks] for sizes in c["chunk_tokens"]]),
            "chunk_coalesced": lambda c: objects([merged[:chunks] for merged in c["chunk_coalesced"]]),
        }
    )


HONEST = Arm(columns={"asked_output_tokens": 32.0})
TWICE = lying(64, "surplus_tokens")


def codes(result: Result) -> set[str]:
    return {c.code for c in result.warnings}


@pytest.mark.parametrize("liar", ["base", "flash"])
def test_twice_the_tokens_that_were_asked_for(liar: str) -> None:
    result = measured({"base": HONEST, "flash": HONEST, liar: TWICE})
    found = one(result, "miscount")
    assert (found.severity, found.variant) == ("invalid", liar)
    assert found.message == f"{liar} counts 64 tokens where 32 were asked: its count cannot be right"
    assert "TTFT and E2E need no count" in found.remedy
    assert invalid(result) == COUNTED  # gaps are of chunks of unknown size: no ITL at all
    assert row(result, "e2e_latency_s").outcome == "equivalent"
    assert found.message in (row(result, "tpot_s").reason or "")
    assert codes(result) == {"miscount", "tails"}  # no wrong length, no hidden gaps, no odd stream


def test_both_arms_lie_alike() -> None:
    result = measured({"base": TWICE, "flash": TWICE})
    assert {c.variant for c in cautions(result, "miscount")} == {"base", "flash"}
    assert invalid(result) == COUNTED
    assert codes(result) == {"miscount", "tails"}


def test_half_the_tokens_that_came() -> None:
    result = measured({"base": HONEST, "flash": lying(16, "surplus_chunks")})
    assert "flash counts 16 tokens where 32 were asked and as many chunks came" in one(result, "miscount").message
    assert invalid(result) == COUNTED
    assert codes(result) == {"miscount", "tails"}


def test_repeated_chunks_are_no_wrong_count() -> None:
    """Half of the answers hold three chunks more than tokens: the count is what was asked for."""
    result = measured({"base": HONEST, "flash": odd(2, surplus_chunks=3)})
    assert one(result, "odd-streams").severity == "warning"
    assert invalid(result) == set()


def test_a_server_that_streams_more_than_the_limit_counts_rightly() -> None:
    longer = changed(Arm(output_tokens=64), columns={"asked_output_tokens": 32.0, "oddities": _surplus})
    result = measured({"base": HONEST, "flash": longer})
    assert not cautions(result, "miscount")
    assert "e2e_latency_s" in invalid(result)
    assert "64 tokens an answer, base 32" in one(result, "output-tokens").message
    assert row(result, "tpot_s").outcome == "equivalent"


def _surplus(columns: dict[str, Any]) -> Any:
    return objects([{"surplus_tokens": 32}] * len(columns["index"]))


def test_few_chunks_do_not_tell_the_length() -> None:
    result = measured({"base": HONEST, "flash": lying(64, "surplus_tokens", chunks=8)})
    found = one(result, "miscount")
    assert found.message.endswith("its count is wrong, or it does not keep to the limit")
    assert invalid(result) == {*COUNTED, "e2e_latency_s", "request_throughput_rps"}
    assert row(result, "ttft_s").outcome == "equivalent"


@pytest.mark.parametrize(("every", "severe"), [(16, True), (32, False)])
def test_a_stray_answer_is_odd_and_no_more(every: int, severe: bool) -> None:
    asked = experiment(workloads=(workload(block=msgspec.structs.replace(workload().block, requests=32)),))
    result = measured({"base": HONEST, "flash": lying(64, "surplus_tokens", every=every)}, asked)
    assert bool(cautions(result, "miscount")) == severe
    assert bool(cautions(result, "odd-streams")) != severe
    if severe:
        assert "in 6.2 % of its answers" in one(result, "miscount").message


def test_prices_and_limits_that_rest_on_the_count() -> None:
    plain = experiment(workloads=(workload(slo={"tpot_s": 0.05}),))
    priced = tuple(msgspec.structs.replace(v, settings={"price": {"output": 1.0}}) for v in plain.variants)
    result = measured({"base": HONEST, "flash": TWICE}, msgspec.structs.replace(plain, variants=priced))
    assert invalid(result) == {*COUNTED, "cost_per_request", "goodput_rps"}
    by_hour = tuple(msgspec.structs.replace(v, settings={"price": {"hour": 1.0}}) for v in plain.variants)
    asked = experiment(workloads=(workload(slo={"ttft_s": 0.5}),), variants=by_hour)
    assert invalid(measured({"base": HONEST, "flash": TWICE}, asked)) == COUNTED


def test_counters_are_not_held_against_a_wrong_count() -> None:
    half = lying(16, "surplus_chunks")
    counted = changed(half, block={"counters": {"generation_tokens": 512.0}})
    assert not cautions(measured({"base": HONEST, "flash": counted}), "foreign-traffic")


def test_a_gap_that_is_decided_by_has_the_true_reason() -> None:
    result = measured({"base": HONEST, "flash": TWICE}, experiment(gates=("itl_s",)))
    assert (row(result, "itl_s").reason or "").startswith("flash counts 64 tokens")


@pytest.mark.parametrize("length", ["fixed", "natural"])
def test_lengths_are_not_told_of_wrong_counts(length: str) -> None:
    asked = experiment(workloads=(workload(length=length),))
    result = measured({"base": HONEST, "flash": TWICE}, asked)
    assert not codes(result) & {"output-length", "output-tokens", "output-shortfall", "lengths-differ", "lengths"}
    assert one(result, "miscount").severity == "invalid"
