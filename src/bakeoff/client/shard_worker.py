"""A worker process of the load client: ``python -m bakeoff.client.shard_worker SOCKET CLAIMS BODIES`` (descriptors).

Started by `Shards`, never by hand. It lives as long as the other end of its socket: when the parent is gone, by
whatever death, it exits at once, and with it all connections.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from contextlib import suppress

from ..errors import BakeoffError
from ..model import Endpoint, RequestRecord
from .block_run import BlockRun
from .clock import SYSTEM_CLOCK
from .descriptors import allow_connections, prefer_connections
from .loop import loop_runner
from .shard_messages import (
    Abandon,
    Build,
    Built,
    Closed,
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
from .shard_work import SharedWork
from .share import Instants, Slots
from .target import Target

# Records travel together: a message for each would cost more than the record.
_BATCH_S = 0.02
_LOST_PAUSE_S = 0.1


class Worker(asyncio.Protocol):
    """One end of the socket pair, and the job in hand."""

    def __init__(self, claims_fd: int, bodies_fd: int) -> None:
        self._claims_fd, self._bodies_fd = claims_fd, bodies_fd
        self._loop = asyncio.get_running_loop()
        self._stream = Stream(ToWorker)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._run: BlockRun | None = None
        self._work: SharedWork | None = None
        self._go: asyncio.Future[int] | None = None
        self._end: ToParent = Closed()  # what is said when the job is over
        self._batch: list[RequestRecord] = []
        self._lost_told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream transport
        self._say(Ready())

    def connection_lost(self, exc: Exception | None) -> None:
        os._exit(0)  # nobody is left to report to; the kernel closes all sockets

    def data_received(self, data: bytes) -> None:
        for message in self._stream.feed(data):
            self._take(message)

    def _take(self, message: ToWorker) -> None:
        if isinstance(message, Job):
            self._end = Closed()
            self._task = self._loop.create_task(self._play(message))
            # Not the task itself: one that is cancelled before its first step runs nothing.
            self._task.add_done_callback(lambda _task: self._say(self._end))
        elif isinstance(message, Go):
            if self._go is not None and not self._go.done():
                self._go.set_result(message.started_ns)
        elif isinstance(message, Built):
            if self._work is not None:
                self._work.built(message.position, message.body)
        elif isinstance(message, Abandon):
            if self._run is not None:
                self._run.abandon(message.kind, message.message)
        elif self._task is not None:  # Cancel
            self._task.cancel()

    async def _play(self, job: Job) -> None:
        self._go = self._loop.create_future()
        self._batch = []
        gc.collect()
        gc.disable()  # a collection in the block would be a pause of the client, seen as latency
        try:
            run = self._run = self._block(job)
            await run.open()
            self._say(Ready())
            block = await run.play(await self._go)
            self._send_batch()
            self._end = Done(
                ended_ns=block.ended_ns,
                loop_lag_ns=block.loop_lag_ns,
                backlog_ns=block.backlog_ns,
                cpu_s=block.cpu_s,
            )
        except asyncio.CancelledError:
            pass  # the parent knows
        except BakeoffError as error:
            self._end = Crashed(error.message)
        except Exception as error:  # told to the parent, who raises it
            self._end = Crashed(f"{type(error).__name__}: {error}")
        finally:
            gc.enable()
            if self._run is not None:
                self._run.on_record = None  # what ends by the closing belongs to no block any more
                with suppress(asyncio.CancelledError):
                    await self._run.close()
            self._run = self._work = None
            self._batch = []

    def _block(self, job: Job) -> BlockRun:
        endpoint = Endpoint(base_url=job.base_url, model="", headers=job.headers, secrets=job.secrets)
        target = Target(endpoint, (str(fields["path"]) for fields in job.requests))
        work = SharedWork(
            job,
            target.heads,
            self._claims_fd,
            self._bodies_fd,
            lambda position, answers: self._say(Build(position, list(answers))),
        )
        share: Slots | Instants
        if job.slots is not None:
            concurrency, ramp_ns, first, step = job.slots
            share = Slots(concurrency, ramp_ns, first=first, step=step)
            allow_connections(len(share.starts_ns))
        else:
            prefer_connections(len(job.instants))
            share = Instants((offset, work.chains[chain]) for offset, chain in job.instants)
        self._work = work
        run = BlockRun(target, work, share, job.timeouts, job.deadline_ns, SYSTEM_CLOCK)
        run.on_record = self._collect
        run.on_lost = self._tell_lost
        return run

    def _collect(self, record: RequestRecord) -> None:
        if not self._batch:
            self._loop.call_later(_BATCH_S, self._send_batch)
        self._batch.append(record)

    def _send_batch(self) -> None:
        if self._batch:
            batch, self._batch = self._batch, []
            self._say(Records(batch))

    def _tell_lost(self) -> None:
        if not self._lost_told:
            self._lost_told = True
            self._loop.call_later(_LOST_PAUSE_S, self._forget_lost)
            self._say(Lost())

    def _forget_lost(self) -> None:
        self._lost_told = False

    def _say(self, message: ToParent) -> None:
        if self._transport is not None:
            self._transport.write(encode(message))


async def _serve(sock: socket.socket, claims_fd: int, bodies_fd: int) -> None:
    await asyncio.get_running_loop().create_unix_connection(lambda: Worker(claims_fd, bodies_fd), sock=sock)
    await asyncio.Event().wait()  # until the parent is gone


def main() -> None:
    """Serves jobs until the parent's end of the socket is closed."""
    # Ctrl-C is the parent's to handle: it closes the block in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock_fd, claims_fd, bodies_fd = (int(word) for word in sys.argv[1:4])
    gc.freeze()
    with loop_runner() as runner:
        runner.run(_serve(socket.socket(fileno=sock_fd), claims_fd, bodies_fd))


if __name__ == "__main__":
    main()
