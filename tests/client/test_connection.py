"""One connection over several answers: keeping, closing, replacing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import pytest

from bakeoff.client import ClosedLoop, run_requests
from bakeoff.client.connection import Connection
from bakeoff.client.exchange import StreamExchange
from bakeoff.model import RequestRecord

from .bench import Bench, Owner, stream
from .blocks import good
from .server import CLOSING_HEAD, DONE, RawServer, Seen, Wire, answer, endpoint, requests, run, text_event


def test_keep_alive_and_a_second_answer_on_the_same_connection() -> None:
    async def main() -> None:
        bench = Bench()
        first = bench.send()
        bench.read(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + stream(text_event("a"), DONE))
        assert (bench.ends, bench.owner.kept) == (1, 1)
        second = bench.send()
        bench.read(stream(text_event("b"), DONE))
        assert (first.record().text, second.record().text) == ("a", "b")
        assert bench.owner.kept == 2
        assert not bench.transport.gone

    run(main())


@pytest.mark.parametrize("head", [CLOSING_HEAD, b"HTTP/1.0 200 OK\r\n\r\n"])
def test_a_connection_that_the_server_will_close_is_not_kept(head: bytes) -> None:
    async def main() -> None:
        bench = Bench()
        bench.send()
        bench.read(head + text_event("a") + DONE)
        bench.finish()
        assert (bench.ends, bench.owner.kept) == (1, 0)

    run(main())


def test_bytes_that_nobody_asked_for_close_the_connection() -> None:
    async def main() -> None:
        bench = Bench()
        exchange = bench.send()
        bench.read(stream(text_event("a"), DONE) + answer("200 OK", b"more"))
        assert bench.transport.gone
        assert exchange.record().text == "a"
        other = Bench()
        other.read(answer("408 Request Timeout", b""))
        assert other.transport.gone

    run(main())


@pytest.mark.parametrize(
    ("served", "idle_ns", "answer_ns", "replaced"),
    [
        (0, 1000, 1000, False),  # just opened: whoever closes now has seen the request
        (0, 2_000_000_000, 1000, True),  # a keep-alive timeout crossed the request
        (1, 1000, 1000, True),  # closed after some answers, unannounced
        (1, 1000, 400_000_000, False),  # too late to have crossed it
    ],
)
def test_a_kept_connection_that_closes_unanswered_is_replaced(
    served: int, idle_ns: int, answer_ns: int, replaced: bool
) -> None:
    async def main() -> None:
        bench = Bench()
        for _ in range(served):
            bench.send()
            bench.read(stream(text_event("a"), DONE))
        bench.now += idle_ns
        exchange = bench.send()
        bench.now += answer_ns
        bench.finish(ConnectionResetError())
        assert bench.owner.again == ([exchange] if replaced else [])
        assert exchange.ended is not replaced

    run(main())


def test_a_request_that_was_sent_anew_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bakeoff.client.connection._STALE_ANSWER_NS", 60_000_000_000)  # however slow this machine is

    async def once(seen: Seen, wire: Wire) -> None:
        if len(server.seen) == 2:  # the server's keep-alive time was over when the second request came
            wire.close()
        else:
            await good(seen, wire)

    server = RawServer(once)

    async def main() -> list[RequestRecord]:
        async with server:
            return (await run_requests(endpoint(server.url), requests(3), ClosedLoop(1))).records

    first, second, third = run(main())
    assert [r.error for r in (first, second, third)] == [None] * 3
    assert [r.oddities.get("resent", 0) for r in (first, second, third)] == [0, 1, 0]
    assert [seen.connection for seen in server.seen][:2] == [0, 0]
    assert server.seen[2].connection != 0


def test_a_bug_of_ours_is_not_taken_for_a_failure_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: StreamExchange, _data: bytes, _now: int) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(StreamExchange, "on_data", broken)

    async def main() -> Sequence[BaseException]:
        bench = Bench()
        bench.send()
        bench.read(stream(text_event("a")))
        return bench.crashes

    assert [str(e) for e in run(main())] == ["bug"]


def test_a_hang_up_is_seen_before_the_event_loop_sees_it() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(lambda: Connection(Owner(), lambda: 0), sock=ours)
        assert connection.usable
        theirs.close()
        assert not connection.usable
        transport.abort()
        await asyncio.sleep(0)

    run(main())
