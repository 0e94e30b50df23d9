"""A block sent by several processes: one schedule or one queue, one clock, and their records put together again.

Needed where one event loop would be late. The workers are started once and kept for the blocks that follow.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence

from ..errors import BakeoffError
from ..model import Endpoint, RequestRecord
from .block import ClientBlock, ClosedLoop, OpenLoop, Timeouts
from .request import PreparedRequest
from .shard_block import Link, ShardedBlock
from .shard_messages import Job
from .shard_work import fields_of, shared_bodies, write_claims, write_whole
from .work import chains

_START_S = 60.0
_STOP_S = 5.0


class Shards:
    """Worker processes for blocks; `close` ends them, and so does the end of this process or of this object."""

    def __init__(self) -> None:
        self._links: list[Link] = []
        self._claims_fd = _unnamed_file()
        self._bodies_fd = _memory_file()
        self._end = weakref.finalize(self, _end, self._links, [self._claims_fd, self._bodies_fd])

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that are up."""
        return [link.process.pid for link in self._links]

    def close(self) -> None:
        """Ends all workers and waits for them. Idempotent."""
        self._end()

    async def ready(self, processes: int) -> None:
        """Starts workers until there are so many. Raises BakeoffError if one does not come up."""
        if not self._end.alive:
            raise RuntimeError("these workers were closed")
        fresh = [self._spawn() for _ in range(processes - len(self._links))]
        self._links += fresh
        try:
            async with asyncio.timeout(_START_S):
                for link in fresh:
                    await link.started()
        except (TimeoutError, ConnectionError):
            self._drop()
            raise BakeoffError(
                "a worker process of the load client did not start",
                remedy="see its message above, or set BAKEOFF_CLIENT_PROCESSES=1",
            ) from None
        except BaseException:
            self._drop()
            raise

    async def run(
        self,
        endpoint: Endpoint,
        requests: Sequence[PreparedRequest],
        load: ClosedLoop | OpenLoop,
        processes: int,
        limits: Timeouts,
        *,
        deadline_ns: int | None = None,
        on_record: Callable[[RequestRecord], None] | None = None,
        check: Callable[[], None] | None = None,
    ) -> ClientBlock:
        """A block by so many workers; the rest as `run_requests`. Raises BakeoffError when a worker dies."""
        await self.ready(processes)
        cpu_s = time.process_time()
        bodies, places = shared_bodies(requests)
        write_whole(self._bodies_fd, bodies)
        found = chains(requests)
        write_claims(self._claims_fd, len(found))
        shared = Job(
            base_url=endpoint.base_url,
            headers=dict(endpoint.headers),
            secrets=endpoint.secrets,
            requests=[fields_of(request) for request in requests],
            bodies=places,
            built=frozenset(p for p, request in enumerate(requests) if request.build is not None),
            slots=None,
            instants=[],
            timeouts=limits,
            deadline_ns=deadline_ns,
        )
        block = ShardedBlock(self._links[:processes], requests, on_record, check)
        try:
            done = await block.execute(_deal(shared, load, len(found), processes))
        except BaseException:
            if block.broken:
                self._drop()
            raise
        done.workers_cpu_s = done.cpu_s
        done.cpu_s += time.process_time() - cpu_s
        return done

    def _spawn(self) -> Link:
        ours, theirs = socket.socketpair()
        fds = (theirs.fileno(), self._claims_fd, self._bodies_fd)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "bakeoff.client.shard_worker", *(str(fd) for fd in fds)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C in a terminal reaches this process, not its workers
                env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        return Link(ours, process)

    def _drop(self) -> None:
        """Ends all workers after one was lost; the next block starts new ones."""
        _end(self._links, [])


def _deal(shared: Job, load: ClosedLoop | OpenLoop, count: int, processes: int) -> list[Job]:
    """Each worker's share: every n-th slot, or every n-th instant."""
    from msgspec.structs import replace

    if isinstance(load, ClosedLoop):
        slots = min(load.concurrency, count)
        return [replace(shared, slots=(slots, load.ramp_ns, first, processes)) for first in range(processes)]
    if len(load.offsets_ns) > count:
        raise ValueError(f"{len(load.offsets_ns)} instants but only {count} conversations")
    instants = list(zip(sorted(load.offsets_ns), range(count), strict=False))
    return [replace(shared, instants=instants[first::processes]) for first in range(processes)]


def _memory_file() -> int:
    """A file in memory where the system can: prompts are nobody else's business."""
    return os.memfd_create("bakeoff-bodies") if hasattr(os, "memfd_create") else _unnamed_file()


def _unnamed_file() -> int:
    """A regular file that no directory names; only for such are reads of a shared offset atomic on Linux."""
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _end(links: list[Link], fds: list[int]) -> None:
    for link in links:
        link.sock.close()
    for link in links:
        try:
            link.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            link.process.kill()
            link.process.wait()
    links.clear()
    for fd in fds:
        os.close(fd)
