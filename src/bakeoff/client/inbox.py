"""Socket reads between their stamp and their parsing.

When many sockets are readable at once, parsing each read at once would delay the stamps of those behind it by all the
parsing before them. So a read is only stamped and queued; parsing follows in the loop's next turn, in slices short
enough that sockets which become readable meanwhile are stamped in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from .timing import Thinned

# Parsing goes on that long before the loop looks at its sockets again: a stamp is late by at most about this.
SLICE_NS = 200_000


class Reader(Protocol):
    """A connection, as the inbox sees it."""

    def parse(self, data: bytes, stamp_ns: int) -> None:
        """Takes in one read. Raises nothing."""


class Inbox:
    """The queue of one event loop's connections. `backlog`: from a read's stamp to the end of its parsing [ns]."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], int], slice_ns: int = SLICE_NS) -> None:
        self._loop = loop
        self._now = now
        self._slice_ns = slice_ns
        self._queue: deque[tuple[Reader, bytes, int]] = deque()
        self._scheduled = False
        self.backlog = Thinned()

    def put(self, reader: Reader, data: bytes, stamp_ns: int) -> None:
        """Queues a read; it is parsed in the loop's next turn."""
        self._queue.append((reader, data, stamp_ns))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def flush(self) -> None:
        """Parses all that is queued: the end of a connection must not overtake its last bytes."""
        while self._queue:
            reader, data, stamp_ns = self._queue.popleft()
            reader.parse(data, stamp_ns)
            self.backlog.note(self._now() - stamp_ns)

    def _turn(self) -> None:
        queue, now, note = self._queue, self._now, self.backlog.note
        until = now() + self._slice_ns
        try:
            while queue:
                reader, data, stamp_ns = queue.popleft()
                reader.parse(data, stamp_ns)
                done = now()
                note(done - stamp_ns)
                if done > until:
                    break
        finally:
            self._scheduled = bool(queue)
            if queue:
                self._loop.call_soon(self._turn)
