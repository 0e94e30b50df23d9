"""What the servers' counters tell: reuse of prompts, other clients, restarts, queues, full caches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.compare.audit.sharing import common_length, shareable_tokens
from bakeoff.compare.extract import extract
from bakeoff.model import Result

from .simulate import Arm, Simulation, experiment, objects, workload
from .test_audit import PREFILL, cautions, invalid, measured, one

DECLARED = experiment(workloads=(workload(cache="declared"),))
_HEAD = "a system prompt that every request begins with; " * 2  # 96 of 128 characters


def prompts(shared: bool = True) -> Arm:
    """Sixteen prompts of 128 characters (and tokens), three quarters of them shared."""
    texts = [(_HEAD if shared else f"{i:02d}" + _HEAD[2:]) + f"{i:03d}" + "x" * 29 for i in range(16)]
    return Arm(columns={"prompt": lambda columns: objects(texts)})


def with_hits(arm: Arm, share: float) -> Arm:
    return Arm(columns=arm.columns, cached_tokens=128 * share)


def test_reuse_of_what_the_prompts_share_is_meant() -> None:
    arm = with_hits(prompts(), 0.70)  # 15 of 16 prompts × 0.75
    result = measured({"base": arm, "flash": arm}, DECLARED)
    assert invalid(result) == set()
    found = one(result, "cache-use")
    assert found.severity == "note"
    assert "prompt tokens from the prefix cache: base 70 %, flash 70 %" in found.message


def test_reuse_beyond_what_the_prompts_share_is_left_over_from_earlier_blocks() -> None:
    arm = with_hits(prompts(shared=False), 0.75)
    result = measured({"flash": arm, "base": prompts(shared=False)}, DECLARED)
    found = one(result, "cache-contamination")
    assert found.variant == "flash"
    assert "75 %" in found.message
    assert invalid(result) == PREFILL - {"ttfo_s"}


def test_unequal_reuse_of_the_same_offer_is_a_finding() -> None:
    result = measured({"base": with_hits(prompts(), 0.0), "flash": with_hits(prompts(), 0.6)}, DECLARED)
    found = one(result, "cache-unequal")
    assert found.severity == "warning"
    assert "base 0 %" in found.message
    assert "flash 60 %" in found.message
    assert invalid(result) == set()


def test_counters_are_a_witness_too_and_silence_is_not_zero() -> None:
    told = Arm(columns=prompts().columns, block={"cache_hit_tokens": 1024, "cache_query_tokens": 2048})
    result = measured({"base": prompts(), "flash": told}, DECLARED)
    assert cautions(result, "cache-unequal") == []
    assert "base not told, flash 50 %" in one(result, "cache-use").message
    assert cautions(measured({"base": prompts(), "flash": prompts()}, DECLARED), "cache-use") == []


def test_shared_is_only_reported() -> None:
    asked = experiment(workloads=(workload(cache="shared"),))
    result = measured({"base": Arm(cached_tokens=0.0), "flash": Arm(cached_tokens=120.0)}, asked)
    assert one(result, "cache-use").severity == "note"
    assert invalid(result) == set()


def test_unique_names_both_arms() -> None:
    result = measured({"base": Arm(cached_tokens=0.0), "flash": Arm(cached_tokens=64.0)})
    assert "flash took 50 % of its prompt tokens from the prefix cache (base 0 %)" in one(result, "cache-hits").message


def block_of(texts: list[str | None], conversation: list[float] | None = None, answer: str = "") -> float | None:
    arm = Arm(
        columns={"prompt": lambda columns: objects(texts), "text": lambda columns: objects([answer] * len(texts))}
    )
    asked = experiment(workloads=(workload(),))
    (data,) = [b for b in Simulation(asked, {"base": arm}).run(1).blocks if b.block.variant == "base"][:1]
    columns = dict(data.columns)
    columns["conversation"] = objects(conversation or [float("nan")] * len(texts)).astype(float)
    return shareable_tokens(extract(type(data)(block=data.block, columns=columns)))


def test_the_first_prompt_of_a_block_can_reuse_nothing_but_a_head() -> None:
    assert block_of(["same"] * 16) == pytest.approx(32 + 15 * 128)
    assert block_of([f"{i:x}" * 50 for i in range(16)]) == pytest.approx(16 * 32)
    assert block_of([None] * 16) is None


def test_a_later_turn_may_reuse_the_answer_before_it() -> None:
    turns = ["q" * 64, "q" * 64 + "other words" + "z" * 53] + [f"{i:x}" * 64 for i in range(2, 16)]
    alone = block_of(list(turns), answer="a" * 32)
    chat = block_of(list(turns), [0.0, 0.0, *map(float, range(2, 16))], answer="a" * 32)
    assert alone is not None
    assert chat is not None
    assert chat - alone == pytest.approx(128 * 32 / 128)


@given(st.text(max_size=40), st.text(max_size=5), st.text(max_size=5))
def test_common_length(head: str, a: str, b: str) -> None:
    found = common_length(head + a, head + b)
    assert found >= len(head)
    assert (head + a)[:found] == (head + b)[:found]
    assert found == min(len(head + a), len(head + b)) or (head + a)[found] != (head + b)[found]


# other clients, restarts, queues, full caches ─────────────────────────────────────────────────────────────────────────


def with_counters(**counters: float) -> Result:
    return measured({"flash": Arm(block={"counters": counters})})


def test_requests_that_were_not_ours_make_a_comparison_invalid() -> None:
    result = with_counters(requests=18.0)
    found = one(result, "foreign-traffic")
    assert found.severity == "invalid"
    assert "in 8 of 8 blocks flash served others too: up to 12 % more" in found.message
    assert {"ttft_s", "tpot_s"} <= invalid(result)
    assert cautions(with_counters(requests=17.0), "foreign-traffic") == []
    assert cautions(with_counters(requests=16.0), "counters-partial") == []


def test_tokens_that_were_not_ours_where_requests_are_not_counted() -> None:
    ours = 16 * 32.0
    assert one(with_counters(generation_tokens=ours + 64), "foreign-traffic").severity == "invalid"
    assert cautions(with_counters(generation_tokens=ours + 10), "foreign-traffic") == []
    failing = measured({"flash": Arm(fail=0.1, block={"counters": {"generation_tokens": 9 * ours}})})
    assert cautions(failing, "foreign-traffic") == []
    unsure = Arm(columns={"tokens_source": lambda columns: objects(["estimated"] * 16)},
                 block={"counters": {"generation_tokens": 9 * ours}})  # fmt: skip
    assert cautions(measured({"flash": unsure}), "foreign-traffic") == []


def test_a_page_of_one_replica_is_told() -> None:
    found = one(with_counters(requests=5.0), "counters-partial")
    assert "counted 40 of 128 requests" in found.message
    assert found.severity == "note"


def test_restarts() -> None:
    assert "within 8 blocks" in one(with_counters(restarts=1.0), "server-restarted").message


def test_queueing_is_told_as_a_share_of_ttft() -> None:
    result = with_counters(queue_s=16 * 0.025, queue_count=16.0)
    found = one(result, "queueing")
    assert "flash 25 ms" in found.message
    assert invalid(result) == set()
    assert cautions(with_counters(queue_s=0.001, queue_count=16.0), "queueing") == []
    assert cautions(with_counters(queue_s=9.0), "queueing") == []


def test_a_full_kv_cache_and_what_it_costs() -> None:
    assert "put 16 requests of 128 back" in one(with_counters(preemptions=2.0, kv_use=1.0), "preemptions").message
    assert "up to 97 % full" in one(with_counters(kv_use=0.97), "kv-full").message
    assert cautions(with_counters(kv_use=0.9, preemptions=0.0), "kv-full") == []
