"""The seam between connections and what they carry: one request, its answer, and who keeps the connections."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from ..model import ErrorKind

if TYPE_CHECKING:
    from .connection import Connection


class Verdict(IntEnum):
    """What an exchange wants after more data."""

    MORE = 0
    OVER = 1  # the content has ended; only the end of the HTTP message is awaited
    ABORT = 2  # the rest is of no use


class Exchange:
    """One request and what becomes of its answer. Subclasses override the four events; stamps are ns."""

    __slots__ = ("ended", "first_byte_ns", "payload", "resent", "sent_ns")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload  # the whole request message
        self.sent_ns: int | None = None
        self.first_byte_ns: int | None = None
        self.resent = 0  # how often it was sent anew, its connection having been closed before the server saw it
        self.ended = False

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers (names in lower case)."""

    def on_data(self, data: bytes, now_ns: int) -> Verdict:
        """More of the body, with the arrival of the read that held it."""
        raise NotImplementedError

    def on_complete(self, now_ns: int) -> None:
        """The message has ended as its framing says."""

    def on_failure(self, kind: ErrorKind, message: str, now_ns: int) -> None:
        """The message will not end."""

    def on_crash(self, error: BaseException) -> None:
        """A bug of ours, found while handling this answer: must surface, not pass for a server's failure."""
        raise error


class Owner(Protocol):
    """Who keeps connections (the pool)."""

    def made(self, connection: Connection) -> None:
        """The connection is open."""

    def released(self, connection: Connection) -> None:
        """The connection may carry another request."""

    def lost(self, connection: Connection) -> None:
        """The connection is gone."""

    def stale(self, exchange: Exchange) -> None:
        """A kept connection was closed by the server before it saw the request: send it on a fresh one."""


def reason_of(exc: BaseException | None) -> str:
    """Why a connection ended, in words; nothing where it ended in order."""
    if exc is None:
        return ""
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
