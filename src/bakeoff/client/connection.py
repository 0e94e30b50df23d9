"""One HTTP/1.1 connection: an asyncio Protocol on httptools that stamps first and parses afterwards.

There is no coroutine in the data path. Everything in one socket read is stamped before anything else happens; parsing
waits until all readable sockets have been read (see `Inbox`). When its answer has ended the exchange is told.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from typing import Any

import httptools

from ..model import ErrorKind
from .block import Timeouts
from .chunks import excerpt
from .http import Exchange, Owner, Verdict, reason_of
from .inbox import Inbox

# How long an answer whose content is over may take to end its HTTP message, before the connection is given up.
_LINGER_NS = 1_000_000_000
_MAX_HEADER_BYTES = 256 * 1024
# Servers close kept connections without saying so before: after an idle time, or after a few answers (llama.cpp).
# A request that crosses such a close on the way is answered by FIN or RST within a round trip, because the server
# never saw it. Later, or on a connection just opened, the end is taken for what it looks like: a failure.
_STALE_IDLE_NS = 1_000_000_000
_STALE_ANSWER_NS = 250_000_000
# Linux tells a half-closed peer apart; without it, a poll still tells of a hang-up and of errors.
_HANG_UP = getattr(select, "POLLRDHUP", 0)
_MORE, _ABORT = Verdict.MORE, Verdict.ABORT


class Connection(asyncio.Protocol):
    """One TCP, TLS or unix connection that carries one exchange at a time.

    inbox: where reads wait for their parsing; None parses each one at once.
    """

    def __init__(self, owner: Owner, now: Callable[[], int], inbox: Inbox | None = None) -> None:
        self._owner = owner
        self._now = now
        self._inbox = inbox
        self._unparsed = 0  # reads that wait in the inbox
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self._direct = False  # no TLS: the socket is written to without a detour through the event loop
        self._poll: select.poll | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._complete = False  # the message has ended; what follows it in the same read was not asked for
        self._over_ns: int | None = None  # the content has ended, its message has not
        self._stamp = 0
        self._heard_ns = 0  # the last read
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
        if transport is None or transport.is_closing() or self._exchange is not None or self._unparsed:
            return False
        return self._poll is None or not self._poll.poll(0)

    def send(self, exchange: Exchange) -> None:
        """Sends the request; `exchange.sent_ns` is stamped just before its bytes go to the socket."""
        transport = self._transport
        if transport is None or transport.is_closing():  # accepted and closed again at once
            exchange.on_failure("reset", "the server closed the connection before any request", self._now())
            return
        self._exchange = exchange
        self._reset_head()
        self._over_ns = None
        now = self._now()
        self._stale_possible = self._served > 0 or now - self._idle_since_ns >= _STALE_IDLE_NS
        exchange.sent_ns = now
        payload = exchange.payload
        if self._direct:
            # The loops of uvloop and asyncio send a write at the end of their turn, after all that is ready to run;
            # the stamp just taken would be early by that.
            try:
                written = os.write(self._fd, payload)
            except OSError:  # the buffer is full, or the peer is gone: the transport finds out which
                written = 0
            if written == len(payload):
                return
            payload = payload[written:]
            self._direct = False  # what the transport still holds must not be overtaken by a later request
        transport.write(payload)

    def abort(self, kind: ErrorKind | None = None, message: str = "") -> None:
        """Closes at once, so that the server sees it; an exchange in flight fails with that kind."""
        exchange = self._exchange
        if self._transport is not None:
            self._transport.abort()
        if exchange is not None and kind is not None:
            self._exchange = None
            exchange.on_failure(kind, message, self._now())

    def expire(self, now: int, limits: Timeouts) -> None:
        """Ends what has taken longer than a limit. Bytes that have arrived and wait to be parsed are in time."""
        exchange = self._exchange
        if exchange is None or self._unparsed or exchange.sent_ns is None:
            return
        if self._over_ns is not None:
            if now - self._over_ns >= _LINGER_NS:
                self._exchange = None
                self.abort()
                exchange.on_complete(now)
            return
        waited = now - exchange.sent_ns
        if waited >= limits.request_s * 1e9:
            self.abort("timeout", f"no end of the answer within {limits.request_s:g} s")
        elif exchange.first_byte_ns is None:
            if limits.first_byte_s is not None and waited >= limits.first_byte_s * 1e9:
                self.abort("timeout", f"no byte of an answer within {limits.first_byte_s:g} s")
        elif limits.idle_s is not None and now - self._heard_ns >= limits.idle_s * 1e9:
            self.abort("timeout", f"the answer stood still for {limits.idle_s:g} s")

    # Events of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream transport, as it was asked for
        self._idle_since_ns = self._now()
        sock = transport.get_extra_info("socket")
        if sock is not None:
            self._poll = select.poll()
            self._poll.register(sock.fileno(), _HANG_UP)
            self._fd = sock.fileno()
            self._direct = transport.get_extra_info("sslcontext") is None
        self._owner.made(self)

    def data_received(self, data: bytes) -> None:
        self._heard_ns = stamp = self._now()
        self._unparsed += 1
        if self._inbox is None:
            self.parse(data, stamp)
        else:
            self._inbox.put(self, data, stamp)

    def eof_received(self) -> bool:
        self._catch_up()
        self._ended(self._now(), None)
        return False  # the transport closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._catch_up()
        self._parser = None  # breaks the reference cycle with the parser
        self._ended(self._now(), exc)
        self._owner.lost(self)

    # Reading.

    def parse(self, data: bytes, stamp_ns: int) -> None:
        """Takes in one read that arrived at that time."""
        self._unparsed -= 1
        exchange = self._exchange
        if exchange is None or self._parser is None:
            if self.open:  # bytes that nobody asked for: this connection cannot be trusted any more
                self.abort()
            return
        self._stamp = stamp_ns
        if exchange.first_byte_ns is None:
            exchange.first_byte_ns = stamp_ns
        try:
            self._parser.feed_data(data)
            if self._complete:
                self._finish(exchange)
        except httptools.HttpParserCallbackError as error:
            self._crash(exchange, error.__context__ or error)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._unreadable(exchange, data, error)
        except Exception as error:  # of whoever is told that the answer has ended
            self._crash(exchange, error)

    def _finish(self, exchange: Exchange) -> None:
        """The answer has ended: first the connection is given back, because the next request may want it."""
        self._complete = False
        self._exchange = None
        self._over_ns = None
        self._served += 1
        self._idle_since_ns = self._stamp
        if not self._keep_alive:
            if self._transport is not None:
                self._transport.close()
        elif not self._surplus and self.open:
            self._owner.released(self)
        else:
            self.abort()
        exchange.on_complete(self._stamp)

    def _unreadable(self, exchange: Exchange, data: bytes, error: Exception) -> None:
        if self._complete:  # a whole answer, and garbage behind it
            self._surplus = True
            self._finish(exchange)
        elif self._exchange is not None:
            said = excerpt(data.decode("latin-1"), 120)
            self.abort("garbage", f"the answer is not HTTP ({error}): {said!r}")
        else:
            self.abort()

    def _crash(self, exchange: Exchange, error: BaseException) -> None:
        self._exchange = None
        self.abort()
        exchange.on_crash(error)

    # Events of the parser, inside feed_data.

    def on_message_begin(self) -> None:
        self._surplus = self._complete  # a second answer behind the first

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_done:  # a trailer
            return
        self._header_bytes += len(name) + len(value)
        if self._header_bytes <= _MAX_HEADER_BYTES:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        status = self._parser.get_status_code()
        if status < 200 or self._exchange is None:
            return
        self._head_done = True
        self._keep_alive = self._parser.should_keep_alive()
        self._exchange.on_head(status, self._headers)

    def on_body(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None or self._complete:
            return
        verdict = exchange.on_data(data, self._stamp)
        if verdict is _MORE:
            return
        if verdict is _ABORT:
            self._exchange = None
            self.abort()
            exchange.on_complete(self._stamp)
        else:
            self._over_ns = self._stamp

    def on_message_complete(self) -> None:
        if self._complete or self._exchange is None:
            return
        if self._head_done:
            self._complete = True
        else:  # an interim answer (1xx): the real one follows
            self._reset_head()

    # Inside.

    def _reset_head(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._header_bytes = 0
        self._head_done = False
        self._keep_alive = False
        self._surplus = False

    def _catch_up(self) -> None:
        if self._unparsed and self._inbox is not None:
            self._inbox.flush()

    def _framed(self) -> bool:
        """Whether the message says itself where it ends."""
        return self._keep_alive or any(name in (b"content-length", b"transfer-encoding") for name, _ in self._headers)

    def _ended(self, now: int, exc: Exception | None) -> None:
        """The connection has ended; so has an answer that nothing but the end of the connection delimits."""
        exchange = self._exchange
        if exchange is None:
            return
        self._exchange = None
        if exchange.first_byte_ns is None:
            if self._stale_possible and now - (exchange.sent_ns or now) <= _STALE_ANSWER_NS:
                self._owner.stale(exchange)
                return
            reason = reason_of(exc) or "the server closed the connection"
            exchange.on_failure("reset", f"{reason} before any answer", now)
        elif exc is not None:
            exchange.on_failure("reset", f"the connection broke in the middle of the answer: {reason_of(exc)}", now)
        elif self._head_done and not self._framed():
            exchange.on_complete(now)
        else:
            exchange.on_failure("truncated", "the connection closed before the end of the HTTP message", now)
