"""One answer without a network: bytes as they are on the wire, cut into reads → the record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import httptools
import msgspec

from bakeoff.client.exchange import StreamExchange
from bakeoff.client.failures import Mask
from bakeoff.client.http import Verdict
from bakeoff.client.request import PreparedRequest
from bakeoff.model import Api, Endpoint, RequestRecord

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
DONE = b"data: [DONE]\n\n"
SENT_NS, READ_NS = 500, 1000  # the stamp of read n (from 1) is 1000·n


class _Reader:
    """The HTTP framing of one answer."""

    def __init__(self, exchange: StreamExchange) -> None:
        self._exchange = exchange
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._stamp = 0
        self.over = False

    def read(self, data: bytes, stamp: int) -> None:
        self._stamp = stamp
        if self._exchange.first_byte_ns is None:
            self._exchange.first_byte_ns = stamp
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._exchange.on_head(self._parser.get_status_code(), self._headers)

    def on_body(self, data: bytes) -> None:
        if not self.over and self._exchange.on_data(data, self._stamp) is Verdict.ABORT:
            self._finish()

    def on_message_complete(self) -> None:
        if not self.over:
            self._finish()

    def end(self, stamp: int) -> None:
        """The connection has been closed in an orderly way."""
        if self.over:
            return
        if any(name in (b"content-length", b"transfer-encoding") for name, _ in self._headers):
            self._exchange.on_failure("truncated", "the connection closed before the end of the HTTP message", stamp)
        else:
            self._exchange.on_complete(stamp)

    def _finish(self) -> None:
        self.over = True
        self._exchange.on_complete(self._stamp)


def received(
    *reads: bytes, api: Api = "completions", asked: int | None = None, secrets: Sequence[str] = (), **request: Any
) -> RequestRecord:
    """The record of an answer that arrived in these reads, the connection closed behind them."""
    prepared = PreparedRequest(
        index=3, prompt_id=7, path="/x", body=b"{}", api=api, prompt="p", asked_output_tokens=asked, **request
    )
    ended: list[StreamExchange] = []
    exchange = StreamExchange(
        prepared,
        b"",
        0,
        mask=Mask(Endpoint(base_url="http://x/v1", model="m", secrets=tuple(secrets))),
        on_end=ended.append,
        on_crash=_crash,
    )
    exchange.sent_ns = SENT_NS
    reader = _Reader(exchange)
    stamp = 0
    for number, data in enumerate(reads, 1):
        stamp = number * READ_NS
        if not reader.over:
            reader.read(data, stamp)
    reader.end(stamp + READ_NS)
    assert ended == [exchange]
    return exchange.record()


def _crash(error: BaseException) -> None:
    raise error


def stream(*events: bytes) -> bytes:
    """A whole answer of events, ended by the close of the connection."""
    return HEAD + b"".join(events)


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The data cut at those places (taken modulo its length)."""
    edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(edges)]


def timeless(record: RequestRecord) -> dict[str, Any]:
    """All of a record that does not depend on how the network cut the bytes."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    return {name: v for name, v in fields.items() if not name.endswith("_ns") and name != "chunk_coalesced"}


# The events of /completions and /chat/completions.


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def text(piece: str | None, finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    return event({"choices": [{"index": index, "text": piece, "finish_reason": finish}], **more})


def chat(finish: str | None = None, **delta: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def total(prompt: int, completion: int) -> bytes:
    return event({"choices": [], "usage": usage(prompt, completion)})
