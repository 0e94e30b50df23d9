"""A Linux timerfd: wakes an event loop at an instant, to the microsecond.

Timers of asyncio and uvloop are rounded to milliseconds, which a client would show as delay of a request that is due
at an instant, and a server of a known latency model as its own error.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

_NS = 1_000_000_000
_ITIMERSPEC = struct.Struct("@qqqq")  # interval s, ns; value s, ns (64-bit time_t)
_CLOCK_MONOTONIC = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_ABSOLUTE = 1

#: What the constructor raises where the system has none.
NO_TIMERFD = (OSError, AttributeError, NotImplementedError)


class TimerFd:
    """A timer on the monotonic clock. Raises one of NO_TIMERFD where the system has none.

    Once its instant has passed, `wake` is called in every turn of the loop until `rest` or another `set`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        if sys.platform != "linux" or struct.calcsize("P") != 8:
            raise OSError("no 64-bit timerfd")
        libc = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self._settime.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p]
        self._fd: int = libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = loop
        loop.add_reader(self._fd, wake)

    def rest(self) -> None:
        """Nothing is waited for: it stops ringing. (Setting it anew does that too, and saves a read.)"""
        with suppress(OSError):  # nothing has rung, or it is closed
            os.read(self._fd, 8)

    def set(self, instant_ns: int) -> None:
        """Rings from that instant on [ns, monotonic]."""
        at = max(1, instant_ns)  # 0 would disarm it
        self._settime(self._fd, _ABSOLUTE, _ITIMERSPEC.pack(0, 0, at // _NS, at % _NS), None)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
