"""Dividing time in which several events run at once, so that the parts add up to the union."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def shares(
    start: NDArray[np.int64], end: NDArray[np.int64], tier: NDArray[np.int8], window: tuple[int, int]
) -> NDArray[np.float64]:
    """Each event's part of the window's busy time, ns, shape (n,); the sum is the length of the events' union.

    An instant belongs to the events of the lowest tier that run in it, in equal parts: what runs hidden behind a lower
    tier costs nothing.
    """
    start, end = np.clip(start, *window), np.clip(end, *window)
    times, at = np.unique(np.concatenate([start, end]), return_inverse=True)
    begin, stop = at[: len(start)], at[len(start) :]
    result = np.zeros(len(start))
    if len(times) < 2:
        return result
    lasting = np.diff(times).astype(np.float64)
    free = np.ones(len(lasting), bool)
    for level in np.unique(tier):
        mine = tier == level
        change = np.bincount(begin[mine], minlength=len(times)) - np.bincount(stop[mine], minlength=len(times))
        active = np.cumsum(change)[:-1]
        part = np.where(free & (active > 0), lasting / np.maximum(active, 1), 0.0)
        total = np.concatenate(([0.0], np.cumsum(part)))
        result[mine] = total[stop[mine]] - total[begin[mine]]
        free &= active == 0
    return result


def innermost(start: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[list[int], list[int], list[int]]:
    """Nested ranges of one thread, by start and longer first, as disjoint pieces: (starts, ends, index of the range
    that is innermost in each piece). A range that outlives its parent is cut at the parent's end."""
    starts: list[int] = []
    ends: list[int] = []
    owners: list[int] = []
    stack: list[tuple[int, int]] = []  # (end, index)
    reached = 0

    def piece(upto: int) -> None:
        nonlocal reached
        if stack and upto > reached:
            starts.append(reached)
            ends.append(upto)
            owners.append(stack[-1][1])
        reached = max(reached, upto)

    for index, (a, b) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while stack and stack[-1][0] <= a:
            piece(stack[-1][0])
            stack.pop()
        piece(a)
        reached = max(reached, a)
        stack.append((min(b, stack[-1][0]) if stack else b, index))
    while stack:
        piece(stack[-1][0])
        stack.pop()
    return starts, ends, owners
