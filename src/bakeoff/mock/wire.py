"""HTTP/1.1 messages: a request as it came in, and the frames of its response. Knows nothing of language models."""

from __future__ import annotations

from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time
from typing import Protocol

import msgspec

_LAST_CHUNK = b"0\r\n\r\n"


class Request(msgspec.Struct, frozen=True):
    """One complete request. `recv_ns`: the read that completed it."""

    method: str
    path: str
    headers: dict[str, str]  # lower-case names
    body: bytes
    recv_ns: int
    keep_alive: bool
    chunked: bool  # the client can read a chunked answer (HTTP/1.1)


class Answering(Protocol):
    """Who wants to know that a client has left."""

    def lost(self) -> None: ...


class Channel(Protocol):
    """The connection under a response."""

    @property
    def clogged(self) -> bool:
        """Much waits to be sent, because the client does not read."""

    def send(self, data: bytes) -> None:
        """Hands bytes to the kernel."""

    def next(self, *, close: bool) -> None:
        """The response is complete."""

    def cut(self, *, reset: bool) -> None:
        """Ends the connection in mid-response."""


class Effect(Protocol):
    """What a fault does to a head."""

    @property
    def date_ahead_s(self) -> float | None: ...


class Exchange:
    """One request's response on its connection. A head waits for the first bytes of the body, or for `flush`."""

    __slots__ = ("_chunked", "_connection", "_delimited", "_ended", "_head", "closes", "on_lost", "request", "status")

    def __init__(self, connection: Channel, request: Request) -> None:
        self._connection = connection
        self.request = request
        self.status = 0
        self._head = b""
        self._chunked = self._delimited = self._ended = False
        self.closes = False  # the connection is closed after this response, whatever was said
        self.on_lost: Answering | None = None  # told when the client leaves before the end

    def head(
        self,
        status: int,
        content_type: str,
        *,
        length: int | None,
        headers: tuple[tuple[str, str], ...] = (),
        effect: Effect | None = None,
    ) -> None:
        """The status line and headers; `length` None streams the body."""
        if effect is not None and effect.date_ahead_s is not None:
            headers = (*headers, ("Date", formatdate(time() + effect.date_ahead_s, usegmt=True)))
        request = self.request
        self.status = status
        self._head, self._chunked, self._delimited = _head(
            status, content_type, length, headers, (request.keep_alive, request.chunked)
        )

    def framed(self, parts: list[bytes]) -> bytes:
        """Parts of the body, each a chunk where the body is chunked, and the head where it has not gone out."""
        if self._chunked:
            parts = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
        if self._head:
            parts.insert(0, self._head)
            self._head = b""
        return b"".join(parts)

    def send(self, data: bytes) -> None:
        """Hands bytes to the kernel as they are."""
        self._connection.send(data)

    def write(self, data: bytes) -> None:
        """Sends a part of the body."""
        self._connection.send(self.framed([data]))

    def flush(self) -> None:
        """Sends the head, if it has not gone out."""
        if self._head:
            self._connection.send(self.framed([]))

    @property
    def clogged(self) -> bool:
        """The client does not read: much waits to be sent."""
        return self._connection.clogged

    def end(self, last: bytes = b"") -> None:
        """Sends the last part and ends the response."""
        if not self._ended:
            self._connection.send(self.final([last] if last else []))
            self.done()

    def final(self, parts: list[bytes]) -> bytes:
        """The last parts of the body, and what ends it. After sending them: `done`."""
        self._ended = True
        data = self.framed(parts)
        return data + _LAST_CHUNK if self._chunked else data

    def done(self) -> None:
        """All has been sent: the connection takes the next request."""
        self._connection.next(close=self.closes or not (self.request.keep_alive and self._delimited))

    def whole(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        headers: tuple[tuple[str, str], ...] = (),
        *,
        effect: Effect | None = None,
    ) -> None:
        """Sends a complete response."""
        self.head(status, content_type, length=len(body), headers=headers, effect=effect)
        self.end(body)

    def cut(self, *, reset: bool) -> None:
        """Ends the connection in mid-response; with a TCP reset, or orderly."""
        self._ended = True
        self._connection.cut(reset=reset)

    def lost(self) -> None:
        """The connection is gone."""
        if not self._ended and self.on_lost is not None:
            self._ended = True
            self.on_lost.lost()


@lru_cache(maxsize=64)
def _head(
    status: int,
    content_type: str,
    length: int | None,
    headers: tuple[tuple[str, str], ...],
    can: tuple[bool, bool],
) -> tuple[bytes, bool, bool]:
    """(head, whether the body is chunked, whether its end is known without the connection's); `can`: what the client
    can (keep the connection, read chunks)."""
    keep_alive, chunks = can
    chunked = length is None and chunks
    framing = f"Content-Length: {length}\r\n" if length is not None else ""
    framing = "Transfer-Encoding: chunked\r\n" if chunked else framing
    # Without a length and without chunks, the end of the connection ends the body.
    delimited = length is not None or chunked
    close = "" if keep_alive and delimited else "Connection: close\r\n"
    extra = "".join([f"{name}: {value}\r\n" for name, value in headers])
    first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {content_type}\r\n"
    text = f"{first}{framing}{close}{extra}\r\n"
    return text.encode("latin-1"), chunked, delimited
