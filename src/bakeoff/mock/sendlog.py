"""The send log: what the server really sent, and when. One JSON line a request."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec


class SendRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One generation request as the server saw it. Stamps: ns, monotonic clock (shared by all processes)."""

    request_id: str  # header x-request-id, else the counter as text
    index: int  # counter of generation requests, from 0
    path: str
    stream: bool
    status: int  # HTTP status sent; 0: none
    recv_ns: int  # the read that completed the request
    start_ns: int | None = None  # when it got its slot
    due_first_ns: int | None = None  # deadlines of the model: first and last token
    due_last_ns: int | None = None
    first_send_ns: int | None = None  # just before the first content was handed to the kernel
    chunk_ns: tuple[int, ...] = ()  # the same for each chunk with content; chunks of one write share a stamp
    chunk_tokens: tuple[int, ...] = ()
    end_ns: int  # end of the response, or the moment the connection was lost
    finish: str  # stop | length | fault | cancelled (the client left) | shutdown | refused (a request error)
    fault: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0  # tokens really sent
    cached_tokens: int = 0


class SendLog:
    """Appends records to a file, those of one turn of the event loop in one unbuffered write.

    A record is written after its answer has gone out, before the loop reads again: what a server tells to a request
    that came after an answer comes after that answer's record, and a killed server keeps all but those of one turn.
    """

    def __init__(self, path: Path, later: Callable[[Callable[[], None]], object]) -> None:
        """`later` calls back in this turn's end (the loop's call_soon)."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._encode = msgspec.json.Encoder().encode_lines
        self._later = later
        self._waiting: list[SendRecord] = []

    def write(self, record: SendRecord) -> None:
        if not self._waiting:
            self._later(self._flush)
        self._waiting.append(record)

    def _flush(self) -> None:
        records, self._waiting = self._waiting, []
        if records and self._file >= 0:
            os.write(self._file, self._encode(records))

    def close(self) -> None:
        """Brings the log to the disk and closes it. Idempotent."""
        self._flush()
        if self._file >= 0:
            with contextlib.suppress(OSError):  # a pipe or a device has nothing to bring to a disk
                os.fsync(self._file)
            os.close(self._file)
            self._file = -1


def read_send_log(path: Path) -> list[SendRecord]:
    """All complete records of a log, in the order in which the requests ended. A torn last line is left out."""
    decode = msgspec.json.Decoder(SendRecord).decode
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    return [decode(line) for line in lines[:-1]]
