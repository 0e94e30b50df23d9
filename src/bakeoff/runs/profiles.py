"""Profiled passes of a run: which trace belongs to which variant (``traces/profiles.json``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..model import Profile
from .documents import read_document, write_document

SCHEMA = "bakeoff.profiles/1"
_NAME = "profiles.json"


class _Profiles(msgspec.Struct, frozen=True, kw_only=True):
    schema: str = SCHEMA
    profiles: tuple[Profile, ...] = ()


def read_profiles(traces: Path) -> tuple[Profile, ...]:
    """The passes of a run, by its folder ``traces``; none where nothing was profiled. Raises RunFolderError."""
    path = traces / _NAME
    return read_document(path, _Profiles, SCHEMA).profiles if path.exists() else ()


def write_profiles(traces: Path, profiles: Sequence[Profile]) -> None:
    """Writes them, whole or not at all. Raises OSError."""
    traces.mkdir(exist_ok=True)
    write_document(traces / _NAME, _Profiles(profiles=tuple(profiles)))
