"""Arithmetic on sets of time intervals, as arrays of starts and ends in ns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Union = tuple[Ints, Ints]  # starts and ends: sorted, disjoint, not touching


def union(start: Ints, end: Ints) -> Union:
    """The union of intervals in any order. A union and never a sum: what overlaps is counted once."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return start[first], reach[last]


def length(intervals: Union) -> int:
    """Total length of disjoint intervals, ns."""
    return int((intervals[1] - intervals[0]).sum())


def clipped(intervals: Union, window: tuple[int, int] | None) -> Union:
    """What of disjoint intervals lies inside the window."""
    if window is None:
        return intervals
    first, last = touching(intervals, window)
    return np.maximum(intervals[0][first:last], window[0]), np.minimum(intervals[1][first:last], window[1])


def touching(intervals: Union, window: tuple[int, int]) -> tuple[int, int]:
    """(first, behind the last) of the disjoint intervals that have a part inside the window; found by bisection."""
    first = int(np.searchsorted(intervals[1], window[0], "right"))
    return first, max(first, int(np.searchsorted(intervals[0], window[1], "left")))


def covered_before(intervals: Union, times: Ints) -> Ints:
    """For each time, how much of the disjoint intervals lies before it, ns."""
    start, end = intervals
    if not len(start):
        return np.zeros(len(times), np.int64)
    total = np.concatenate(([0], np.cumsum(end - start)))
    at = np.searchsorted(start, times, "right")
    # The last interval that began may still be running: take its rest off again.
    running = np.maximum(end[np.maximum(at, 1) - 1] - times, 0)
    return np.asarray(total[at] - np.where(at > 0, running, 0), np.int64)


def overlap(first: Union, second: Union) -> int:
    """|first ∩ second|, ns."""
    return int((covered_before(second, first[1]) - covered_before(second, first[0])).sum())


def covered(intervals: Union, start: Ints, end: Ints) -> Ints:
    """For each query [start, end) how much of it the disjoint intervals cover, ns."""
    return covered_before(intervals, end) - covered_before(intervals, start)
