"""The bounds of reading, and the error for traces that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import BakeoffError


class TraceError(BakeoffError):
    """A trace that cannot be read or analysed: what is wrong with it, and what to do (exit code 2)."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a reader may use, so that a hostile file cannot exhaust the machine."""

    raw_bytes: int = 64 << 30  # decompressed text, read as a stream
    events: int = 50_000_000
    event_bytes: int = 16 << 20  # text of one event
    ratio: int = 300  # decompressed ÷ compressed; profiles stay under 100
    names: int = 2_000_000
    name_chars: int = 4096
