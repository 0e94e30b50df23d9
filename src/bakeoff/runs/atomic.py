"""Writing a file whole or not at all, and reading one without trusting its size or kind.

A rename within one folder is atomic on POSIX file systems: a reader sees the old file, the new one or none, never a
half. The file is flushed to the disk before the rename and the folder after it, so the order holds over a power cut.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from ..errors import RunFolderError

TEMPORARY = ".tmp"


def write_atomic(path: Path, fill: Callable[[Path], None]) -> None:
    """Calls `fill` with a temporary path beside `path`, then commits what it wrote there under `path`.

    The temporary name ends in ``.tmp`` and holds the process id, so two processes never write the same one.
    Raises what `fill` raises, and OSError; then `path` is as it was.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        fill(temporary)
        commit(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """Writes `data` to `path`, whole or not at all."""
    write_atomic(path, lambda temporary: _store(temporary, data))


def _store(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def commit(temporary: Path, path: Path) -> None:
    """Flushes `temporary` to the disk, renames it to `path` and flushes the folder's entry."""
    _sync(temporary)
    temporary.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def regular_size(path: Path, limit: int) -> int:
    """Size of a regular file [bytes]. Raises RunFolderError if it is missing, no regular file, or above `limit`.

    A folder from elsewhere may hold a pipe or a device under an innocent name; opening one could wait for ever.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        raise RunFolderError("the file is missing", where=str(path), remedy="copy the run folder whole") from None
    except OSError as error:
        raise RunFolderError(
            f"the file cannot be read ({error.strerror})", where=str(path), remedy="check the folder's permissions"
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise RunFolderError("this is not a regular file", where=str(path), remedy="remove it from the run folder")
    if status.st_size > limit:
        raise RunFolderError(
            f"the file has {status.st_size:,} bytes, more than the {limit:,} that Bakeoff reads",
            where=str(path),
            remedy="it does not come from Bakeoff; remove it from the run folder",
        )
    return status.st_size


def read_bounded(path: Path, limit: int) -> bytes:
    """The bytes of a regular file of at most `limit` bytes. Raises RunFolderError."""
    regular_size(path, limit)
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise RunFolderError(
            f"the file cannot be read ({error.strerror})", where=str(path), remedy="check the folder's permissions"
        ) from None


def remove_temporaries(folder: Path) -> int:
    """Deletes what an interrupted write left in `folder`; call it only while no other process writes there."""
    removed = 0
    for leftover in folder.glob(f"*{TEMPORARY}"):
        with contextlib.suppress(OSError):
            leftover.unlink()
            removed += 1
    return removed
