"""Server-sent events, parsed without I/O: bytes in, events out, however the network cut them.

The grammar is that of the WHATWG HTML standard (section "Server-sent events"), with three tolerances that real
servers need: a last event without its blank line, a nonstandard ``error:`` field (older llama.cpp), and a
limit on size, because an endless line must not take all memory.
"""

from __future__ import annotations

import msgspec

MAX_EVENT_BYTES = 16 * 1024 * 1024
_MAX_NAME_BYTES = 200
_BOM = b"\xef\xbb\xbf"


class Event(msgspec.Struct, gc=False):
    """One event: its data (lines joined by LF) and its type ("" where the server named none)."""

    data: bytes
    name: str = ""


class SseParser:
    """Incremental parser of one stream. Any segmentation of the same bytes gives the same events.

    `failed` turns into a text when the stream cannot be parsed on (an event over `max_event_bytes`); from then on
    nothing is returned. Lines that belong to no event stream (HTML, plain JSON) give no event.
    """

    __slots__ = ("_buffer", "_clean", "_data", "_first_line", "_limit", "_name", "_size", "_skip_lf", "failed")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._buffer = bytearray()  # a line whose end has not been seen
        self._data: list[bytes] = []
        self._size = 0  # bytes in _data
        self._name = ""
        self._skip_lf = False  # the last byte seen was CR: an LF now belongs to it
        self._first_line = True
        self._clean = True  # nothing is pending, and nothing has failed
        self.failed: str | None = None

    def feed(self, data: bytes) -> list[Event]:
        """Events completed by these bytes, in order (often none, or exactly one)."""
        if not self._clean or b"\r" in data:
            return self._feed_rest(data)
        # The hot case: one whole event in one read, nothing pending.
        last, line_end = len(data) - 2, data.find(b"\n")
        if line_end == last and data.startswith(b"data:") and data.endswith(b"\n\n") and last <= self._limit:
            self._first_line = False
            value = data[6:-2] if data[5] == 32 else data[5:-2]
            return [Event(value)] if value else []
        if line_end >= 0:
            return self._feed_events(data)
        if data:
            self._clean = False
            self._buffer += data
            self._check_size(len(data))
        return []

    def _feed_rest(self, data: bytes) -> list[Event]:
        """Something is pending, or lines end in CR."""
        buffer = self._buffer
        if not buffer or self._data or self._name or b"\n" not in data or b"\r" in data:
            return self._feed_lines(data)
        # A pending line holds no line end, so joining it costs each of its bytes once.
        data = bytes(buffer) + data
        buffer.clear()
        self._clean = True
        return self.feed(data)

    def _feed_events(self, data: bytes) -> list[Event]:
        """Nothing is pending: whole events of one `data` line, with or without an `event` line before it, go fast."""
        events: list[Event] = []
        start, size = 0, len(data)
        while start < size:
            end = data.find(b"\n\n", start)
            event = self._whole(data, start, end) if end >= 0 else None
            if event is None:
                break
            events.append(event)
            start = end + 2
        if start:
            self._first_line = False
        if start < size:
            events += self._feed_lines(data[start:])
        return events

    def _whole(self, data: bytes, start: int, end: int) -> Event | None:
        """The event between two places, if it is of the plain form and not too long; else None."""
        name = ""
        if data.startswith(b"event: ", start):
            line_end = data.find(b"\n", start, end)
            if line_end < 0 or line_end - start > min(_MAX_NAME_BYTES, self._limit):
                return None
            name = data[start + 7 : line_end].decode("utf-8", "replace")
            start = line_end + 1
        if end - start > self._limit or not data.startswith(b"data:", start) or data.find(b"\n", start, end) >= 0:
            return None
        value = data[start + 6 : end] if data.startswith(b" ", start + 5) else data[start + 5 : end]
        return Event(value, name) if value else None

    def finish(self) -> list[Event]:
        """The end of the stream: an event that only lacks its last line ends."""
        if self.failed:
            return []
        events: list[Event] = []
        if self._buffer:
            self._line(bytes(self._buffer), events)
            self._buffer.clear()
        self._dispatch(events)
        return events

    def _feed_lines(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        if not data or self.failed:
            return events
        if self._skip_lf:
            self._skip_lf = False
            if data[0] == 10:
                data = data[1:]
        # A pending line holds no line end, so only the new bytes are searched: linear in the stream's length.
        start = 0
        lf, cr = data.find(b"\n"), data.find(b"\r")
        while (lf >= 0 or cr >= 0) and not self.failed:
            if cr >= 0 and (lf < 0 or cr < lf):
                end, after = cr, cr + (2 if lf == cr + 1 else 1)
                self._skip_lf = after == len(data) and lf != cr + 1
            else:
                end, after = lf, lf + 1
            line = data[start:end]
            if self._buffer:
                line = bytes(self._buffer) + line
                self._buffer.clear()
            self._line(line, events)
            start = after
            if 0 <= lf < start:
                lf = data.find(b"\n", start)
            if 0 <= cr < start:
                cr = data.find(b"\r", start)
        if not self.failed:
            self._buffer += data[start:] if start else data
            self._check_size(len(self._buffer))
        self._clean = not (self._buffer or self._data or self._name or self._skip_lf or self.failed)
        return events

    def _check_size(self, line: int) -> None:
        if line + self._size > self._limit:
            self.failed = f"an event is longer than {self._limit} bytes"
            self._buffer.clear()
            self._data.clear()

    def _line(self, line: bytes, events: list[Event]) -> None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        self._check_size(len(line))
        if self.failed:
            return
        field, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if field in (b"data", b"error"):
            self._data.append(value)
            self._size += len(value) + 1
            if field == b"error":
                self._name = "error"
        elif field == b"event":
            self._name = value[:_MAX_NAME_BYTES].decode("utf-8", "replace")
        # All else (`id`, `retry`, comments, unknown fields) says nothing about the answer.

    def _dispatch(self, events: list[Event]) -> None:
        data = b"\n".join(self._data)
        if data:
            events.append(Event(data, self._name))
        self._data.clear()
        self._size = 0
        self._name = ""
