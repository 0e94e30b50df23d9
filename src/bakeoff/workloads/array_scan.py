"""The elements of a large JSON array, one at a time: a file of any length takes the memory of one element.

The brackets of an element are matched without decoding it; strings are passed over whole, so that brackets inside
them do not count. Objects that follow each other without an array around them are taken, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from .lines import BYTE_ORDER_MARK

MAX_ELEMENT_BYTES = 16 << 20
_CHUNK = 1 << 20
# A whole string, or what the buffer holds of one (then group 1 is not a quote); or a bracket. Possessive: linear time.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+("|\\?\Z)|[{}\[\]]', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")


class Element(NamedTuple):
    """One object of the file. data None: what is wrong stands in `problem`."""

    line: int
    offset: int
    data: bytes | None
    problem: str = ""


class _Buffer:
    """A window on the file that only moves forward. `data` from `at` on is what is still to be looked at."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._base = 0  # offset in the file of the first byte of `data`
        self.data = b""
        self.at = 0
        self.line = 1
        self.ended = False

    @property
    def offset(self) -> int:
        """Where the next byte stands in the file."""
        return self._base + self.at

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def more(self) -> None:
        chunk = self._file.read(max(_CHUNK, self.left))  # doubling: an element is not scanned too often
        self.ended = not chunk
        self._base += self.at
        self.data = self.data[self.at :] + chunk
        self.at = 0

    def drop(self, count: int) -> None:
        self.line += self.data.count(b"\n", self.at, self.at + count)
        self.at += count

    def next_byte(self) -> bytes:
        """The next byte that is not white space (not consumed); empty at the end of the file."""
        while True:
            match = _SPACE.match(self.data, self.at)
            self.drop(match.end() - self.at if match else 0)
            if self.left or self.ended:
                return self.data[self.at : self.at + 1]
            self.more()


def elements(file: BinaryIO) -> Iterator[Element]:
    """Every object of the array. After a fault in the brackets nothing more can be told, and the walk ends."""
    buffer = _Buffer(file)
    buffer.more()
    if buffer.data.startswith(BYTE_ORDER_MARK):
        buffer.drop(len(BYTE_ORDER_MARK))
    first = buffer.next_byte()
    if not first:
        return
    in_array = first == b"["
    if in_array:
        buffer.drop(1)
    start = True
    while True:
        byte = buffer.next_byte()
        if byte in (b"", b"]"):
            if problem := _end_problem(buffer, in_array, byte):
                yield Element(buffer.line, buffer.offset, None, problem)
            return
        if not start and in_array:
            if byte != b",":
                yield Element(buffer.line, buffer.offset, None, "not valid JSON: a comma is missing")
                return
            buffer.drop(1)
            byte = buffer.next_byte()
        if byte != b"{":
            yield Element(buffer.line, buffer.offset, None, "not an object; nothing after it was read")
            return
        start = False
        size = _size(buffer)
        if size is None:
            too_long = buffer.left > MAX_ELEMENT_BYTES
            problem = "longer than 16 MiB" if too_long else "not valid JSON: brackets or quotes are not closed"
            yield Element(buffer.line, buffer.offset, None, f"{problem}; nothing after it was read")
            return
        yield Element(buffer.line, buffer.offset, buffer.data[buffer.at : buffer.at + size])
        buffer.drop(size)


def _end_problem(buffer: _Buffer, in_array: bool, byte: bytes) -> str:
    if byte == b"]" and in_array:
        buffer.drop(1)
        return "not valid JSON: something follows the end of the array" if buffer.next_byte() else ""
    if byte == b"]" or in_array:
        return "not valid JSON: the array is not closed" if in_array else "not an object; nothing after it was read"
    return ""


def _size(buffer: _Buffer) -> int | None:
    """Bytes of the object at the buffer's start; None where it does not end (within the limit)."""
    while True:
        depth = 0
        for match in _TOKEN.finditer(buffer.data, buffer.at):
            token = match[0][:1]
            if token == b'"':
                if match[1] != b'"':
                    break  # the string goes on beyond the buffer
                continue
            depth += 1 if token in b"{[" else -1
            if depth == 0:
                size = match.end() - buffer.at
                return size if size <= MAX_ELEMENT_BYTES else None
        if buffer.ended or buffer.left > MAX_ELEMENT_BYTES:
            return None
        buffer.more()
