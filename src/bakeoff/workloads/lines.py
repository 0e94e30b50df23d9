"""Reading files of prompts and traces: bounded in size and memory, every bad place named, nothing of it repeated.

Files are data of others: a message names the place and the fault, never the content.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from .problems import WorkloadError

MAX_FILE_BYTES = 1 << 30
MAX_LINE_BYTES = 1 << 20
MAX_SHOWN = 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def open_checked(path: Path, what: str) -> BinaryIO:
    """The file, opened for reading bytes. what: the kind of file, for messages.

    Raises WorkloadError where there is no such file, it cannot be read, or it is larger than 1 GiB.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise WorkloadError("is not a file", where=str(path), remedy=f"name {what}")
        if size > MAX_FILE_BYTES:
            raise WorkloadError(
                f"{size:,} bytes are more than the limit of 1 GiB",
                where=str(path),
                remedy="take a part of the file: a run uses a few thousand prompts",
            )
        return path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> WorkloadError:
    """The error for a file that the operating system does not give."""
    return WorkloadError(
        f"cannot be read: {error.strerror or type(error).__name__}",
        where=str(path),
        remedy="check the path and its permissions",
    )


def changed(path: Path) -> WorkloadError:
    """The error for a file that is not what it was when it was checked."""
    return WorkloadError("the file changed while it was in use", where=str(path), remedy="leave it alone during a run")


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes | None]]:
    """(line number from 1, offset, line) of every line that is not blank; None for one that is too long."""
    number = offset = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        length = len(line)
        too_long = length > MAX_LINE_BYTES
        while too_long and not line.endswith(b"\n") and (line := file.readline(MAX_LINE_BYTES)):
            length += len(line)
        if too_long:
            yield number, offset, None
        elif line.strip(b" \t\r\n\xef\xbb\xbf"):
            yield number, offset, line
        offset += length


def object_of(line: bytes) -> dict[str, Any] | str:
    """The JSON object of a line, or what is wrong with it (in words that do not repeat its content)."""
    try:
        data = msgspec.json.decode(line.removeprefix(BYTE_ORDER_MARK))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "not valid JSON"
    return data if isinstance(data, dict) else "not an object"


class BadPlaces:
    """Collects what is wrong with a file, line by line: the first twenty in words, the others by number."""

    def __init__(self, path: Path, singular: str, plural: str) -> None:
        self._path = path
        self._words = singular, plural
        self._lines: list[str] = []
        self.count = 0

    def add(self, line: int, problem: str) -> None:
        """Notes a problem of a line (from 1)."""
        self.count += 1
        if self.count <= MAX_SHOWN:
            self._lines.append(f"  {self._path}:{line}: {problem}")

    def raise_any(self, remedy: str) -> None:
        """Raises WorkloadError with all of them, if there is any. remedy: how a good line looks."""
        if not self.count:
            return
        hidden = [f"  … and {self.count - MAX_SHOWN} more"] if self.count > MAX_SHOWN else []
        head = self._words[0] if self.count == 1 else self._words[1].format(self.count)
        raise WorkloadError("\n".join([f"{head}:", *self._lines, *hidden]), where=str(self._path), remedy=remedy)
