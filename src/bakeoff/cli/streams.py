"""Standard streams that were closed (``bakeoff … >&-``) become ones to nowhere."""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Opens the null device on each of the descriptors 0, 1 and 2 that is closed, with its object in `sys`.

    Else the next file or socket to be opened takes the number, and what is printed goes there. To be called before
    anything opens one.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)  # POSIX: the lowest that is free
            os.set_inheritable(number, True)  # servers inherit the streams, as they do from a shell
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as the process
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
