"""Words that every reader and report of traces shares."""

from __future__ import annotations

ENDS_EARLY = "the file ends early: later events are missing"


def counted(count: int, noun: str) -> str:
    """``1 event``, ``9,096 events``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
