"""One writer at a time, by an advisory lock of the operating system.

The kernel drops the lock with the process that holds it, however that process ends, so there is no stale lock to
clean up; what stays in the file is only a note of who held it last.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import RunFolderError


class LockHeld(Exception):
    """Another process holds the lock. `pid` is what it noted, or None."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"held by process {pid}" if pid else "held by another process")
        self.pid = pid


@contextlib.contextmanager
def exclusive(path: Path, *, on_wait: Callable[[int | None], None] | None = None) -> Iterator[None]:
    """Holds the lock file `path`. Without `on_wait` a held lock raises LockHeld; with it, it is told and waits.

    Raises OSError where the file cannot be made or the file system has no locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _noted_pid(descriptor)
            if on_wait is None:
                raise LockHeld(pid) from None
            on_wait(pid)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def is_held(lock: Path) -> bool:
    """Whether a process holds the lock right now; changes nothing, so it works on a read-only folder too."""
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def alone(run: Path) -> Iterator[None]:
    """Holds the lock of a run folder. Raises RunFolderError where another process has it, or none can be taken."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(exclusive(run / ".lock"))
        except LockHeld as other:
            raise RunFolderError(
                f"{f'process {other.pid}' if other.pid else 'another process'} is measuring into this run",
                where=str(run),
                remedy="wait until it ends, or stop it first",
            ) from None
        except OSError as error:
            raise RunFolderError(
                f"cannot lock the run for writing ({error.strerror or error})",
                where=str(run / ".lock"),
                remedy="fix the folder's permissions, or copy the run to a folder that you can write to",
            ) from error
        yield


def _noted_pid(descriptor: int) -> int | None:
    text = os.pread(descriptor, 20, 0).strip()
    return int(text) if text.isdigit() else None
