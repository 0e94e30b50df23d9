"""HTTP/1.1 on a raw asyncio protocol: requests in, framed responses out. Knows nothing of language models."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from http import HTTPStatus
from time import monotonic_ns
from typing import Protocol, cast

import httptools
import msgspec

LARGEST_BODY = 64 * 1024 * 1024
_LARGEST_HEAD = 64 * 1024
_LARGEST_BACKLOG = 64  # pipelined requests waiting on one connection
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


class Service(Protocol):
    """What answers requests."""

    connections: set[Connection]

    def respond(self, request: Request, exchange: Exchange) -> None: ...


class Exchange:
    """One request's response on its connection."""

    __slots__ = ("_chunked", "_connection", "_delimited", "_ended", "on_lost", "request", "status")

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection = connection
        self.request = request
        self.status = 0
        self._chunked = self._delimited = self._ended = False
        self.on_lost: Answering | None = None  # told when the client leaves before the end

    def head(
        self, status: int, content_type: str, *, length: int | None, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Sends the status line and headers; `length` None streams the body."""
        self._chunked = length is None and self.request.chunked
        framing = f"Content-Length: {length}\r\n" if length is not None else ""
        framing = "Transfer-Encoding: chunked\r\n" if self._chunked else framing
        # Without a length and without chunks, the end of the connection ends the body.
        self._delimited = length is not None or self._chunked
        close = "" if self.request.keep_alive and self._delimited else "Connection: close\r\n"
        extra = "".join(f"{name}: {value}\r\n" for name, value in headers)
        self.status = status
        self._connection.send(
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {content_type}\r\n"
            f"{framing}{close}{extra}\r\n".encode("latin-1")
        )

    def write(self, data: bytes) -> None:
        """Sends a part of the body."""
        self._connection.send(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def end(self, last: bytes = b"") -> None:
        """Sends the last part and ends the response; the connection takes the next request."""
        if self._ended:
            return
        self._ended = True
        framed = b"%x\r\n%b\r\n" % (len(last), last) if self._chunked and last else last
        if self._chunked:
            framed += _LAST_CHUNK
        if framed:
            self._connection.send(framed)
        self._connection.next(close=not (self.request.keep_alive and self._delimited))

    def whole(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Sends a complete response."""
        self.head(status, content_type, length=len(body), headers=headers)
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


class Connection(asyncio.Protocol):
    """One client connection. Responses go out in the order of the requests."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self._parser = httptools.HttpRequestParser(self)
        self._backlog: deque[Request] = deque()
        self.exchange: Exchange | None = None
        self._read_ns = 0
        self._serving = False
        self._reset_message()

    # --- asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are of no common class
        self._fd = transport.get_extra_info("socket").fileno()
        self._service.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fd, self._transport = -1, None
        self._backlog.clear()
        self._service.connections.discard(self)
        if self.exchange is not None:
            exchange, self.exchange = self.exchange, None
            exchange.lost()

    def data_received(self, data: bytes) -> None:
        self._read_ns = monotonic_ns()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._reject(400, "not an HTTP request that this server understands")
            return
        # Served out here: an exception inside of a parser's callback would pass for a parse error.
        if len(self._backlog) > _LARGEST_BACKLOG:
            self.cut(reset=True)
        else:
            self._serve()

    # --- httptools ---

    def _reset_message(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._head_size = self._body_size = 0

    def on_message_begin(self) -> None:
        self._reset_message()

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head_grows(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        self._head_grows(len(name) + len(value))

    def on_headers_complete(self) -> None:
        if self._headers.get("expect", "").lower() == "100-continue" and self.exchange is None:
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > LARGEST_BODY:
            self._reject(413, "the body is too large")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        request = Request(
            method=self._parser.get_method().decode("latin-1"),
            path=self._url.partition(b"?")[0].decode("latin-1"),
            headers=self._headers,
            body=b"".join(self._body),
            recv_ns=self._read_ns,
            keep_alive=bool(self._parser.should_keep_alive()),
            chunked=self._parser.get_http_version() == "1.1",
        )
        self._backlog.append(request)

    # --- output ---

    def _serve(self) -> None:
        """Answers what waits; a loop and no recursion, because many answers are complete at once."""
        if self._serving:
            return
        self._serving = True
        try:
            while self.exchange is None and self._backlog:
                request = self._backlog.popleft()
                self.exchange = Exchange(self, request)
                self._service.respond(request, self.exchange)
        finally:
            self._serving = False

    def next(self, *, close: bool) -> None:
        """The response is complete: take the next pipelined request, or close."""
        self.exchange = None
        if not close:
            self._serve()
        elif self._transport is not None:
            self._backlog.clear()
            self._transport.close()

    def send(self, data: bytes) -> None:
        """Hands bytes to the kernel at once.

        uvloop's `transport.write` waits for the end of the loop's turn, which would put up to some hundred µs
        between a stamp and its packet; so the socket is written directly while the transport holds nothing back.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if not transport.get_write_buffer_size():
            try:
                sent = os.write(self._fd, data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:  # the client has left
                transport.abort()
                return
            if sent == len(data):
                return
            data = data[sent:]
        transport.write(data)

    def cut(self, *, reset: bool) -> None:
        """Closes the connection; `reset` sends RST instead of FIN."""
        self.exchange = None
        self._backlog.clear()
        if self._transport is None:
            return
        if not reset:
            self._transport.close()
            return
        # Linger of 0 s makes close() send RST. Through a duplicate, because uvloop shows no real socket.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._fd)) as twin:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def idle_close(self) -> None:
        """Closes the connection if it answers nothing at the moment."""
        if self.exchange is None and self._transport is not None:
            self._transport.close()

    def _head_grows(self, size: int) -> None:
        self._head_size += size
        if self._head_size > _LARGEST_HEAD:
            self._reject(431, "the head is too large")

    def _reject(self, status: int, text: str) -> None:
        if self.exchange is None:
            body = b'{"error":{"message":"%b","type":"invalid_request_error"}}' % text.encode()
            self.send(
                b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
                % (status, HTTPStatus(status).phrase.encode(), len(body), body)
            )
        if self._transport is not None:
            self._transport.close()
