"""The clock that every stamp comes from. A seam, so that tests can skip waits without touching durations."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Time of one monotonic clock, and sleeping on it."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of a clock that never jumps (a wall clock is never used for durations)."""

    async def sleep(self, seconds: float) -> None:
        """Returns after that many seconds of this clock."""


class SystemClock:
    """The real clock: ``time.monotonic_ns``, shared on one machine by all processes."""

    # The builtin itself, not a wrapper: it is called once for each socket read.
    monotonic_ns = staticmethod(time.monotonic_ns)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()
