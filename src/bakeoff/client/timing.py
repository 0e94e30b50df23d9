"""When things happen: firing at instants, pacing, backing off, and how late the event loop is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from .clock import Clock

_LAG_PERIOD_NS = 10_000_000
_MAX_LAG_SAMPLES = 8192
_MAX_BACKOFF_S = 60.0


class Metronome:
    """Calls back into an event loop at given instants, each to within about 0.1 ms on a quiet machine.

    Event loops time to the millisecond (epoll), which would show as up to 1 ms of delay in every open-loop request;
    a sleeping thread is woken by the kernel's fine timers, and costs nothing while it waits.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        ticks: Sequence[tuple[int, Callable[[], None]]],
    ) -> None:
        """`ticks`: (instant on the clock [ns], callback), in the order of time."""
        self._loop = loop
        self._clock = clock
        self._ticks = ticks
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bakeoff-metronome", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No callback is posted after this returns."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        for instant, callback in self._ticks:
            while (left := instant - self._clock.monotonic_ns()) > 0:
                if self._stop.wait(left / 1e9):
                    return
            if self._stop.is_set():
                return
            try:
                self._loop.call_soon_threadsafe(callback)
            except RuntimeError:  # the loop is closed
                return


class LagMeter:
    """How late the event loop runs a timer of 10 ms: a late loop stamps late.

    Values are ns, never negative, with the timer's own resolution (about 1 ms) in them. At most 8192 are kept: when
    full, every second one is dropped, and from then on every second one is taken.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_ns = 0
        self._stride = 1
        self._tick = 0
        self._handle: asyncio.TimerHandle | None = None
        self.values: list[int] = []

    def start(self) -> None:
        self._arm()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def note(self, late_ns: int) -> None:
        """Takes one value in."""
        self._tick += 1
        if self._tick % self._stride:
            return
        self.values.append(max(0, late_ns))
        if len(self.values) >= _MAX_LAG_SAMPLES:
            del self.values[1::2]
            self._stride *= 2

    def _arm(self) -> None:
        self._due_ns = self._clock.monotonic_ns() + _LAG_PERIOD_NS
        self._handle = asyncio.get_running_loop().call_later(_LAG_PERIOD_NS / 1e9, self._fired)

    def _fired(self) -> None:
        self.note(self._clock.monotonic_ns() - self._due_ns)
        self._arm()


class Pacer:
    """Evenly spaced turns: at most `per_minute` of them, the first at once. None: no limit."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval_ns = 0 if per_minute is None else round(60e9 / per_minute)
        self._next_ns = 0

    def turn(self, ready_ns: int) -> int:
        """Takes the next turn; returns when it is [ns], not before `ready_ns`."""
        at = max(ready_ns, self._next_ns)
        self._next_ns = at + self._interval_ns
        return at


class Backoff:
    """How long a slot waits after the server's rate limit: as long as it asks, else 1 s growing, at most 60 s."""

    def __init__(self) -> None:
        self._row = 0

    def after_limit(self, asked_s: float | None) -> float:
        """Seconds to wait now."""
        self._row += 1
        wait = asked_s if asked_s is not None else 2.0 ** min(self._row - 1, 10)
        return min(wait, _MAX_BACKOFF_S)

    def reset(self) -> None:
        """The server accepted a request."""
        self._row = 0
