"""Nesting of host events: who was innermost on a thread at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .timeline import HostEvents


def innermost_at(
    host: HostEvents, among: NDArray[np.int64], threads: NDArray[np.int32], times: NDArray[np.int64]
) -> NDArray[np.int32]:
    """For each (thread, time) the innermost of the events ``among`` (indices, by start) that is open then; −1: none.

    Ranges of one thread are taken as properly nested. By depth: the innermost event open at a time is the last one
    before it whose depth is the number of open ranges minus one; no loop over events is needed.
    """
    result = np.full(len(times), -1, np.int32)
    for thread in np.unique(threads):
        mine = among[host.thread[among] == thread]
        if not len(mine):
            continue
        asked = np.flatnonzero(threads == thread)
        start, end = host.start[mine], host.end[mine]
        ends = np.sort(end)
        when = times[asked]
        # Ended strictly before: an event is open on both of its borders.
        open_count = np.searchsorted(start, when, "right") - np.searchsorted(ends, when, "left")
        depth = depths(start, end)
        for level in np.unique(open_count[open_count > 0]):
            at_level = np.flatnonzero(depth == level - 1)
            here = np.flatnonzero(open_count == level)
            if not len(at_level):
                continue
            found = at_level[np.maximum(np.searchsorted(start[at_level], when[here], "right") - 1, 0)]
            good = (start[found] <= when[here]) & (when[here] <= end[found])
            result[asked[here[good]]] = mine[found[good]]
    return result


def depths(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many earlier ranges of the same thread are still open when each one starts. Sorted by start."""
    return np.arange(len(start)) - np.searchsorted(np.sort(end), start, "right")
