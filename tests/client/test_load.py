"""The client against a real socket: loads, rate limits, the server's death, cancellation."""

from __future__ import annotations

import asyncio
import time

import pytest

from bakeoff.client import SYSTEM_CLOCK, ClientBlock, ClosedLoop, OpenLoop, run_requests
from bakeoff.errors import ServerDied
from bakeoff.model import RequestRecord

from .blocks import block, good, one
from .server import (
    CLOSING_HEAD,
    DONE,
    END,
    SSE_HEAD,
    RawServer,
    Script,
    Seen,
    SkippingClock,
    Wire,
    answer,
    chat_event,
    chunk,
    endpoint,
    requests,
    run,
    text_event,
    usage_event,
)

KEY = "sk-very-secret-0123456789"


def test_a_good_request() -> None:
    before = time.monotonic_ns()
    got = block(good, 1, ClosedLoop(1), {})
    (r,) = got.records
    assert (r.error, r.text, r.output_tokens, r.input_tokens) == (None, "ab", 2, 4)
    stamps: list[int | None] = [before, got.started_ns, r.scheduled_ns, r.sent_ns, r.first_byte_ns, r.first_token_ns]
    stamps += [r.last_token_ns, r.end_ns, got.ended_ns]
    assert stamps == sorted(s for s in stamps if s is not None)
    assert r.scheduled_ns == got.started_ns


def test_what_is_sent() -> None:
    async def main() -> Seen:
        async with RawServer(good) as server:
            headers = {"Authorization": f"Bearer {KEY}", "content-length": "999", "User-Agent": "mine"}
            await run_requests(endpoint(server.url, headers=headers), requests(1), ClosedLoop(1))
            assert server.seen[0].headers["host"] == f"127.0.0.1:{server.port}"
            return server.seen[0]

    seen = run(main())
    assert (seen.method, seen.path, seen.json) == ("POST", "/v1/completions", {"n": 0})
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert (seen.headers["user-agent"], seen.headers["accept-encoding"]) == ("mine", "identity")


def test_times_are_those_of_the_wire() -> None:
    marks: list[int] = []

    async def slow(_seen: Seen, wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(chat_event(role="assistant", content="")))
        await asyncio.sleep(0.15)
        marks.append(time.monotonic_ns())
        await wire.send(chunk(text_event("a")))
        await asyncio.sleep(0.1)
        marks.append(time.monotonic_ns())
        await wire.send(chunk(text_event("b")))
        await asyncio.sleep(0.1)
        await wire.send(chunk(usage_event(1, 2)), chunk(DONE), END)

    r = one(slow)
    # The role was sent at once: it must not pass for the first token. Sent before arrived, on one clock.
    assert r.first_token_ns is not None
    assert r.last_token_ns is not None
    assert r.first_token_ns >= marks[0] >= r.scheduled_ns + 145_000_000
    assert marks[1] <= r.last_token_ns
    assert (r.chunk_coalesced, r.chunk_ns) == ([False, False], [r.first_token_ns, r.last_token_ns])
    assert r.end_ns is not None
    assert r.end_ns >= r.last_token_ns + 95_000_000  # event loops may wake a millisecond early


# Closed loop.


def test_concurrency_is_kept_and_connections_are_reused() -> None:
    now = highest = 0

    async def busy(seen: Seen, wire: Wire) -> None:
        nonlocal now, highest
        now += 1
        highest = max(highest, now)
        await asyncio.sleep(0.02)
        now -= 1
        await good(seen, wire)

    async def main() -> tuple[ClientBlock, int]:
        async with RawServer(busy) as server:
            got = await run_requests(endpoint(server.url), requests(20), ClosedLoop(4))
            return got, server.connections

    got, connections = run(main())
    assert (highest, connections) == (4, 4)
    assert [r.index for r in got.records] == list(range(20))
    assert all(r.error is None for r in got.records)
    # A slot's next request counts from the end of its last one: every schedule but the first four is an end.
    ends = {r.end_ns for r in got.records}
    later = [r.scheduled_ns for r in got.records if r.scheduled_ns != got.started_ns]
    assert len(later) == 16
    assert set(later) <= ends


def test_a_server_without_keep_alive_gets_a_connection_per_request() -> None:
    async def close(_seen: Seen, wire: Wire) -> None:
        await wire.send(CLOSING_HEAD, text_event("a", "stop"), DONE)
        wire.close()

    got = block(close, 6, ClosedLoop(2), {})
    assert [r.error for r in got.records] == [None] * 6


def test_a_kept_connection_that_the_server_closed_is_replaced_and_not_a_failure() -> None:
    async def main() -> tuple[ClientBlock, int]:
        closing: list[asyncio.Task[None]] = []

        async def then_close(seen: Seen, wire: Wire) -> None:
            await good(seen, wire)

            async def later() -> None:
                await asyncio.sleep(0.05)
                wire.close()

            closing.append(asyncio.create_task(later()))

        async with RawServer(then_close) as server:
            offsets = (0, 300_000_000, 600_000_000)
            got = await run_requests(endpoint(server.url), requests(3), OpenLoop(offsets))
            await asyncio.gather(*closing)
            return got, server.connections

    got, connections = run(main())
    assert [r.error for r in got.records] == [None] * 3
    assert connections >= 3


def test_a_server_that_closes_after_two_answers_without_saying_so() -> None:
    async def main() -> tuple[ClientBlock, list[int]]:
        async with RawServer(two_each) as server:
            got = await run_requests(endpoint(server.url), requests(9), ClosedLoop(1))
            return got, [seen.json["n"] for seen in server.seen]

    answered: dict[int, int] = {}

    async def two_each(seen: Seen, wire: Wire) -> None:
        answered[seen.connection] = answered.get(seen.connection, 0) + 1
        await good(seen, wire)
        if answered[seen.connection] == 2:
            wire.close()

    got, arrived = run(main())
    assert [r.error for r in got.records] == [None] * 9
    assert arrived == list(range(9))  # each arrived once


def test_no_request_is_started_after_the_deadline() -> None:
    async def slow(seen: Seen, wire: Wire) -> None:
        await asyncio.sleep(0.2)
        await good(seen, wire)

    deadline = time.monotonic_ns() + 300_000_000
    got = block(slow, 50, ClosedLoop(1), {}, deadline_ns=deadline)
    assert 1 <= len(got.records) <= 2
    assert all(r.error is None and r.scheduled_ns < deadline for r in got.records)
    none = block(good, 5, ClosedLoop(2), {}, deadline_ns=time.monotonic_ns())
    assert none.records == []
    assert block(good, 5, OpenLoop((0,) * 5), {}, deadline_ns=time.monotonic_ns()).records == []


def test_no_requests() -> None:
    assert block(good, 0, ClosedLoop(3), {}).records == []
    assert block(good, 0, OpenLoop(()), {}).records == []


def test_loads_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="concurrency"):
        block(good, 1, ClosedLoop(0), {})
    with pytest.raises(ValueError, match="2 instants"):
        block(good, 1, OpenLoop((0, 1)), {})


# Rate limits.


def limited(times: int, *headers: str) -> Script:
    left = times

    async def script(seen: Seen, wire: Wire) -> None:
        nonlocal left
        left -= 1
        await (wire.send(answer("429 Too Many", b"slow down", *headers)) if left >= 0 else good(seen, wire))

    return script


def test_a_rate_limit_is_recorded_and_waited_for_as_the_server_asks() -> None:
    clock = SkippingClock(SYSTEM_CLOCK)
    got = block(limited(1, "Retry-After: 7"), 3, ClosedLoop(1), {}, clock=clock)
    assert [r.error for r in got.records] == ["rate_limited", None, None]
    first, second = got.records[:2]
    assert first.retry_after_s == 7.0
    assert len(clock.slept) == 1
    assert clock.slept[0] == pytest.approx(7.0, abs=0.5)
    assert first.end_ns is not None
    assert second.scheduled_ns - first.end_ns >= 6_900_000_000  # the wait is not the server's latency
    assert second.sent_ns is not None
    assert second.sent_ns - second.scheduled_ns < 1_000_000_000


def test_without_advice_the_wait_grows_and_is_bounded() -> None:
    clock = SkippingClock(SYSTEM_CLOCK)
    got = block(limited(8), 9, ClosedLoop(1), {}, clock=clock)
    assert [r.error for r in got.records] == ["rate_limited"] * 8 + [None]
    assert [round(s) for s in clock.slept] == [1, 2, 4, 8, 16, 32, 60, 60]
    slept = SkippingClock(SYSTEM_CLOCK)
    block(limited(1, "Retry-After: 86400"), 2, ClosedLoop(1), {}, clock=slept)
    assert [round(s) for s in slept.slept] == [60]


def test_a_wait_beyond_the_deadline_ends_the_block() -> None:
    clock = SkippingClock(SYSTEM_CLOCK)
    deadline = clock.monotonic_ns() + 30_000_000_000
    got = block(limited(9, "Retry-After: 50"), 9, ClosedLoop(1), {}, clock=clock, deadline_ns=deadline)
    assert (len(got.records), clock.slept) == (1, [])


def test_requests_per_minute_pace_a_closed_loop() -> None:
    clock = SkippingClock(SYSTEM_CLOCK)
    got = block(good, 5, ClosedLoop(1), {"requests_per_minute": 6.0}, clock=clock)
    gaps = [b.scheduled_ns - a.scheduled_ns for a, b in zip(got.records, got.records[1:], strict=False)]
    assert all(9_990_000_000 <= gap < 11_000_000_000 for gap in gaps)
    assert all(r.error is None for r in got.records)


# Open loop.


def test_the_schedule_is_kept_however_slow_the_server_is() -> None:
    async def slow(seen: Seen, wire: Wire) -> None:
        await asyncio.sleep(0.8)
        await good(seen, wire)

    offsets = tuple(i * 25_000_000 for i in range(12))  # all fire before the first answer
    got = block(slow, 12, OpenLoop(offsets), {})
    assert [r.scheduled_ns - got.started_ns for r in got.records] == list(offsets)
    assert all(r.error is None for r in got.records)
    first_end = min(r.end_ns or 0 for r in got.records)
    sent = [r.sent_ns or 0 for r in got.records]
    assert max(sent) < first_end
    assert all(r.sent_ns is not None and r.sent_ns >= r.scheduled_ns for r in got.records)


def test_a_late_client_shows_as_delay() -> None:
    """The event loop is blocked for 200 ms while requests are due: they count from their schedule all the same."""
    blocked = False

    def block_once(_record: RequestRecord) -> None:
        nonlocal blocked
        if not blocked:
            blocked = True
            time.sleep(0.2)

    offsets = (0, 50_000_000, 60_000_000, 70_000_000)
    got = block(good, 4, OpenLoop(offsets), {}, on_record=block_once)
    assert [r.scheduled_ns - got.started_ns for r in got.records] == list(offsets)
    delays = [(r.sent_ns or 0) - r.scheduled_ns for r in got.records[1:]]
    assert max(delays) > 50_000_000
    assert max(got.loop_lag_ns) > 100_000_000


# Listening, dying, cancelling.


def test_records_are_told_as_they_end() -> None:
    told: list[int] = []
    got = block(good, 6, ClosedLoop(2), {}, on_record=lambda r: told.append(r.index))
    assert sorted(told) == [r.index for r in got.records] == list(range(6))


def test_a_listener_that_fails_ends_the_block_loudly() -> None:
    def fail(_record: RequestRecord) -> None:
        raise RuntimeError("listener")

    with pytest.raises(RuntimeError, match="listener"):
        block(good, 6, ClosedLoop(2), {}, on_record=fail)


def test_the_death_of_the_server_ends_the_block_and_keeps_what_was_measured() -> None:
    async def first_only(seen: Seen, wire: Wire) -> None:
        if seen.json["n"] == 0:
            await good(seen, wire)
        else:
            await wire.send(SSE_HEAD, chunk(text_event("a")))
            await asyncio.sleep(60)

    def dead() -> None:
        raise ServerDied("the server's process ended with code 3", log_tail=["boom"])

    with pytest.raises(ServerDied) as caught:
        block(first_only, 9, ClosedLoop(2), {}, check=dead)
    partial: ClientBlock = caught.value.partial  # type: ignore[attr-defined]
    assert [r.error for r in partial.records] == [None, "server_died", "server_died"]
    assert partial.records[1].text == "a"
    assert "code 3" in (partial.records[1].error_message or "")


def test_a_lost_connection_makes_the_client_look_at_the_server_at_once() -> None:
    asked: list[int] = []

    async def reset(_seen: Seen, wire: Wire) -> None:
        wire.reset()

    def dead() -> None:
        asked.append(time.monotonic_ns())
        raise ServerDied("gone")

    with pytest.raises(ServerDied) as caught:
        block(reset, 10_000, ClosedLoop(1), {}, check=dead)
    partial: ClientBlock = caught.value.partial  # type: ignore[attr-defined]
    assert 1 <= len(partial.records) < 100  # it does not spin against a dead server
    assert {r.error for r in partial.records} <= {"reset", "connect", "server_died"}


def test_a_living_server_is_asked_and_nothing_happens() -> None:
    asked: list[int] = []

    async def slow(seen: Seen, wire: Wire) -> None:
        await asyncio.sleep(1.3)
        await good(seen, wire)

    got = block(slow, 1, ClosedLoop(1), {}, check=lambda: asked.append(1))
    assert got.records[0].error is None
    assert asked


@pytest.mark.parametrize("load", [ClosedLoop(2), OpenLoop((0, 20_000_000))])
def test_the_standard_event_loop_works_too(load: ClosedLoop | OpenLoop) -> None:
    async def main() -> ClientBlock:
        async with RawServer(good) as server:
            return await run_requests(endpoint(server.url), requests(2), load)

    with asyncio.Runner() as runner:
        got = runner.run(main())
    assert [(r.error, r.text) for r in got.records] == [(None, "ab")] * 2


@pytest.mark.parametrize("load", [ClosedLoop(3), OpenLoop((0, 0, 60_000_000_000))])
def test_cancelling_closes_the_sockets_and_returns_nothing(load: ClosedLoop | OpenLoop) -> None:
    async def hang(_seen: Seen, wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(text_event("a")))
        while True:
            await wire.send(chunk(b": ping\n\n"))
            await asyncio.sleep(0.01)

    async def main() -> int:
        async with RawServer(hang) as server:
            task = asyncio.create_task(run_requests(endpoint(server.url), requests(3), load))
            await server.arrived(2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(500):  # generous: the server notices when it writes
                if server.hung_up == server.connections:
                    break
                await asyncio.sleep(0.01)
            return server.connections - server.hung_up

    assert run(main()) == 0
