"""A worker's view of a block's requests: claimed from one queue that all workers share, bodies read when needed."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence

from .message import frame
from .request import PreparedRequest
from .shard_messages import Job
from .work import Chain, chains

_CLAIM = struct.Struct("=I")


def write_claims(fd: int, count: int) -> None:
    """Fills the queue with the numbers of that many chains, from the start. Nobody may be reading it."""
    os.ftruncate(fd, 0)
    data = b"".join(_CLAIM.pack(number) for number in range(count))
    write_whole(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)


def write_whole(fd: int, data: bytes) -> None:
    """Writes at the file's start."""
    at = 0
    while at < len(data):
        at += os.pwrite(fd, data[at : at + (1 << 26)], at)


class SharedWork:
    """Requests of a job.

    Claiming: all processes have inherited one open file, so they share its offset, and a read moves it on atomically
    (POSIX.1-2017, 2.9.7). So each number is read by exactly one of them, in order, without a lock or a messenger.
    """

    def __init__(
        self,
        job: Job,
        heads: Mapping[str, bytes],
        claims_fd: int,
        bodies_fd: int,
        ask: Callable[[int, Sequence[str]], None],
    ) -> None:
        """`ask`: tells the parent to build the body of a position; `built` is then to be called."""
        self._requests = [PreparedRequest(**fields, body=b"") for fields in job.requests]
        self.chains = chains(self._requests)
        self._job = job
        self._heads = heads
        self._claims_fd = claims_fd
        self._claims_size = len(self.chains) * _CLAIM.size
        self._bodies_fd = bodies_fd
        self._ask = ask
        self._waiting: dict[int, Callable[[PreparedRequest, bytes], None]] = {}

    @property
    def exhausted(self) -> bool:
        # An open loop's chains are dealt out beforehand: its queue is not used.
        return self._job.slots is not None and os.lseek(self._claims_fd, 0, os.SEEK_CUR) >= self._claims_size

    def claim(self) -> Chain | None:
        data = os.read(self._claims_fd, _CLAIM.size)
        return self.chains[_CLAIM.unpack(data)[0]] if len(data) == _CLAIM.size else None

    def request(self, position: int) -> PreparedRequest:
        return self._requests[position]

    def fetch(self, position: int, answers: Sequence[str], then: Callable[[PreparedRequest, bytes], None]) -> None:
        if position in self._job.built:
            self._waiting[position] = then
            self._ask(position, answers)
            return
        request = self._requests[position]
        start, end = self._job.bodies[position], self._job.bodies[position + 1]
        then(request, frame(self._heads[request.path], os.pread(self._bodies_fd, end - start, start)))

    def built(self, position: int, body: bytes) -> None:
        """The parent's answer."""
        then = self._waiting.pop(position, None)
        if then is not None:
            request = self._requests[position]
            then(request, frame(self._heads[request.path], body))


#: What a worker needs of each request beside its body, which it reads itself, and its prompt, which it never shows.
FIELDS = tuple(name for name in PreparedRequest.__struct_fields__ if name not in ("body", "prompt", "build"))


def fields_of(request: PreparedRequest) -> dict[str, object]:
    """A request as a job carries it."""
    return {name: getattr(request, name) for name in FIELDS}


def shared_bodies(requests: Sequence[PreparedRequest]) -> tuple[bytes, list[int]]:
    """All bodies, and where each one begins (and the last one ends)."""
    ends = [0]
    for request in requests:
        ends.append(ends[-1] + len(request.body))
    return b"".join(request.body for request in requests), ends
