"""Callbacks at instants: sends, ramps and pauses. Never early, and late by well under a millisecond where possible.

Event loops time to the millisecond (epoll), which would show as up to 1 ms of delay in every request that is due at an
instant. On Linux a timerfd wakes the loop to the microsecond; elsewhere a sleeping thread does, which costs nothing
while it waits.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable, Iterable
from itertools import count
from typing import Protocol

from ..timerfd import NO_TIMERFD, TimerFd
from .clock import SYSTEM_CLOCK, Clock

_NS = 1_000_000_000


class _Waker(Protocol):
    def set(self, instant_ns: int) -> None: ...
    def close(self) -> None: ...


class Alarm:
    """Runs callbacks of one event loop at their instants on the clock [ns], in the order of time.

    on_error: told of an exception that a callback raised.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, on_error: Callable[[BaseException], None]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._on_error = on_error
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._armed: int | None = None
        self._ringing = False
        self._waker: _Waker | None = None
        self._closed = False

    def at(self, instant_ns: int, callback: Callable[[], None]) -> None:
        """`callback()` once the clock has reached the instant."""
        heapq.heappush(self._heap, (instant_ns, next(self._order), callback))
        self._arm()

    def load(self, ticks: Iterable[tuple[int, Callable[[], None]]]) -> None:
        """Many at once."""
        self._heap.extend((instant_ns, next(self._order), callback) for instant_ns, callback in ticks)
        heapq.heapify(self._heap)
        self._arm()

    def close(self) -> None:
        """No callback runs after this. Idempotent."""
        self._closed = True
        self._heap.clear()
        if self._waker is not None:
            self._waker.close()
            self._waker = None

    def _arm(self) -> None:
        if self._ringing or self._closed or not self._heap:
            return
        first = self._heap[0][0]
        if self._armed is None or first < self._armed:
            self._armed = first
            if self._waker is None:
                self._waker = _waker(self._loop, self._clock, self._ring)
            self._waker.set(first)

    def _ring(self) -> None:
        self._armed, self._ringing = None, True
        # Only what is due now: what gets due meanwhile waits for the loop's next turn, so that sockets are read first.
        now = self._clock.monotonic_ns()
        try:
            while self._heap and self._heap[0][0] <= now:
                heapq.heappop(self._heap)[2]()
        except Exception as error:  # a bug of ours must end the block, not vanish in the event loop
            self._on_error(error)
        finally:
            self._ringing = False
            self._arm()


def _waker(loop: asyncio.AbstractEventLoop, clock: Clock, wake: Callable[[], None]) -> _Waker:
    if clock is not SYSTEM_CLOCK:
        return _Sleeper(loop, clock, wake)

    def ring() -> None:
        timer.rest()
        wake()

    try:
        timer = TimerFd(loop, ring)
    except NO_TIMERFD:
        return _Thread(loop, clock, wake)
    return timer


class _Thread:
    """A thread that sleeps until the instant and wakes the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, wake: Callable[[], None]) -> None:
        self._loop, self._clock, self._wake = loop, clock, wake
        self._changed = threading.Condition()
        self._instant_ns: int | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="bakeoff-alarm", daemon=True)
        self._thread.start()

    def set(self, instant_ns: int) -> None:
        with self._changed:
            self._instant_ns = instant_ns
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                if self._instant_ns is None:
                    self._changed.wait()
                    continue
                left = self._instant_ns - self._clock.monotonic_ns()
                if left > 0:
                    self._changed.wait(left / _NS)
                    continue
                self._instant_ns = None
                try:
                    self._loop.call_soon_threadsafe(self._ring)
                except RuntimeError:  # the loop is closed
                    return

    def _ring(self) -> None:
        if not self._closed:
            self._wake()


class _Sleeper:
    """Sleeps on the clock itself, which may be another than the system's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, wake: Callable[[], None]) -> None:
        self._loop, self._clock, self._wake = loop, clock, wake
        self._task: asyncio.Task[None] | None = None

    def set(self, instant_ns: int) -> None:
        self.close()
        self._task = self._loop.create_task(self._sleep(instant_ns))

    def close(self) -> None:
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _sleep(self, instant_ns: int) -> None:
        while (left := instant_ns - self._clock.monotonic_ns()) > 0:
            await self._clock.sleep(left / _NS)
        self._wake()
