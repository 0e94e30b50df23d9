"""What a block is sent with, and what comes back."""

from __future__ import annotations

import msgspec

from ..model import RequestRecord


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one request [s]; None is no limit of that phase.

    connect_s: to open a connection, TLS and a proxy's tunnel included. request_s: from sending to the end of the
    answer. first_byte_s: from sending to the first byte of any kind. idle_s: between two reads of an answer.
    """

    connect_s: float = 10.0
    request_s: float = 600.0
    first_byte_s: float | None = None
    idle_s: float | None = None

    @property
    def shortest_s(self) -> float:
        """The shortest limit that is watched while an answer is awaited."""
        return min(limit for limit in (self.request_s, self.first_byte_s, self.idle_s) if limit is not None)


class ClosedLoop(msgspec.Struct, frozen=True):
    """That many requests (or conversations) at a time; the slots start evenly over the ramp [ns]."""

    concurrency: int
    ramp_ns: int = 0


class OpenLoop(msgspec.Struct, frozen=True):
    """One request (or the start of one conversation) at each instant [ns after the block's start]."""

    offsets_ns: tuple[int, ...]


class ClientBlock(msgspec.Struct, kw_only=True):
    """What the client saw of one block. Records are in the order of `index`; stamps are ns, monotonic."""

    records: list[RequestRecord]
    started_ns: int
    ended_ns: int
    loop_lag_ns: list[int]  # how late the event loops ran a 10 ms timer
    backlog_ns: list[int] = []  # from socket reads to the end of their parsing
    cpu_s: float = 0.0  # CPU time of the client from the start to the end, all processes
    workers_cpu_s: float = 0.0  # of it, in processes other than this one
    processes: int = 1  # that sent and received
