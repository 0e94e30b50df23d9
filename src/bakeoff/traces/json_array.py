"""Events of a big JSON document, block by block: ``{..., "traceEvents": [{…}, {…}], ...}`` or a bare ``[{…}, {…}]``.

The document is never held as a whole. A block is cut where one object ends and the next begins (``}, {``) and decoded
as an array of its own; that a cut fell inside an object or a text shows in the decoding, and then the block is halved
until the broken event stands alone. So sound files are decoded at full speed, and damage costs the damaged event only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from .json_repair import repaired
from .limits import Limits, TraceError
from .opening import TraceStream

Event = TypeVar("Event")

_OPENING = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_CLOSING = re.compile(rb"\}\s*(?:,\s*)?\](?=\s*(?:,|\}|$))")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_META_BYTES = 64 << 20
_TRIED = 8
_MERGED = 8  # fragments that may belong to one event because it holds a list of objects


class EventArray(Generic[Event]):
    """The events of one document, and what surrounds them.

    decode: turns the text of a JSON array into events. Raises msgspec.DecodeError for broken JSON. An event that is
    sound JSON but of no use must not make it fail.
    metadata: after `blocks` is exhausted, the document's other keys as raw JSON values.
    lost, repaired: fragments that could not be read; fragments that could after their text was mended.
    cut_short: the file ends before the array does.
    """

    def __init__(self, path: Path, limits: Limits, decode: Callable[[bytes | memoryview], list[Event]]) -> None:
        self.metadata: dict[str, Any] = {}
        self.metadata_text: list[bytes] = []
        self.lost = 0
        self.repaired = 0
        self.cut_short = False
        self._path = path
        self._limits = limits
        self._decode = decode
        self._closed = False  # the array's end was met
        self._after = b""  # what followed it
        self._pending: list[bytes] = []  # fragments that may need their neighbour to be whole

    def blocks(self) -> Iterator[list[Event]]:
        """Lists of events in the file's order. Raises TraceError when there is no event array, or a monstrous event."""
        with TraceStream(self._path, self._limits) as stream:
            pieces = iter(stream)
            rest = self._up_to_array(pieces)
            for piece in pieces:
                buffer = bytearray(b"[")
                buffer += rest
                buffer += piece
                cut = _last_between(buffer)
                if cut is None:
                    if len(buffer) > self._limits.event_bytes:
                        self._refuse_monster()
                    rest = bytes(buffer[1:])
                    continue
                yield from self._block(buffer, cut[0])
                rest = bytes(buffer[cut[0] if self._closed else cut[1] :])
                if self._closed:
                    break
            if not self._closed:
                # A comma is all that a file cut between two events ends with: no loss.
                yield from self._events(rest.rstrip(b", \t\r\n"))
                rest = b""
            yield from self._flush()
            self.cut_short = stream.truncated or not self._closed
            self._read_after(rest, pieces)

    def _refuse_monster(self) -> None:
        raise TraceError(
            f"one event is longer than {self._limits.event_bytes >> 20} MiB, which no profiler writes",
            where=str(self._path),
            remedy="the file is damaged or not a profile; profile again",
        )

    def _up_to_array(self, pieces: Iterator[bytes]) -> bytes:
        """Reads to the array's opening bracket, keeps the metadata before it, returns what follows."""
        text = b""
        searched = 0
        for piece in pieces:
            text += piece
            if text.lstrip()[:1] == b"[":
                return text.lstrip()[1:]
            match = _OPENING.search(text, searched)
            if match:
                self._keep_metadata(text[: match.end()] + b"]}")
                return text[match.end() :]
            searched = max(0, len(text) - 256)
            if len(text) > _META_BYTES:
                break
        raise TraceError(
            "there is no list of events (traceEvents) in it",
            where=str(self._path),
            remedy="the profiler did not finish writing; export the trace again",
        )

    def _read_after(self, rest: bytes, pieces: Iterator[bytes]) -> None:
        """The metadata behind the array."""
        text = self._after + rest
        for piece in pieces:
            if len(text) < _META_BYTES:
                text += piece
        if text.strip():
            self._keep_metadata(b'{"traceEvents": []' + text)

    def _keep_metadata(self, text: bytes) -> None:
        self.metadata_text.append(text)
        for candidate in (text, repaired(text)):
            try:
                found = msgspec.json.decode(candidate, type=dict[str, msgspec.Raw])
            except (msgspec.DecodeError, RecursionError):
                continue
            self.metadata.update({key: bytes(value) for key, value in found.items()})
            return

    def _block(self, buffer: bytearray, end: int) -> Iterator[list[Event]]:
        """The events between the bracket that the buffer begins with and ``end``: decoded in place, without a copy."""
        kept, buffer[end] = buffer[end], ord("]")
        try:
            decoded = self._decode(memoryview(buffer)[: end + 1])
        except (msgspec.DecodeError, RecursionError):
            buffer[end] = kept
            yield from self._events(bytes(buffer[1:end]))
            return
        buffer[end] = kept
        yield from self._flush()
        yield decoded

    def _events(self, text: bytes) -> Iterator[list[Event]]:
        """The events of a text that begins where an event begins."""
        if self._closed or not text.strip():
            return
        document = b"[" + text + b"]"
        try:
            decoded = self._decode(document)
        except (msgspec.DecodeError, RecursionError) as error:
            end = _TRAILING.search(str(error))
            if end:
                closing = document.rfind(b"]", 0, int(end[1]))
                if closing > 0 and (part := self._try(document[1:closing])) is not None:
                    yield from self._flush()
                    yield part
                    self._close(document[closing + 1 : -1])
                    return
            yield from self._halved(text)
            return
        yield from self._flush()
        yield decoded

    def _try(self, text: bytes) -> list[Event] | None:
        try:
            return self._decode(b"[" + text + b"]")
        except (msgspec.DecodeError, RecursionError):
            return None

    def _close(self, after: bytes) -> None:
        self._closed = True
        self._after = after

    def _halved(self, text: bytes) -> Iterator[list[Event]]:
        """Halves a text that does not decode, at the cut nearest to its middle, until the damage stands alone."""
        stack = [text]
        while stack and not self._closed:
            part = stack.pop()
            if part is not text and (decoded := self._try(part)) is not None:
                yield from self._flush()
                yield decoded
                continue
            match = _BETWEEN.search(part, len(part) // 2)
            cut = (match.start() + 1, match.end()) if match else _last_between(part)
            if cut is None:
                yield from self._alone(part)
            else:
                stack += [part[cut[1] :], part[: cut[0]]]
        self._after += b"".join(b"," + part for part in reversed(stack))

    def _alone(self, fragment: bytes) -> Iterator[list[Event]]:
        """One fragment that does not decode: the array's end, a part of a nested list, or damage."""
        if fragment.lstrip()[:1] == b"]":  # behind a trailing comma
            yield from self._flush()
            self._close(fragment.lstrip()[1:])
            return
        closings = list(_CLOSING.finditer(fragment))
        # The metadata behind the array, or a list inside an event, may close in the same way. Trying all of many would
        # take quadratic time on a hostile text.
        for match in closings if len(closings) <= 2 * _TRIED else closings[:_TRIED] + closings[-_TRIED:]:
            before = fragment[: match.start() + 1]
            decoded = self._try(before)
            if decoded is None and (decoded := self._try(repaired(before))) is not None:
                self.repaired += 1
            if decoded is not None:
                yield from self._flush()
                yield decoded
                self._close(fragment[match.end() :])
                return
        self._pending.append(fragment)
        if len(self._pending) > 1 and (decoded := self._try(b",".join(self._pending))) is not None:
            self._pending.clear()
            yield decoded
        elif len(self._pending) >= _MERGED:
            yield from self._mend(self._pending.pop(0))

    def _flush(self) -> Iterator[list[Event]]:
        for fragment in self._pending:
            yield from self._mend(fragment)
        self._pending.clear()

    def _mend(self, fragment: bytes) -> Iterator[list[Event]]:
        decoded = self._try(repaired(fragment))
        if decoded is None:
            self.lost += 1
        else:
            self.repaired += len(decoded)
            yield decoded


def _last_between(text: bytes | bytearray) -> tuple[int, int] | None:
    """(end of the last whole object, start of the next one); None when no two objects meet in the text."""
    window = 1 << 16
    while True:
        last = None
        for match in _BETWEEN.finditer(text, max(0, len(text) - window)):
            last = match
        if last is not None:
            return last.start() + 1, last.end()
        if window >= len(text):
            return None
        window *= 16
