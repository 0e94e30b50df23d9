"""The parent's side of a sharded block: hands out the shares, starts them together, gathers what comes back."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import BakeoffError
from ..model import RequestRecord
from .block import ClientBlock
from .request import PreparedRequest
from .shard_messages import (
    Abandon,
    Build,
    Built,
    Cancel,
    Crashed,
    Done,
    Go,
    Job,
    Lost,
    Ready,
    Records,
    Stream,
    ToParent,
    ToWorker,
    encode,
)
from .watching import watch_server

_LEAD_NS = 10_000_000  # from the word to begin to the start: it must reach all workers before
_CLOSE_S = 10.0
_READ_BYTES = 1 << 18


class Link:
    """One worker process and the socket to it."""

    def __init__(self, sock: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self.sock = sock
        self.process = process
        self._stream = Stream(ToParent)
        self._lock = asyncio.Lock()

    async def started(self) -> None:
        """Waits for the first word. ConnectionError if the worker ends instead."""
        loop = asyncio.get_running_loop()
        while True:
            data = await loop.sock_recv(self.sock, _READ_BYTES)
            if not data:
                raise ConnectionError
            if any(True for _ in self._stream.feed(data)):
                return

    async def say(self, message: ToWorker) -> None:
        """Sends a message, behind those before it."""
        async with self._lock:
            await asyncio.get_running_loop().sock_sendall(self.sock, encode(message))

    def read(self) -> list[Any] | None:
        """The messages that have arrived; None: the worker has gone."""
        try:
            data = self.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except ConnectionError:
            return None
        return list(self._stream.feed(data)) if data else None


class ShardedBlock:
    """The state of one block over several workers; good for one use."""

    def __init__(
        self,
        links: Sequence[Link],
        requests: Sequence[PreparedRequest],
        on_record: Callable[[RequestRecord], None] | None,
        check: Callable[[], None] | None,
    ) -> None:
        self._links = links
        self._requests = requests
        self._prompts = {request.index: request.prompt for request in requests}
        self._on_record = on_record
        self._check = check
        self._loop = asyncio.get_running_loop()
        self._ready: set[int] = set()
        self._all_ready = asyncio.Event()
        self._done: dict[int, Done] = {}
        self._through: set[int] = set()  # workers that have nothing of this block any more
        self._all_through = asyncio.Event()
        self._trouble: asyncio.Future[None] = self._loop.create_future()
        self._connection_lost = asyncio.Event()
        self._errands: set[asyncio.Task[None]] = set()
        self._records: list[RequestRecord] = []
        self._started_ns = 0
        self.broken = False  # a worker is lost: none of them may be used again

    async def execute(self, jobs: Sequence[Job]) -> ClientBlock:
        """Sends the block and waits for all shares; exceptions and cancellation as those of `run_requests`."""
        for number, link in enumerate(self._links):
            self._loop.add_reader(link.sock, self._readable, number)
        watch: asyncio.Future[None] | None = None
        try:
            for link, job in zip(self._links, jobs, strict=True):
                await link.say(job)
            await self._first(self._all_ready.wait())
            self._started_ns = time.monotonic_ns() + _LEAD_NS
            for link in self._links:
                await link.say(Go(self._started_ns))
            if self._check is not None:
                watch = asyncio.ensure_future(watch_server(self._check, self._connection_lost))
            failure = await self._first(self._all_through.wait(), watch)
            if failure is not None:
                await self._abandon(failure)
            self._raise_trouble()
            return self._block()
        finally:
            await self._tidy(watch)

    async def _first(self, awaited: Any, watch: asyncio.Future[None] | None = None) -> BaseException | None:
        """Waits for that; returns what `check` raised before, and raises trouble."""
        task = asyncio.ensure_future(awaited)
        waiting = {task, self._trouble} if watch is None else {task, self._trouble, watch}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
        if watch is not None and watch.done():
            return watch.exception()
        self._raise_trouble()
        return None

    def _raise_trouble(self) -> None:
        if self._trouble.done():
            error = self._trouble.exception()
            if error is not None:
                error.partial = self._block()  # type: ignore[attr-defined]  # read by who keeps what was measured
                raise error

    async def _abandon(self, failure: BaseException) -> None:
        """The server is gone: each worker ends what it has in flight, and reports."""
        message = str(getattr(failure, "message", failure))
        for link in self._links:
            await link.say(Abandon("server_died", message))
        async with asyncio.timeout(_CLOSE_S):
            await self._first(self._all_through.wait())
        failure.partial = self._block()  # type: ignore[attr-defined]  # read by who keeps what was measured
        raise failure

    async def _tidy(self, watch: asyncio.Future[None] | None) -> None:
        """Leaves workers without a job and no errand behind, whatever happened."""
        tasks = [*self._errands] if watch is None else [*self._errands, watch]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            if len(self._through) < len(self._links):
                for number, link in enumerate(self._links):
                    if number not in self._through:
                        await link.say(Cancel())
                async with asyncio.timeout(_CLOSE_S):
                    await self._all_through.wait()
        except (OSError, TimeoutError):
            self.broken = True
        except asyncio.CancelledError:
            self.broken = True
            raise
        finally:
            for link in self._links:
                self._loop.remove_reader(link.sock)
            if self._trouble.done():
                self._trouble.exception()
            self._trouble.cancel()

    # What workers say.

    def _readable(self, number: int) -> None:
        messages = self._links[number].read()
        if messages is None:
            self._loop.remove_reader(self._links[number].sock)
            self.broken = True
            self._is_through(number)
            self._fail(
                BakeoffError(
                    "a worker process of the load client ended in the middle of a block",
                    remedy="see whether the machine ran out of memory, or set BAKEOFF_CLIENT_PROCESSES=1",
                )
            )
            return
        try:
            for message in messages:
                self._take(number, message)
        except Exception as error:  # whoever listens failed: the block must not go on unseen
            self._fail(error)

    def _take(self, number: int, message: ToParent) -> None:
        if isinstance(message, Records):
            for record in message.records:
                if record.prompt is None:
                    record.prompt = self._prompts.get(record.index)
                self._records.append(record)
                if self._on_record is not None:
                    self._on_record(record)
        elif isinstance(message, Ready):
            self._ready.add(number)
            if len(self._ready) == len(self._links):
                self._all_ready.set()
        elif isinstance(message, Lost):
            self._connection_lost.set()
        elif isinstance(message, Build):
            self._build(number, message)
        elif isinstance(message, Done):
            self._done[number] = message
            self._is_through(number)
        else:  # Closed, or worse
            if isinstance(message, Crashed):
                self._fail(BakeoffError(message.message, where="load client"))
            self._is_through(number)

    def _build(self, number: int, asked: Build) -> None:
        request = self._requests[asked.position]
        assert request.build is not None  # noqa: S101 - only such positions are asked for
        body, self._prompts[request.index] = request.build(asked.answers)
        errand = self._loop.create_task(self._links[number].say(Built(asked.position, body)))
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    def _is_through(self, number: int) -> None:
        self._through.add(number)
        if len(self._through) == len(self._links):
            self._all_through.set()

    def _fail(self, error: BaseException) -> None:
        if not self._trouble.done():
            self._trouble.set_exception(error)

    def _block(self) -> ClientBlock:
        parts = self._done.values()
        if len({record.index for record in self._records}) != len(self._records):
            raise RuntimeError("a request was sent twice")  # the system does not keep what POSIX says of shared offsets
        return ClientBlock(
            records=sorted(self._records, key=lambda record: record.index),
            started_ns=self._started_ns,
            ended_ns=max((part.ended_ns for part in parts), default=time.monotonic_ns()),
            loop_lag_ns=[lag for part in parts for lag in part.loop_lag_ns],
            backlog_ns=[late for part in parts for late in part.backlog_ns],
            cpu_s=sum(part.cpu_s for part in parts),
            processes=len(self._links),
        )
