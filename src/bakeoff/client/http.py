"""One HTTP/1.1 connection: an asyncio Protocol on httptools that stamps first and parses afterwards.

There is no coroutine in the data path. The arrival stamp of everything in one socket read is taken before
anything else happens, and the exchange is told when its answer has ended.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol

import httptools

from ..model import ErrorKind
from .chunks import excerpt

# How long an answer whose content is over may take to end its HTTP message, before the connection is given up.
_LINGER_S = 1.0
_MAX_HEADER_BYTES = 256 * 1024
# Servers close kept connections without saying so before: after an idle time, or after a few answers (llama.cpp).
# A request that crosses such a close on the way is answered by FIN or RST within a round trip, because the server
# never saw it. Later, or on a connection just opened, the end is taken for what it looks like: a failure.
_STALE_IDLE_NS = 1_000_000_000
_STALE_ANSWER_NS = 250_000_000
# Linux tells a half-closed peer apart; without it, a poll still tells of a hang-up and of errors.
_HANG_UP = getattr(select, "POLLRDHUP", 0)


class Verdict(IntEnum):
    """What an exchange wants after more data."""

    MORE = 0
    OVER = 1  # the content has ended; only the end of the HTTP message is awaited
    ABORT = 2  # the rest is of no use


_MORE = Verdict.MORE


class Exchange:
    """One request and what becomes of its answer. Subclasses override the four events; stamps are ns."""

    __slots__ = ("ended", "first_byte_ns", "payload", "sent_ns")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload  # the whole request message
        self.sent_ns: int | None = None
        self.first_byte_ns: int | None = None
        self.ended = False

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers (names in lower case)."""

    def on_data(self, data: bytes, now_ns: int) -> Verdict:
        """More of the body, with the arrival of the read that held it."""
        raise NotImplementedError

    def on_complete(self, now_ns: int) -> None:
        """The message has ended as its framing says."""

    def on_failure(self, kind: ErrorKind, message: str, now_ns: int) -> None:
        """The message will not end."""

    def on_crash(self, error: BaseException) -> None:
        """A bug of ours, found while handling this answer: must surface, not pass for a server's failure."""
        raise error


class Owner(Protocol):
    """Who keeps connections (the pool)."""

    def made(self, connection: Connection) -> None:
        """The connection is open."""

    def released(self, connection: Connection) -> None:
        """The connection may carry another request."""

    def lost(self, connection: Connection) -> None:
        """The connection is gone."""

    def stale(self, exchange: Exchange) -> None:
        """A kept connection was closed by the server before it saw the request: send it on a fresh one."""


class Connection(asyncio.Protocol):
    """One TCP or TLS connection that carries one exchange at a time."""

    def __init__(self, owner: Owner, now: Callable[[], int], request_timeout_s: float) -> None:
        self._owner = owner
        self._now = now
        self._timeout_s = request_timeout_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stamp = 0
        self._idle_since_ns = 0
        self._served = 0
        self._stale_possible = False
        self._reset_head()

    # What the pool asks.

    @property
    def open(self) -> bool:
        """Whether the transport is there and not closing."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def usable(self) -> bool:
        """Whether a request may be sent: open, idle, and not already hung up by the server (asks the kernel, since
        the event loop may not have seen the end yet)."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._exchange is not None:
            return False
        sock = transport.get_extra_info("socket")
        if sock is None:
            return True
        poll = select.poll()
        poll.register(sock.fileno(), _HANG_UP)
        return not poll.poll(0)

    def send(self, exchange: Exchange) -> None:
        """Sends the request; `exchange.sent_ns` is stamped just before its bytes go to the socket."""
        if self._transport is None:  # accepted and closed again at once
            exchange.on_failure("reset", "the server closed the connection before any request", self._now())
            return
        self._exchange = exchange
        self._reset_head()
        self._timer = self._loop.call_later(self._timeout_s, self._expired)
        self._stale_possible = self._served > 0 or self._now() - self._idle_since_ns >= _STALE_IDLE_NS
        exchange.sent_ns = self._now()
        self._transport.write(exchange.payload)

    def abort(self, kind: ErrorKind | None = None, message: str = "") -> None:
        """Closes at once, so that the server sees it; an exchange in flight fails with that kind."""
        if self._exchange is not None and kind is not None:
            self._take_exchange().on_failure(kind, message, self._now())
        if self._transport is not None:
            self._transport.abort()

    # Events of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream transport, as it was asked for
        self._idle_since_ns = self._now()
        self._owner.made(self)

    def data_received(self, data: bytes) -> None:
        now = self._now()
        exchange = self._exchange
        if exchange is None:  # bytes that nobody asked for: this connection cannot be trusted any more
            self.abort()
            return
        self._stamp = now
        if exchange.first_byte_ns is None:
            exchange.first_byte_ns = now
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            self._close_after(exchange)
            exchange.on_crash(error.__context__ or error)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self._exchange is not None:
                said = excerpt(data.decode("latin-1"), 120)
                self.abort("garbage", f"the answer is not HTTP ({error}): {said!r}")
            else:
                self.abort()

    def eof_received(self) -> bool:
        self._ended(self._now(), None)
        return False  # the transport closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._parser = None  # breaks the reference cycle with the parser
        self._ended(self._now(), exc)
        self._owner.lost(self)

    # Events of the parser, inside data_received.

    def on_message_begin(self) -> None:
        if self._exchange is None:  # a second answer behind the first
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_done:  # a trailer
            return
        self._header_bytes += len(name) + len(value)
        if self._header_bytes <= _MAX_HEADER_BYTES:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self._exchange is None:
            return
        self._head_done = True
        self._keep_alive = self._parser.should_keep_alive()
        names = {name for name, _ in self._headers}
        self._framed = self._keep_alive or bool(names & {b"content-length", b"transfer-encoding"})
        self._exchange.on_head(status, self._headers)

    def on_body(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        verdict = exchange.on_data(data, self._stamp)
        if verdict is _MORE:
            return
        if verdict is Verdict.ABORT:
            self._close_after(exchange)
            exchange.on_complete(self._stamp)
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(_LINGER_S, self._lingered)

    def on_message_complete(self) -> None:
        if not self._head_done:  # an interim answer (1xx): the real one follows
            self._reset_head()
            return
        if self._exchange is None:
            return
        exchange = self._take_exchange()
        exchange.on_complete(self._stamp)
        self._served += 1
        self._idle_since_ns = self._stamp
        if self._keep_alive:
            self._owner.released(self)
        elif self._transport is not None:
            self._transport.close()

    # Inside.

    def _reset_head(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._header_bytes = 0
        self._head_done = False
        self._keep_alive = False
        self._framed = False

    def _take_exchange(self) -> Exchange:
        exchange = self._exchange
        assert exchange is not None  # noqa: S101  # callers have checked
        self._exchange = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return exchange

    def _close_after(self, exchange: Exchange) -> None:
        if self._exchange is exchange:
            self._take_exchange()
        self.abort()

    def _expired(self) -> None:
        self.abort("timeout", f"no end of the answer within {self._timeout_s:g} s")

    def _lingered(self) -> None:
        if self._exchange is not None:
            self._take_exchange().on_complete(self._now())
        self.abort()

    def _ended(self, now: int, exc: Exception | None) -> None:
        """The connection has ended; so has an answer that nothing but the end of the connection delimits."""
        if self._exchange is None:
            return
        exchange = self._take_exchange()
        if exchange.first_byte_ns is None:
            if self._stale_possible and now - (exchange.sent_ns or now) <= _STALE_ANSWER_NS:
                self._owner.stale(exchange)
                return
            reason = _reason(exc) or "the server closed the connection"
            exchange.on_failure("reset", f"{reason} before any answer", now)
        elif exc is not None:
            exchange.on_failure("reset", f"the connection broke in the middle of the answer: {_reason(exc)}", now)
        elif self._head_done and not self._framed:
            exchange.on_complete(now)
        else:
            exchange.on_failure("truncated", "the connection closed before the end of the HTTP message", now)


def _reason(exc: BaseException | None) -> str:
    if exc is None:
        return ""
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
