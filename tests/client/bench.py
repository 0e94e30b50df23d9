"""A connection without a network: bytes are handed to the protocol read by read."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from bakeoff.client.connection import Connection
from bakeoff.client.exchange import StreamExchange
from bakeoff.client.failures import Mask
from bakeoff.client.http import Exchange
from bakeoff.model import Endpoint, RequestRecord

from .server import (
    END,
    SSE_HEAD,
    chunk,
    requests,
    run,
)


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.gone = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.gone

    def close(self) -> None:
        self.gone = True

    abort = close


class Owner:
    def __init__(self) -> None:
        self.kept = 0
        self.again: list[Exchange] = []

    def made(self, connection: Connection) -> None: ...

    def released(self, connection: Connection) -> None:
        self.kept += 1

    def lost(self, connection: Connection) -> None: ...

    def stale(self, exchange: Exchange) -> None:
        self.again.append(exchange)


class Bench:
    """One connection whose clock counts reads: the stamp of read n is 1000·n."""

    def __init__(self) -> None:
        self.now = 0
        self.owner = Owner()
        self.transport = Transport()
        self.connection = Connection(self.owner, lambda: self.now)
        self.connection.connection_made(self.transport)
        self.ends = 0
        self.crashes: list[BaseException] = []

    def send(self) -> StreamExchange:
        exchange = StreamExchange(
            requests(1)[0],
            b"POST",
            0,
            mask=Mask(Endpoint(base_url="http://x/v1", model="m")),
            on_end=self._ended,
            on_crash=self.crashes.append,
        )
        self.connection.send(exchange)
        return exchange

    def _ended(self, _exchange: StreamExchange) -> None:
        self.ends += 1

    def read(self, *parts: bytes) -> None:
        for part in parts:
            self.now += 1000
            if not self.transport.gone:
                self.connection.data_received(part)

    def finish(self, error: Exception | None = None) -> None:
        self.now += 1000
        if error is None:
            self.connection.eof_received()
        self.connection.connection_lost(error)


def record(*parts: bytes, eof: bool = True, error: Exception | None = None) -> RequestRecord:
    """The record of an answer that arrived in these reads."""

    async def main() -> RequestRecord:
        bench = Bench()
        exchange = bench.send()
        bench.read(*parts)
        if eof:
            bench.finish(error)
        assert bench.ends == 1
        assert not bench.crashes
        return exchange.record()

    return run(main())


def stream(*events: bytes) -> bytes:
    return SSE_HEAD + b"".join(chunk(e) for e in events) + END


def timeless(r: RequestRecord) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(r)
    for name in tuple(fields):
        if name.endswith("_ns") or name == "chunk_coalesced":
            del fields[name]
    return fields
