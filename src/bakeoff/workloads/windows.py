"""Which entries a round gets: shuffled ones of a file, or the next window of a trace. The same for every arm."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol

from .seeds import derive_seed


class Windows(Protocol):
    """Entry numbers, round by round."""

    def number(self, round_: int, place: int) -> int:
        """The entry at a place (from 0) of a round; there is one at every place, however far."""

    def repeats(self, round_: int, count: int) -> bool:
        """Whether so many entries of a round go beyond the end, so that some have been used before."""


class Sampler:
    """Draws entries without replacement, in an order that depends on the seed alone.

    Round r takes entries from place r × stride on; when all are used, they are shuffled anew.
    """

    def __init__(self, size: int, *, stride: int, seed: int) -> None:
        self._size = size
        self._stride = stride
        self._seed = seed
        self._orders: dict[int, list[int]] = {}

    def numbers(self, round_: int, count: int) -> list[int]:
        """Entry numbers of a round's first places."""
        return [self.number(round_, place) for place in range(count)]

    def number(self, round_: int, place: int) -> int:
        """The entry at a place of a round."""
        epoch, rest = divmod(round_ * self._stride + place, self._size)
        if epoch not in self._orders:
            while len(self._orders) > 1:  # two epochs can meet in a block; older ones are done with
                del self._orders[min(self._orders)]
            self._orders[epoch] = shuffled(self._size, derive_seed(self._seed, "order", epoch))
        return self._orders[epoch][rest]

    def repeats(self, round_: int, count: int) -> bool:
        """Whether this round needs a prompt that an earlier request has had."""
        return round_ * self._stride + count > self._size


def shuffled(size: int, seed: int) -> list[int]:
    """0 … size − 1 in a random order, the same in every Python."""
    # Fisher–Yates over random(): the one draw whose stream Python promises to keep.
    draw = random.Random(seed).random
    order = list(range(size))
    for last in range(size - 1, 0, -1):
        other = int(draw() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def subset(size: int, count: int, seed: int) -> list[int]:
    """`count` of the numbers 0 … size − 1, drawn without replacement, ascending."""
    return sorted(shuffled(size, derive_seed(seed, "sample"))[:count])


class TraceWindows:
    """Windows of a trace, one after the other, in its own order; after the end it begins again.

    arrivals_ns: of every request, ascending. Either `requests` a window, or `seconds` of the trace's own time a
    window; of the latter, those whose first `least` seconds hold no request are passed over.
    """

    def __init__(
        self,
        arrivals_ns: Sequence[int],
        *,
        requests: int | None = None,
        seconds: float | None = None,
        least: float | None = None,
    ) -> None:
        self._arrivals = arrivals_ns
        self._size = len(arrivals_ns)
        self._requests = requests
        self._width = None if seconds is None else max(1, round(seconds * 1e9))
        self._least = self._width if least is None else max(1, round(least * 1e9))
        self._used: list[int] = []  # windows by time that hold requests
        self.windows = 0  # windows by time in all
        if self._width is not None and self._least is not None:
            self.windows = arrivals_ns[-1] // self._width + 1
            held = {a // self._width for a in arrivals_ns if a % self._width < self._least}
            self._used = sorted(held) or [0]
        # Where the trace begins again, its first request follows the last one at the mean distance.
        self._span = arrivals_ns[-1] + max(1, arrivals_ns[-1] // max(1, self._size - 1))

    @property
    def empty(self) -> int:
        """Windows by time that are passed over."""
        return self.windows - len(self._used) if self._width is not None else 0

    def number(self, round_: int, place: int) -> int:
        """The request at a place of a round's window."""
        return (self._first(round_) + place) % self._size

    def repeats(self, round_: int, count: int) -> bool:
        """Whether the window of a round lies beyond the end of the trace, or reaches over it."""
        if self._width is not None:
            return round_ >= len(self._used)
        return self._first(round_) + count > self._size

    def offsets(
        self, round_: int, speed: float, *, count: int | None = None, seconds: float | None = None
    ) -> tuple[int, ...]:
        """Arrivals of a round's window [ns from the block's start], `speed` times as fast as they were.

        count: that many requests, the first of them at 0. seconds: what came within that time of the block, from the
        window's beginning in the trace's time on.
        """
        first = self._first(round_)
        if count is not None:
            start = self._at(first)
            return tuple(round((self._at(first + place) - start) / speed) for place in range(count))
        start = self._used[round_ % len(self._used)] * (self._width or 0)
        last = bisect_left(self._arrivals, start + (seconds or 0.0) * 1e9 * speed)
        offsets = (round((self._arrivals[place] - start) / speed) for place in range(first % self._size, last))
        end = round((seconds or 0.0) * 1e9)
        return tuple(min(offset, end - 1) for offset in offsets)

    def _first(self, round_: int) -> int:
        """The first request of a round; from the trace's size on it is one of a repetition."""
        if self._width is None:
            return round_ * (self._requests or 1)
        epoch, place = divmod(round_, len(self._used))
        return epoch * self._size + bisect_left(self._arrivals, self._used[place] * self._width)

    def _at(self, number: int) -> int:
        """Arrival of a request, counted on beyond the trace's end [ns]."""
        epoch, place = divmod(number, self._size)
        return epoch * self._span + self._arrivals[place]
