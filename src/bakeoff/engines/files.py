"""Model files: their hash (remembered between runs) and whether the page cache holds them."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import sys
import tempfile
from pathlib import Path
from typing import Literal

_REMEMBERED = 512  # files


def _store() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("bakeoff") / "model-hashes.json"


def sha256_of(path: Path, store: Path | None = None) -> str:
    """The file's SHA-256 in hex, hashed once per (path, size, modification time) and remembered in the user's cache.

    Raises OSError if the file cannot be read; a cache that cannot be read or written is done without.
    """
    store = store or _store()
    real = path.resolve()
    status = real.stat()
    key = f"{real}|{status.st_size}|{status.st_mtime_ns}"
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        loaded = json.loads(store.read_text())
        known = {str(k): str(v) for k, v in loaded.items()} if isinstance(loaded, dict) else {}
    if key in known:
        return known[key]
    with real.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    known = {**known, key: digest}
    with contextlib.suppress(OSError):
        _write(store, json.dumps(dict(list(known.items())[-_REMEMBERED:]), indent=0))
    return digest


def _write(store: Path, text: str) -> None:
    """Whole or not at all; of two writers at once the later one wins, which costs the other one hash."""
    store.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=store.parent, prefix=store.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).replace(store)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def page_cache(path: Path) -> Literal["warm", "cold", "unknown"]:
    """Whether the file lies in the page cache: warm ≥ 95 % of its pages, cold ≤ 5 %, else unknown (Linux only).

    Asks mincore(2), which looks and does not load. Newer kernels answer "all resident" for files that this user can
    neither own nor write, so those are unknown.
    """
    if sys.platform != "linux":
        return "unknown"
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size == 0 or not (os.access(path, os.W_OK) or status.st_uid == os.geteuid()):
                return "unknown"
            # A private, copy-on-write mapping: ctypes needs a writable buffer to take its address; nothing is written.
            with mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
                share = _resident_share(mapped)
    except (OSError, ValueError, AttributeError):
        return "unknown"
    if share is None or 0.05 < share < 0.95:
        return "unknown"
    return "warm" if share >= 0.95 else "cold"


def _resident_share(mapped: mmap.mmap) -> float | None:
    pages = -(-len(mapped) // mmap.PAGESIZE)
    vector = (ctypes.c_ubyte * pages)()
    view = ctypes.c_char.from_buffer(mapped)
    try:
        address = ctypes.c_void_p(ctypes.addressof(view))
        failed = ctypes.CDLL(None, use_errno=True).mincore(address, ctypes.c_size_t(len(mapped)), vector)
    finally:
        del view  # the mapping cannot be closed while its address is held
    return None if failed else 1 - bytes(vector).count(0) / pages
