"""Pacing, backing off, and how late the event loop is."""

from __future__ import annotations

import asyncio

from .clock import Clock

_LAG_PERIOD_NS = 10_000_000
_MAX_SAMPLES = 8192
_MAX_BACKOFF_S = 60.0


class Thinned:
    """Values of which at most 8192 are kept: when full, every second one is dropped, and from then on every second one
    is taken. So quantiles of a long series cost little, and every part of it has the same weight."""

    __slots__ = ("_skip", "_stride", "values")

    def __init__(self) -> None:
        self.values: list[int] = []
        self._stride = 1
        self._skip = 1

    def note(self, value: int) -> None:
        """Takes one value in."""
        self._skip -= 1
        if self._skip:
            return
        self._skip = self._stride
        self.values.append(value)
        if len(self.values) >= _MAX_SAMPLES:
            # The last one of each pair stays: the next one taken is then a whole stride away.
            del self.values[0::2]
            self._stride *= 2
            self._skip = self._stride


class LagMeter:
    """How late the event loop runs a timer of 10 ms: a late loop stamps late.

    Values are ns, never negative, with the timer's own resolution (about 1 ms) in them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_ns = 0
        self._handle: asyncio.TimerHandle | None = None
        self._seen = Thinned()

    @property
    def values(self) -> list[int]:
        return self._seen.values

    def start(self) -> None:
        self._arm()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def note(self, late_ns: int) -> None:
        """Takes one value in."""
        self._seen.note(max(0, late_ns))

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
