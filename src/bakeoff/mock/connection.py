"""One HTTP/1.1 connection on a raw asyncio protocol: requests in, bytes out. Knows nothing of language models."""

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

from .wire import Exchange, Request

LARGEST_BODY = 64 * 1024 * 1024
_LARGEST_HEAD = 64 * 1024
_LARGEST_BACKLOG = 64  # pipelined requests waiting on one connection
_LARGEST_UNSENT = 4 * 1024 * 1024  # more than this waiting to be sent: the client does not read
# Heads seen before, whole, and what they said: load generators send the same head with every request.
_KNOWN_HEADS = 1024
_LARGEST_KNOWN = 4096


class Service(Protocol):
    """What answers requests."""

    connections: set[Connection]
    heads: dict[bytes, KnownHead]
    closing: bool  # connections close after the answer that they carry

    def respond(self, request: Request, exchange: Exchange) -> None: ...


KnownHead = tuple[str, str, dict[str, str], bool, bool, int]  # method, path, headers, keep alive, chunks, body length


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
        self._whole: bytes | None = None  # the head of a message that began with this read
        self._midway = False  # within a message
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
        if not self._midway and self._known(data):
            self._serve()
            return
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

    def _known(self, data: bytes) -> bool:
        """Takes a read that is exactly one request with a head seen before; no parser is needed for it."""
        end = data.find(b"\r\n\r\n", 0, _LARGEST_KNOWN) + 4
        if end < 4:
            self._whole = None
            return False
        self._whole = data[:end]
        known = self._service.heads.get(self._whole)
        if known is None or len(data) != end + known[5]:
            return False
        method, path, headers, keep_alive, chunked, _ = known
        self._backlog.append(Request(method, path, headers, data[end:], self._read_ns, keep_alive, chunked))
        return True

    # --- httptools ---

    def _reset_message(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._head_size = self._body_size = 0

    def on_message_begin(self) -> None:
        # A second message in one read has another head.
        self._whole = None if self._midway or self._backlog else self._whole
        self._midway = True
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
        self._midway = False
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
        self._remember(request)
        self._whole = None

    def _remember(self, request: Request) -> None:
        """Keeps what a plain head said, if all of it came in one read."""
        length = request.headers.get("content-length", "0")
        if self._whole is None or not length.isdigit() or int(length) != len(request.body):
            return
        if {"transfer-encoding", "expect", "upgrade"} & request.headers.keys():
            return
        heads = self._service.heads
        if len(heads) >= _KNOWN_HEADS:
            heads.clear()
        heads[self._whole] = (
            request.method, request.path, request.headers, request.keep_alive, request.chunked, int(length),
        )  # fmt: skip

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
        if not (close or self._service.closing):
            self._serve()
        elif self._transport is not None:
            self._backlog.clear()
            self._transport.close()

    @property
    def clogged(self) -> bool:
        """Much waits to be sent, because the client does not read."""
        return self._transport is not None and self._transport.get_write_buffer_size() > _LARGEST_UNSENT

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
