"""Shares over repetitions, with the error that their number leaves."""

from __future__ import annotations

import math
from typing import NamedTuple


class Share(NamedTuple):
    """hits of trials."""

    hits: int
    trials: int

    @property
    def value(self) -> float:
        return self.hits / self.trials if self.trials else math.nan

    @property
    def error(self) -> float:
        """Monte Carlo standard error, by one added hit and miss (so that it is never 0)."""
        p = (self.hits + 1) / (self.trials + 2)
        return math.sqrt(p * (1 - p) / max(1, self.trials))

    def at_most(self, target: float) -> bool:
        """Not above the target by more than two Monte Carlo errors of a share that lies on it."""
        return self.value <= target + 2 * _error(target, self.trials)

    def at_least(self, target: float) -> bool:
        return self.value >= target - 2 * _error(target, self.trials)


def share(hits: object) -> Share:
    """Of an iterable of truths."""
    found = [bool(hit) for hit in hits]  # type: ignore[attr-defined]  # any iterable
    return Share(sum(found), len(found))


def _error(target: float, trials: int) -> float:
    return math.sqrt(target * (1 - target) / max(1, trials))
