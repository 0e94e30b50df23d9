"""Deadlines on the event loop: one heap, one timer, resolution well under a millisecond where the system allows.

Loop timers of asyncio and uvloop are rounded to milliseconds, which a server of a known latency model would show as
its own error. On Linux a timerfd wakes the loop to the microsecond; elsewhere the loop's timer is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import heapq
import os
import struct
import sys
from collections.abc import Callable
from itertools import count
from time import monotonic_ns
from typing import Protocol

_NS = 1_000_000_000
_ITIMERSPEC = struct.Struct("@qqqq")  # interval s, ns; value s, ns (64-bit time_t)
_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK_CLOEXEC = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_TFD_TIMER_ABSTIME = 1


class Timed(Protocol):
    """Something that waits for a deadline."""

    def fire(self) -> None:
        """The deadline has passed."""


class _TimerFd:
    """A Linux timerfd of the monotonic clock. OSError or AttributeError where the system has none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        if sys.platform != "linux" or struct.calcsize("P") != 8:
            raise OSError("no 64-bit timerfd")
        libc = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self._settime.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p]
        self._fd: int = libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = loop
        loop.add_reader(self._fd, wake)

    def rest(self) -> None:
        """Nothing is waited for: it stops ringing. (Setting it anew does that too, and saves a read for each token.)"""
        with contextlib.suppress(OSError):  # nothing has rung, or it is closed
            os.read(self._fd, 8)

    def set(self, deadline_ns: int) -> None:
        at = max(1, deadline_ns)  # 0 would disarm it
        self._settime(self._fd, _TFD_TIMER_ABSTIME, _ITIMERSPEC.pack(0, 0, at // _NS, at % _NS), None)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)


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
        self._timer: _TimerFd | _LoopTimer
        try:
            self._timer = _TimerFd(loop, self._ring)
        except (OSError, AttributeError, NotImplementedError):
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
