"""What the method promises, as checks: a world, how often to measure it, and what must be seen how often.

A check runs one repetition at a time (`trial`, a pure function of the repetition's number, so that repetitions may run
anywhere) and turns all of them into lines of a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from .counting import Share, share
from .trials import Claim, Claims, Look, ends_at, fixed, watched
from .world import World

Row = tuple[str, str, str]  # cell, metric, statistic
TYPICAL: Row = ("chat/c1", "ttft_s", "p50")
MEAN: Row = ("chat/c1", "ttft_s", "mean")


class Line(NamedTuple):
    """One line of the table. ok None: told, not demanded."""

    group: str
    case: str
    what: str
    measured: str
    target: str
    ok: bool | None
    trials: int


class Check(Protocol):
    """`repetitions`: of the full form."""

    @property
    def group(self) -> str: ...
    @property
    def case(self) -> str: ...
    @property
    def rounds(self) -> int: ...
    @property
    def repetitions(self) -> int: ...
    def trial(self, number: int) -> tuple[float, ...]:
        """What one repetition showed, a number a line: 1 or 0, or a count (NaN: did not happen)."""

    def lines(self, found: Sequence[tuple[float, ...]]) -> list[Line]: ...


Kind = Literal[
    "false difference",  # the interval excludes 0 though the truth is 0
    "coverage",  # the interval holds the truth
    "miss",  # the interval, at any look, does not hold the truth
    "found",  # the interval excludes 0, as it should
    "equivalent",
    "invalid",
    "any gate",  # any gate's interval excludes 0
    "any explored",  # any explored row is called anything but undecided or equivalent
]


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Of one row (None: of all rows of the kind). limit: share allowed or wanted; None: told only."""

    kind: Kind
    row: Row | None = TYPICAL
    limit: float | None = None

    @property
    def what(self) -> str:
        words = {"miss": "truth outside", "found": "difference found", "equivalent": "`equivalent`"}
        words |= {"any gate": "any gate excludes 0", "any explored": "any explored row claims something"}
        word = words.get(self.kind, self.kind)
        return f"{word} ({'typical' if self.row[2] == 'p50' else self.row[2]})" if self.row else word

    def holds(self, claims: Claims, truth: float) -> bool:
        if self.kind == "any gate":
            return any(c.excludes_zero for c in claims.values() if c.gate)
        if self.kind == "any explored":
            quiet = ("inconclusive", "equivalent", "invalid")
            return any(c.outcome not in quiet for c in claims.values() if not c.gate)
        assert self.row is not None
        return _holds(self.kind, claims[self.row], truth)

    def line(self, check: Check, seen: Share) -> Line:
        low, high = 0.93, 0.975
        if self.kind == "coverage":
            target, ok = "93–97.5 %", seen.at_least(low) and seen.at_most(high)
        elif self.limit is None:
            target, ok = "", None
        elif self.kind == "found":
            target, ok = f"≥ {100 * self.limit:g} %", seen.at_least(self.limit)
        else:
            target, ok = f"≤ {100 * self.limit:g} %", seen.at_most(self.limit)
        return Line(check.group, check.case, self.what, told(seen), target, ok, seen.trials)


def _holds(kind: Kind, claim: Claim, truth: float) -> bool:
    tests: dict[str, Callable[[], bool]] = {
        "false difference": lambda: claim.excludes_zero,
        "coverage": lambda: not claim.misses(truth),
        "miss": lambda: claim.misses(truth),
        "found": lambda: claim.excludes_zero,
        "equivalent": lambda: claim.outcome == "equivalent",
        "invalid": lambda: claim.outcome == "invalid",
    }
    return tests[kind]()


def told(seen: Share) -> str:
    """``4.6 % ± 0.5``"""
    return f"{100 * seen.value:.1f} % ± {100 * seen.error:.1f}"


@dataclass(frozen=True, kw_only=True)
class FixedCheck:
    """One look at so many rounds."""

    group: str
    case: str
    world: World
    rounds: int
    demands: tuple[Demand, ...]
    truth: float = 0.0
    repetitions: int = 2000

    def trial(self, number: int) -> tuple[float, ...]:
        claims, _ = fixed(self.world, self.rounds, self.group, self.case, number)
        return tuple(float(demand.holds(claims, self.truth)) for demand in self.demands)

    def lines(self, found: Sequence[tuple[float, ...]]) -> list[Line]:
        columns = zip(*found, strict=True)
        return [demand.line(self, share(column)) for demand, column in zip(self.demands, columns, strict=True)]


@dataclass(frozen=True, kw_only=True)
class WatchedCheck:
    """The stop rule after every start group. `demands` hold where they hold at any look (`invalid`: at the end).

    times: tell the mean number of rounds to the first look that is so.
    """

    group: str
    case: str
    world: World
    rounds: int
    demands: tuple[Demand, ...] = ()
    times: tuple[Literal["stop", "slower", "excludes 0"], ...] = ()
    truth: float = 0.0
    every: int = 1
    first: int = 2
    to_the_end: bool = True
    repetitions: int = 400

    def trial(self, number: int) -> tuple[float, ...]:
        run = self.world.measure(self.rounds, self.group, self.case, number)
        looks = watched(run, self.rounds, every=self.every, first=self.first, to_the_end=self.to_the_end)
        end = ends_at(looks)
        seen = [
            demand.holds(end.claims, self.truth)
            if demand.kind == "invalid"
            else any(demand.holds(look.claims, self.truth) for look in looks)
            for demand in self.demands
        ]
        return (*(float(s) for s in seen), *(self._time(name, looks) for name in self.times))

    def _time(self, name: str, looks: Sequence[Look]) -> float:
        """Rounds to the first look, NaN where it never came."""
        least = self.world.experiment.budget.min_pairs
        tests: dict[str, Callable[[Look], bool]] = {
            "stop": lambda look: look.stops,
            "slower": lambda look: look.claims[TYPICAL].outcome == "slower",
            "excludes 0": lambda look: look.claims[TYPICAL].excludes_zero,
        }
        return next((float(k.rounds) for k in looks if k.rounds >= least and tests[name](k)), math.nan)

    def lines(self, found: Sequence[tuple[float, ...]]) -> list[Line]:
        columns = list(zip(*found, strict=True))
        lines = []
        for demand, column in zip(self.demands, columns, strict=False):
            line = demand.line(self, share(column))
            lines.append(line._replace(what=line.what + (", at the end" if demand.kind == "invalid" else ", any look")))
        for name, column in zip(self.times, columns[len(self.demands) :], strict=True):
            times = [self.rounds if math.isnan(value) else value for value in column]
            mean = sum(times) / len(times)
            error = math.sqrt(sum((t - mean) ** 2 for t in times) / max(1, len(times) - 1) / len(times))
            never = sum(map(math.isnan, column)) / len(column)
            text = f"{mean:.1f} ± {error:.1f}" + (f" ({100 * never:.0f} % not by {self.rounds})" if never else "")
            what = {"stop": "the run ends", "slower": "`slower`", "excludes 0": "the interval excludes 0"}[name]
            lines.append(Line(self.group, self.case, f"pairs until {what}", text, "", None, len(times)))
        return lines
