"""An end that is asked for from outside (SIGTERM, SIGHUP): orderly at any moment.

A handler that simply raises would do so between any two instructions: inside of the event loop, which it breaks, or
in the middle of an orderly end. So a running loop is told to cancel its work; what must not be cut short holds the
end back; and only elsewhere KeyboardInterrupt is raised where the program stands.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator

_SIGNALS = ("SIGTERM", "SIGHUP")
_ONCE_S = 1.0  # a service manager sends two signals at once, and a user presses twice: that is one wish


class _Wish:
    """What is known of one: signals belong to the process, and so does this."""

    def __init__(self) -> None:
        self.listening = False
        self.asked = False
        self.waiting = False  # asked for while it was held back
        self.holds = 0
        self.raised_at = float("-inf")
        self.cancels: list[Callable[[], None]] = []  # of the loops that run, the innermost last

    def ask(self) -> None:
        self.asked = True
        if self.holds:
            self.waiting = True
        elif self.cancels:
            self.cancels[-1]()
        elif time.monotonic() - self.raised_at > _ONCE_S:
            self.raised_at = time.monotonic()
            raise KeyboardInterrupt

    def deliver(self) -> None:
        """Meets what waits, where nothing holds it back."""
        if self.waiting and not self.holds:
            self.waiting = False
            self.raised_at = time.monotonic()
            raise KeyboardInterrupt


_WISH = _Wish()


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """SIGTERM and SIGHUP end what happens inside like Ctrl-C, with KeyboardInterrupt; an ignored one (nohup) stays so.

    Only the main thread may set handlers; elsewhere, and inside of another `listening`, nothing changes.
    """
    if _WISH.listening or threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    _WISH.listening, _WISH.asked, _WISH.waiting = True, False, False  # what an earlier run was told is over
    _WISH.raised_at = float("-inf")
    try:
        for number in numbers:
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, lambda _number, _frame: _WISH.ask())
        yield
    finally:
        for number in numbers:
            if before[number] is not None:  # None: set by other code than Python's, and kept
                signal.signal(number, before[number])
        _WISH.listening = _WISH.asked = False


def asked() -> bool:
    """Whether an end was asked for since `listening` began."""
    return _WISH.asked


@contextlib.contextmanager
def held() -> Iterator[None]:
    """What happens inside is not cut short: a wish that comes meanwhile raises KeyboardInterrupt at its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, _WISH.holds = _WISH.holds, _WISH.holds + 1
    try:
        yield
    finally:
        _WISH.holds = before
        _WISH.deliver()


@contextlib.contextmanager
def loose() -> Iterator[None]:
    """Inside of `held`: here a wish to end is met at once after all."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, _WISH.holds = _WISH.holds, 0
    try:
        _WISH.deliver()
        yield
    finally:
        _WISH.holds = before


@contextlib.contextmanager
def cancelled_by(cancel: Callable[[], None]) -> Iterator[None]:
    """A wish calls `cancel` (in the main thread, at any moment) instead of raising."""
    _WISH.cancels.append(cancel)
    try:
        yield
    finally:
        _WISH.cancels.remove(cancel)
