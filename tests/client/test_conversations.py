"""Chains of requests: who plays them, when their turns leave, and what a failure does to the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from bakeoff.client import SYSTEM_CLOCK, ClosedLoop, OpenLoop, PreparedRequest
from bakeoff.client.work import chains
from bakeoff.model import RequestRecord

from .blocks import block, good
from .server import DONE, END, SSE_HEAD, Seen, SkippingClock, Wire, answer, chunk, requests, text_event

HOUR_NS = 3_600_000_000_000


def conversations(*lengths: int, think_ns: int = 0, **more: Any) -> list[PreparedRequest]:
    """Requests of conversations with so many turns; a length of 0 is a single request."""
    made: list[PreparedRequest] = []
    for number, length in enumerate(lengths):
        for turn in range(max(1, length)):
            made.append(
                PreparedRequest(
                    index=len(made),
                    prompt_id=len(made),
                    path="/completions",
                    body=b'{"n":%d}' % len(made),
                    conversation=number if length else None,
                    turn=turn,
                    think_ns=think_ns if turn else 0,
                    asked_input_tokens=10 * turn,
                    asked_output_tokens=2,
                    prompt=f"c{number}t{turn}",
                    **more,
                )
            )
    return made


def by_conversation(records: Sequence[RequestRecord]) -> dict[int | None, list[RequestRecord]]:
    found: dict[int | None, list[RequestRecord]] = {}
    for r in records:
        found.setdefault(r.conversation, []).append(r)
    return found


def test_chains_are_runs_of_one_conversation() -> None:
    assert [tuple(c) for c in chains(conversations(2, 0, 0, 3, 1))] == [(0, 2), (2, 3), (3, 4), (4, 7), (7, 8)]
    assert chains([]) == []


def run_block(made: list[PreparedRequest], load: ClosedLoop | OpenLoop, script: Any = good, **more: Any) -> Any:
    return block(script, len(made), load, {}, made=made, **more)


def test_a_slot_plays_a_whole_conversation_before_it_takes_the_next() -> None:
    got = run_block(conversations(3, 3, 3, 3, 0), ClosedLoop(2))
    assert [r.index for r in got.records] == list(range(13))
    assert all(r.error is None for r in got.records)
    assert [(r.conversation, r.turn, r.asked_input_tokens, r.asked_output_tokens) for r in got.records[:3]] == [
        (0, 0, 0, 2),
        (0, 1, 10, 2),
        (0, 2, 20, 2),
    ]
    for turns in by_conversation(got.records).values():
        for before, after in pairwise(turns):
            assert after.scheduled_ns == before.end_ns  # no think time: due when the answer has ended
    # Never more than two conversations at a time.
    spans = [(t[0].scheduled_ns, t[-1].end_ns or 0) for t in by_conversation(got.records).values()]
    for at, _ in spans:
        assert sum(start <= at < end for start, end in spans) <= 2


def test_a_turn_leaves_its_think_time_after_the_answer_before() -> None:
    clock = SkippingClock(SYSTEM_CLOCK)
    for load in (ClosedLoop(1), OpenLoop((0,))):
        got = run_block(conversations(3, think_ns=HOUR_NS), load, clock=clock)
        first, second, third = got.records
        assert second.scheduled_ns == (first.end_ns or 0) + HOUR_NS
        assert third.scheduled_ns == (second.end_ns or 0) + HOUR_NS
        assert all(r.sent_ns is not None and r.sent_ns >= r.scheduled_ns for r in got.records)


def test_an_instant_of_an_open_loop_starts_a_conversation() -> None:
    offsets = (0, 30_000_000, 60_000_000)
    got = run_block(conversations(2, 1, 2), OpenLoop(offsets))
    starts = [r.scheduled_ns - got.started_ns for r in got.records if r.turn == 0]
    assert starts == list(offsets)
    assert len(got.records) == 5
    with pytest.raises(ValueError, match="3 instants but only 2 conversations"):
        run_block(conversations(2, 2), OpenLoop(offsets))


async def refuses_number_two(seen: Seen, wire: Wire) -> None:
    await (wire.send(answer("500 No", b"why")) if seen.json["n"] == 1 else good(seen, wire))


@pytest.mark.parametrize("load", [ClosedLoop(1), OpenLoop((0, 1_000_000))])
def test_what_follows_a_failed_turn_is_recorded_and_not_sent(load: ClosedLoop | OpenLoop) -> None:
    told: list[int] = []
    got = run_block(conversations(4, 2), load, refuses_number_two, on_record=lambda r: told.append(r.index))
    assert [r.error for r in got.records] == [None, "http", "cancelled", "cancelled", None, None]
    assert got.records[2].error_message == "not sent: turn 2 of its conversation failed (http)"
    assert (got.records[3].sent_ns, got.records[3].prompt, got.records[3].turn) == (None, "c0t3", 3)
    assert sorted(told) == list(range(6))


def test_no_turn_is_started_after_the_deadline() -> None:
    clock = SkippingClock(SYSTEM_CLOCK)
    deadline = clock.monotonic_ns() + HOUR_NS // 2
    got = run_block(conversations(3, think_ns=HOUR_NS), ClosedLoop(1), clock=clock, deadline_ns=deadline)
    assert [r.index for r in got.records] == [0]
    assert clock.slept == []


def test_a_history_of_the_servers_own_answers() -> None:
    bodies: list[Any] = []

    async def says_what_it_is(seen: Seen, wire: Wire) -> None:
        bodies.append(seen.json)
        text = text_event(f"a{len(bodies)}", "stop")
        await wire.send(SSE_HEAD, chunk(text), chunk(DONE), END)

    def build(answers: Sequence[str]) -> tuple[bytes, str | None]:
        return msgspec.json.encode({"history": answers}), f"after {list(answers)}"

    made = conversations(3, 2)
    made = [msgspec.structs.replace(r, build=build) if r.turn else r for r in made]
    got = run_block(made, ClosedLoop(1), says_what_it_is)
    assert bodies == [{"n": 0}, {"history": ["a1"]}, {"history": ["a1", "a2"]}, {"n": 3}, {"history": ["a4"]}]
    assert got.records[2].prompt == "after ['a1', 'a2']"
    assert got.records[3].prompt == "c1t0"


def test_a_builder_that_fails_ends_the_block_loudly() -> None:
    def build(_answers: Sequence[str]) -> tuple[bytes, str | None]:
        raise RuntimeError("builder")

    made = [msgspec.structs.replace(r, build=build) if r.turn else r for r in conversations(2)]
    with pytest.raises(RuntimeError, match="builder"):
        run_block(made, ClosedLoop(1))


def test_slots_start_evenly_over_the_ramp() -> None:
    async def slow(seen: Seen, wire: Wire) -> None:
        await asyncio.sleep(0.5)
        await good(seen, wire)

    got = block(slow, 4, ClosedLoop(4, ramp_ns=200_000_000), {})
    starts = sorted(r.scheduled_ns - got.started_ns for r in got.records)
    assert starts[0] == 0
    for n, start in enumerate(starts):
        assert start >= n * 50_000_000  # an alarm is never early
    assert requests(1)[0].conversation is None
