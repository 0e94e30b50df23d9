"""Deadlines on the event loop: one heap, one timer, resolution well under a millisecond where the system allows.

Loop timers of asyncio and uvloop are rounded to milliseconds, which a server of a known latency model would show as
its own error. On Linux a timerfd wakes the loop to the microsecond; elsewhere the loop's timer is used.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from time import monotonic_ns
from typing import Protocol

from ..timerfd import NO_TIMERFD, TimerFd

_NS = 1_000_000_000


class Timed(Protocol):
    """Something that waits for a deadline."""

    def fire(self) -> None:
        """The deadline has passed."""


class _LoopTimer:
    """The event loop's own timer: rounded to about a millisecond."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop, self._wake = loop, wake
        self._handle: asyncio.TimerHandle | None = None

    def set(self, deadline_ns: int) -> None:
        self.close()
        self._handle = self._loop.call_later(max(0, deadline_ns - monotonic_ns()) / _NS, self._wake)

    def rest(self) -> None:
        """Nothing is waited for."""

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Alarm:
    """Calls `fire` of what waits, in order of its deadlines, never early."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._heap: list[tuple[float, int, Timed]] = []
        self._order = count()
        self._armed: float | None = None
        self._ringing = False
        self._timer: TimerFd | _LoopTimer
        try:
            self._timer = TimerFd(loop, self._ring)
        except NO_TIMERFD:
            self._timer = _LoopTimer(loop, self._ring)

    def set(self, deadline_ns: float, waiting: Timed) -> None:
        """`waiting.fire()` once the monotonic clock has reached the deadline. There is no cancel: see `Timed`."""
        heapq.heappush(self._heap, (deadline_ns, next(self._order), waiting))
        if not self._ringing:
            self._arm()

    def _arm(self) -> None:
        if self._heap and (self._armed is None or self._heap[0][0] < self._armed):
            self._armed = self._heap[0][0]
            self._timer.set(int(self._armed) + 1)

    def _ring(self) -> None:
        self._armed, self._ringing = None, True
        # Only what is due now: what gets due meanwhile waits for the next turn of the loop, so that reads are not
        # starved when the machine is too slow for the model.
        now = monotonic_ns()
        try:
            while self._heap and self._heap[0][0] <= now:
                heapq.heappop(self._heap)[2].fire()
        finally:
            self._ringing = False
            if self._heap:
                self._arm()
            else:
                self._timer.rest()

    def close(self) -> None:
        self._heap.clear()
        self._timer.close()
