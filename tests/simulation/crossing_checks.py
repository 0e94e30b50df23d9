"""Crossovers with a known place: how often what is said of them is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .checks import Line, told
from .counting import share
from .trials import fixed
from .world import World


@dataclass(frozen=True, kw_only=True)
class CrossingCheck:
    """place: the true crossing, None where there is none in the range measured."""

    group: str
    case: str
    world: World
    rounds: int
    place: float | None
    repetitions: int = 1000

    def trial(self, number: int) -> tuple[float, ...]:
        """(something false was said, a crossing was told, and it held the true place)."""
        _, crossings = fixed(self.world, self.rounds, self.group, self.case, number)
        mine = [c for c in crossings if (c.metric, c.statistic) == ("ttft_s", "p50")]
        told_at = [c.at for c in mine if c.at.point is not None]
        none = any(c.status == "none" for c in mine)
        if self.place is None:
            return float(bool(told_at)), float(none), 0.0
        right = [at.low is not None and at.high is not None and at.low <= self.place <= at.high for at in told_at]
        return float(none or not all(right)), float(bool(told_at)), float(bool(right) and all(right))

    def lines(self, found: Sequence[tuple[float, ...]]) -> list[Line]:
        wrong, seen, right = (share(column) for column in zip(*found, strict=True))
        lines = [self._line("a false statement", told(wrong), "≤ 5 %", wrong.at_most(0.05), wrong.trials)]
        if self.place is None:
            return [*lines, self._line("told that there is none", told(seen), "", None, seen.trials)]
        held = share([True] * right.hits + [False] * (seen.hits - right.hits))
        return [
            *lines,
            self._line("a crossing is told", told(seen), "", None, seen.trials),
            self._line("its interval holds the place", told(held), "≥ 93 %", held.at_least(0.93), held.trials),
        ]

    def _line(self, what: str, measured: str, target: str, ok: bool | None, trials: int) -> Line:
        return Line(self.group, self.case, what, measured, target, ok, trials)
