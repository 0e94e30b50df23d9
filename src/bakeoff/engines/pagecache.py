"""Model files out of the page cache, or into it, before a start: what a cold start reads is then known.

posix_fadvise(2) with DONTNEED asks the kernel to drop a file's clean pages; it needs no privilege, and it does nothing
for pages that another process has mapped, or on a file system that lives in memory. So the state is looked at
afterwards (see `files.page_cache`), and a start is called cold only where it is.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Literal

_CHUNK = 16 * 1024 * 1024


def settle(path: Path, wanted: Literal["as found", "warm", "cold"]) -> None:
    """Brings a file, or all files below a folder, into the wanted state as far as this machine allows."""
    if wanted == "as found":
        return
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    for file in files:
        with contextlib.suppress(OSError):
            if wanted == "cold":
                _drop(file)
            else:
                _read(file)


def _drop(path: Path) -> None:
    if not hasattr(os, "posix_fadvise"):  # macOS
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(handle)  # dirty pages are not dropped
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def _read(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(_CHUNK)
        while file.readinto(buffer):
            pass
