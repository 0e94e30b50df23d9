"""JSON files of a run: readable by people, strict, bounded, and of a known schema."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from ..errors import RunFolderError
from . import atomic

MAX_JSON_BYTES = 64 * 2**20

T = TypeVar("T")


def write_document(path: Path, value: msgspec.Struct) -> None:
    """Writes a struct as indented JSON, whole or not at all. Infinities and NaN become null. Raises OSError."""
    atomic.write_bytes(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def read_document(path: Path, kind: type[T], schema: str) -> T:
    """Reads a JSON file of ours. Its schema is looked at first, so that a newer file says so. Raises RunFolderError."""
    data = atomic.read_bounded(path, MAX_JSON_BYTES)
    try:
        found = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get("schema")
        version = msgspec.json.decode(bytes(found)) if found is not None else None
        if version != schema:
            raise RunFolderError(
                f"the file's schema is {str(version)[:60]!r}, this Bakeoff reads {schema!r}",
                where=str(path),
                remedy="read it with the Bakeoff version that wrote it",
            )
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RunFolderError(
            f"the file is damaged: {error}", where=str(path), remedy="restore it from a copy of the run"
        ) from error
