"""What a block's parent and its workers say to each other: MessagePack behind a length, over a socket pair."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from ..model import ErrorKind, RequestRecord
from .block import Timeouts

_LENGTH = struct.Struct("!I")


class Job(msgspec.Struct, tag=True, kw_only=True):
    """A block, or rather a worker's share of it.

    requests: fields of each `PreparedRequest` but its body, prompt and builder; bodies: where each one's body lies in
    the shared file (first byte, and behind the last one's end); built: positions whose body the parent builds.
    slots: (concurrency of the whole, ramp [ns], first, step) of a closed loop; instants: (offset [ns], chain) of an
    open one. Headers and secrets go this way, because everybody can read a command line.
    """

    base_url: str
    headers: dict[str, str]
    secrets: tuple[str, ...]
    requests: list[dict[str, Any]]
    bodies: list[int]
    built: frozenset[int]
    slots: tuple[int, int, int, int] | None
    instants: list[tuple[int, int]]
    timeouts: Timeouts
    deadline_ns: int | None


class Go(msgspec.Struct, tag=True):
    """Begin: the instant from which all workers count."""

    started_ns: int


class Built(msgspec.Struct, tag=True):
    """The body that was asked for."""

    position: int
    body: bytes


class Abandon(msgspec.Struct, tag=True):
    """End all requests in flight with this error, and report."""

    kind: ErrorKind
    message: str


class Cancel(msgspec.Struct, tag=True):
    """Close everything at once; nothing is to be reported."""


class Ready(msgspec.Struct, tag=True):
    """The worker is up (after its start), or its connections are open (after a job)."""


class Records(msgspec.Struct, tag=True):
    """Requests that have ended."""

    records: list[RequestRecord]


class Lost(msgspec.Struct, tag=True):
    """A connection was lost: the server may be gone."""


class Build(msgspec.Struct, tag=True):
    """A turn whose body depends on the answers before it."""

    position: int
    answers: list[str]


class Done(msgspec.Struct, tag=True, kw_only=True):
    """The share is through."""

    ended_ns: int
    loop_lag_ns: list[int]
    backlog_ns: list[int]
    cpu_s: float


class Closed(msgspec.Struct, tag=True):
    """All sockets of the job are closed."""


class Crashed(msgspec.Struct, tag=True):
    """A bug of ours, or an unusable endpoint."""

    message: str


ToWorker = Job | Go | Built | Abandon | Cancel
ToParent = Ready | Records | Lost | Build | Done | Closed | Crashed


def encode(message: ToWorker | ToParent) -> bytes:
    """The message as it goes over the socket."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


class Stream:
    """Bytes of a socket → messages, however they were cut."""

    def __init__(self, kind: Any) -> None:
        """`kind`: ToWorker or ToParent."""
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """The messages completed by these bytes."""
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, at)
            end = at + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            yield self._decoder.decode(bytes(self._buffer[at + _LENGTH.size : end]))
            at = end
        del self._buffer[:at]
