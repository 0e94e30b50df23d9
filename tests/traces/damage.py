"""Damaging files on purpose, and what a reader owes then: an answer or a refusal, never a crash."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from bakeoff.traces import Timeline, TraceError, read

#: Bytes overwritten, each as (place in the file 0..1, new value).
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=40)
#: How much of the file is left.
CUT = st.floats(0.05, 1)


def damaged(data: bytes, edits: list[tuple[float, int]], cut: float, *, keep: int = 0) -> bytes:
    """The file with bytes overwritten (its first `keep` stay) and its end cut off."""
    changed = bytearray(data)
    for place, value in edits:
        changed[keep + int(place * (len(changed) - 1 - keep))] = value
    return bytes(changed[: max(keep + 30, int(len(changed) * cut))])


def read_or_refused(path: Path, format: str) -> Timeline | None:
    """None when the reader refuses the file as it should, with a message."""
    try:
        return read(path, format=format)
    except TraceError as error:
        if not error.message:
            raise
        return None


def sound(timeline: Timeline | None) -> bool:
    """Whether what was read keeps a Timeline's promises: sorted by start, no negative duration, names that exist."""
    if timeline is None:
        return True
    for events in (timeline.gpu, timeline.host):
        if (events.end < events.start).any() or (events.start[1:] < events.start[:-1]).any():
            return False
        if len(events) and (events.name.min() < 0 or events.name.max() >= len(timeline.names)):
            return False
    return True
