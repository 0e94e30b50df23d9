"""Connections to one origin: opened before the clock starts, kept, replaced. No hidden limit on their number."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from .address import Origin
from .http import Connection, Exchange

# Handshakes under way at once: a listener's backlog is often 128, and an overflow costs a whole second.
_HANDSHAKES = 32


class ConnectFailed(Exception):
    """No connection; the text says why."""


class Pool:
    """All connections of one block. Not shared between event loops.

    The name is resolved once, so that no look-up falls into a measured latency; all connections go to the address
    that answered first.
    """

    def __init__(
        self, origin: Origin, *, connect_timeout_s: float, request_timeout_s: float, now: Callable[[], int]
    ) -> None:
        self.origin = origin
        self._connect_timeout_s = connect_timeout_s
        self._request_timeout_s = request_timeout_s
        self._now = now
        self._tls = ssl.create_default_context() if origin.tls else None
        self._address: tuple[str, int] | None = None
        self._idle: list[Connection] = []  # last used first: the warmest, and the others may time out
        self._open: set[Connection] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._warming = 0
        self._closed = False
        self._all_lost = asyncio.Event()

    async def open(self, count: int) -> None:
        """Opens that many idle connections. Failures are left for the requests to meet (and record)."""
        gate = asyncio.Semaphore(_HANDSHAKES)

        async def one() -> bool:
            async with gate:
                return await self._warm()

        # The first one alone: it resolves the name, and tells whether there is anybody to talk to.
        if count > 0 and await one():
            await asyncio.gather(*(one() for _ in range(count - 1)))

    def dispatch(self, exchange: Exchange) -> None:
        """Sends a request now on an idle connection, or as soon as a new one is open."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                connection.send(exchange)
                return
            connection.abort()
        self._spawn(exchange)

    def ensure(self, idle: int) -> None:
        """Opens one more connection in the background if fewer than `idle` will be waiting for requests."""
        if not self._closed and len(self._idle) + self._warming < idle:
            self._warming += 1
            task = asyncio.get_running_loop().create_task(self._warm())
            self._tasks.add(task)
            task.add_done_callback(self._warmed)

    async def close(self) -> None:
        """Closes everything at once and waits until the sockets are closed."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        for connection in tuple(self._open):
            connection.abort()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._open:
            try:
                async with asyncio.timeout(5.0):
                    await self._all_lost.wait()
            except TimeoutError:  # a transport that does not report its end must not hang the run
                self._open.clear()

    # Owner of connections.

    def made(self, connection: Connection) -> None:
        self._open.add(connection)

    def released(self, connection: Connection) -> None:
        if self._closed:
            connection.abort()
        elif connection.open:
            self._idle.append(connection)

    def lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._closed and not self._open:
            self._all_lost.set()

    def stale(self, exchange: Exchange) -> None:
        # Not a hidden retry of a failed request: the server had closed the connection and never saw it. Latency still
        # counts from the scheduled time, and on the fresh connection no second replacement is possible.
        self._spawn(exchange)

    # Inside.

    def _spawn(self, exchange: Exchange) -> None:
        if self._closed:
            exchange.on_failure("cancelled", "the block was closed", self._now())
            return
        task = asyncio.get_running_loop().create_task(self._dial(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial(self, exchange: Exchange) -> None:
        try:
            connection = await self._connect()
        except ConnectFailed as error:
            if not exchange.ended:
                exchange.on_failure("connect", str(error), self._now())
            return
        if exchange.ended:  # given up meanwhile
            self.released(connection)
        else:
            connection.send(exchange)

    async def _warm(self) -> bool:
        try:
            self.released(await self._connect())
        except ConnectFailed:
            return False
        return True

    def _warmed(self, task: asyncio.Task[Any]) -> None:
        self._warming -= 1
        self._tasks.discard(task)

    async def _connect(self) -> Connection:
        """A new connection. Raises ConnectFailed."""
        loop = asyncio.get_running_loop()
        problem: BaseException | None = None
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                addresses = [self._address] if self._address else await self._resolve()
                for address in addresses:
                    try:
                        _, connection = await loop.create_connection(
                            lambda: Connection(self, self._now, self._request_timeout_s),
                            *address,
                            ssl=self._tls,
                            server_hostname=self.origin.host if self._tls else None,
                        )
                    except (OSError, ssl.SSLError) as error:
                        problem = error
                        continue
                    self._address = address
                    return connection
        except TimeoutError:
            problem = TimeoutError(f"no connection within {self._connect_timeout_s:g} s")
        except socket.gaierror as error:
            raise ConnectFailed(f"cannot resolve the host name {self.origin.host!r}: {error.strerror}") from None
        raise ConnectFailed(f"cannot connect to {self.origin}: {_why(problem)}") from None

    async def _resolve(self) -> list[tuple[str, int]]:
        found = await asyncio.get_running_loop().getaddrinfo(
            self.origin.host, self.origin.port, type=socket.SOCK_STREAM
        )
        return list(dict.fromkeys((str(info[4][0]), int(info[4][1])) for info in found))


def _why(problem: BaseException | None) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({problem.verify_message})"
    if isinstance(problem, ssl.SSLError):
        return f"no TLS ({problem.reason or problem})"
    if isinstance(problem, ConnectionRefusedError):
        return "connection refused (is the server running, and on this port?)"
    return str(getattr(problem, "strerror", None) or problem or "no address")
