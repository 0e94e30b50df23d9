"""Connections to one origin: opened before the clock starts, kept, replaced. No hidden limit on their number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..web.address import Origin
from ..web.proxy import Proxy
from .block import Timeouts
from .connection import Connection
from .dialing import ConnectFailed, Dialer
from .http import Exchange
from .inbox import Inbox

# Handshakes under way at once: a listener's backlog is often 128, and an overflow costs a whole second.
_HANDSHAKES = 32
# Time-outs are looked for that often: a share of the shortest one, within these bounds [s].
_LOOK_SHARE, _LOOK_MIN_S, _LOOK_MAX_S = 0.05, 0.005, 0.25


class Pool:
    """All connections of one block. Not shared between event loops.

    proxy: what the connections go through, if anything. inbox: where reads wait for their parsing; default, each is
    parsed at once.
    """

    def __init__(
        self,
        origin: Origin,
        limits: Timeouts,
        now: Callable[[], int],
        *,
        proxy: Proxy | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        self._limits = limits
        self._now = now
        self._inbox = inbox
        self._loop = asyncio.get_running_loop()
        self._dialer = Dialer(origin, limits.connect_s, proxy)
        self._idle: list[Connection] = []  # last used first: the warmest, and the others may time out
        self._open: set[Connection] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._warming = 0
        self._closed = False
        self._all_lost = asyncio.Event()
        self._look: asyncio.TimerHandle | None = None
        self._look_s = min(_LOOK_MAX_S, max(_LOOK_MIN_S, limits.shortest_s * _LOOK_SHARE))

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
        if self._look is None:
            self._watch()
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
            task = self._loop.create_task(self._warm())
            self._tasks.add(task)
            task.add_done_callback(self._warmed)

    async def close(self) -> None:
        """Closes everything at once and waits until the sockets are closed."""
        self._closed = True
        if self._look is not None:
            self._look.cancel()
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
        # counts from the scheduled time, on the fresh connection no second replacement is possible, and it is counted.
        exchange.resent += 1
        self._spawn(exchange)

    # Inside.

    def _watch(self) -> None:
        """Looks for exceeded limits from time to time: a timer for each request would cost more than the look."""
        if not self._closed:
            self._look = self._loop.call_later(self._look_s, self._expire)

    def _expire(self) -> None:
        now = self._now()
        for connection in tuple(self._open):
            connection.expire(now, self._limits)
        self._watch()

    def _spawn(self, exchange: Exchange) -> None:
        if self._closed:
            exchange.on_failure("cancelled", "the block was closed", self._now())
            return
        task = self._loop.create_task(self._dial(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial(self, exchange: Exchange) -> None:
        try:
            connection = await self._dialer.connect(self._new)
        except ConnectFailed as error:
            if not exchange.ended:
                exchange.on_failure("connect", str(error), self._now())
            return
        except Exception as error:  # a bug of ours must end the block, not vanish in a task
            exchange.on_crash(error)
            return
        if exchange.ended:  # given up meanwhile
            self.released(connection)
        else:
            connection.send(exchange)

    async def _warm(self) -> bool:
        try:
            self.released(await self._dialer.connect(self._new))
        except ConnectFailed:
            return False
        return True

    def _warmed(self, task: asyncio.Task[Any]) -> None:
        self._warming -= 1
        self._tasks.discard(task)

    def _new(self) -> Connection:
        return Connection(self, self._now, self._inbox)
