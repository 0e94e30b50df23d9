"""One simulated experiment through the whole compare path, and what it claimed.

Fixed n: `compare_blocks` once, at the end. Anytime: the stop rule (`Judge`) after every start group, to the last round
that the budget allows, also beyond the place where it would have stopped: so that no error at any look is missed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

from bakeoff.app import verdict
from bakeoff.compare import compare_blocks, pairs
from bakeoff.model import Comparison, Crossing, Outcome, Result

from .world import Run, World


class Claim(NamedTuple):
    """One row. Bounds are log ratios, infinite where there are none."""

    low: float
    high: float
    outcome: Outcome
    gate: bool

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    def misses(self, truth: float) -> bool:
        return truth < self.low or truth > self.high


#: (cell key or "", metric, statistic) → claim
Claims = dict[tuple[str, str, str], Claim]


class Look(NamedTuple):
    """What was claimed after so many rounds, and whether the stop rule would have ended the run there."""

    rounds: int
    claims: Claims
    stops: bool


def claims_of(result: Result) -> Claims:
    return {
        (_cell(row), row.metric, row.statistic): Claim(
            -math.inf if row.ratio.low is None else math.log(row.ratio.low),
            math.inf if row.ratio.high is None else math.log(row.ratio.high),
            row.outcome,
            row.gate,
        )
        for row in (*result.comparisons, *result.resources)
    }


def _cell(row: Comparison) -> str:
    level = next(iter(row.load.values()), 0.0)
    return f"{row.workload}/c{level:g}" if row.workload else ""


def concluded(run: Run) -> Result:
    """The result of the complete run."""
    return compare_blocks(run.asked, run.blocks, run.starts, run="", state="complete")


def fixed(world: World, rounds: int, *seed: int | str) -> tuple[Claims, tuple[Crossing, ...]]:
    """One look at a run of a fixed number of pairs."""
    result = concluded(world.measure(rounds, *seed))
    return claims_of(result), result.crossings


def watched(run: Run, rounds: int, *, every: int = 1, first: int = 2, to_the_end: bool = True) -> list[Look]:
    """The stop rule's looks. every: rounds of a start group. first: rounds before the first look. to_the_end: looks
    go on beyond the place where the run would have ended."""
    seen: list[Result] = []

    def recording(*args: Any, **kw: Any) -> Result:
        seen.append(compare_blocks(*args, **kw))
        return seen[-1]

    looks: list[Look] = []
    with remembered(), mock.patch.object(verdict, "compare_blocks", recording):
        for done in range(every, rounds + 1, every):
            if done < first:
                continue
            so_far = run.until(done)
            judge = verdict.Judge(run.asked, lambda now=so_far: now.blocks, lambda now=so_far: now.starts)  # type: ignore[misc]
            stops = judge(done).stop is not None
            looks.append(Look(done, claims_of(seen[-1]), stops))
            if stops and not to_the_end:
                break
    return looks


def ends_at(looks: Sequence[Look]) -> Look:
    """The look at which the run ends: the first at which it stops, else the last."""
    return next((look for look in looks if look.stops), looks[-1])


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """Values of single blocks and pairs are computed once and not again at every look: the same functions of the same
    arguments, which live as long as the run does."""
    with contextlib.ExitStack() as stack:
        for name, key in (
            ("extract", lambda data, **_: id(data)),
            ("block_value", lambda requests, metric, statistic: (id(requests), metric.name, statistic)),
            (
                "pair_log_ratio",
                lambda pair, metric, statistic: (id(pair.base), id(pair.other), metric.name, statistic),
            ),
        ):
            stack.enter_context(mock.patch.object(pairs, name, _once(getattr(pairs, name), key)))
        yield


def _once(function: Any, key: Any) -> Any:
    values: dict[Any, tuple[Any, Any]] = {}

    def call(*args: Any, **kw: Any) -> Any:
        at = key(*args, **kw)
        if at not in values:
            values[at] = (args, function(*args, **kw))  # the arguments are kept, so that no id is used again
        return values[at][1]

    return call
