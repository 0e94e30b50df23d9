"""What a block is sent with, and what comes back."""

from __future__ import annotations

import msgspec

from ..model import RequestRecord


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for one request [s]: to open a connection, and from sending to the end of the answer."""

    connect_s: float = 10.0
    request_s: float = 600.0


class ClosedLoop(msgspec.Struct, frozen=True):
    """That many requests at a time."""

    concurrency: int


class OpenLoop(msgspec.Struct, frozen=True):
    """One request at each instant [ns after the block's start]."""

    offsets_ns: tuple[int, ...]


class ClientBlock(msgspec.Struct, kw_only=True):
    """What the client saw of one block. Records are in the order of `index`; stamps are ns, monotonic."""

    records: list[RequestRecord]
    started_ns: int
    ended_ns: int
    loop_lag_ns: list[int]  # how late the event loop ran a 10 ms timer
