"""Requests are read the same however the network cuts them, and whether or not their heads were seen before."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from bakeoff.mock.connection import Connection, KnownHead
from bakeoff.mock.wire import Exchange, Request


class Echo:
    """A service that answers at once and keeps what it was asked."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self.heads: dict[bytes, KnownHead] = {}
        self.closing = False
        self.seen: list[Request] = []

    def respond(self, request: Request, exchange: Exchange) -> None:
        self.seen.append(request)
        exchange.whole(200, b"{}")


class FakeTransport:
    """Enough of a transport for a connection; what is sent goes to a socket that nobody reads."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.closed = False

    def get_extra_info(self, _name: str) -> socket.socket:
        return self._end

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    abort = close

    def write(self, _data: bytes) -> None:
        pass


def feed(service: Echo, pieces: list[bytes]) -> tuple[bytes, bool]:
    """What one connection answers to these reads, and whether it was closed."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        transport = FakeTransport(mine)
        connection = Connection(service)
        connection.connection_made(cast("asyncio.BaseTransport", transport))
        for piece in pieces:
            connection.data_received(piece)
        theirs.setblocking(False)
        try:
            return theirs.recv(1 << 20), transport.closed
        except BlockingIOError:
            return b"", transport.closed


def message(body: bytes, path: str = "/v1/completions") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


BODIES = st.lists(st.sampled_from([b"{}", b'{"a":1}', b"", b"GET / HTTP/1.1\r\n\r\n"]), min_size=1, max_size=6)


@given(BODIES, st.data())
def test_any_cut_of_the_same_bytes_gives_the_same_requests(bodies: list[bytes], data: Any) -> None:
    service = Echo()
    feed(service, [message(body) for body in bodies])  # now the heads are known
    service.seen.clear()
    stream = b"".join(message(body) for body in bodies)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=5)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    answers, closed = feed(service, pieces)
    assert [request.body for request in service.seen] == bodies
    assert answers.count(b"HTTP/1.1 200 OK") == len(bodies)
    assert not closed


def test_a_known_head_is_not_parsed_again_and_says_the_same() -> None:
    service = Echo()
    feed(service, [message(b"{}"), message(b"[]"), message(b"{}", "/other?x=1"), message(b"{}")])
    assert len(service.heads) == 2
    assert [(r.path, r.body, r.keep_alive, r.headers["host"]) for r in service.seen] == [
        ("/v1/completions", b"{}", True, "a"),
        ("/v1/completions", b"[]", True, "a"),
        ("/other", b"{}", True, "a"),
        ("/v1/completions", b"{}", True, "a"),
    ]


def test_chunked_and_closing_requests_are_read_anew_each_time() -> None:
    chunked = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    service = Echo()
    feed(service, [chunked, chunked])
    assert [request.body for request in service.seen] == [b"{}", b"{}"]
    assert service.heads == {}
    closing = b"POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
    for _ in range(2):
        assert feed(service, [closing])[1]


def test_the_memory_of_heads_is_bounded() -> None:
    service = Echo()
    for i in range(1100):
        feed(service, [b"POST /%d HTTP/1.1\r\nContent-Length: 0\r\n\r\n" % i])
    assert len(service.heads) <= 1024
    assert len(service.seen) == 1100
