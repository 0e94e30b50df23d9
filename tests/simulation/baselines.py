"""What other ways to read the same data would have said: the errors that the method is there to avoid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from scipy import stats

from bakeoff.compare.pairs import Grid, make_series
from bakeoff.metrics import METRICS
from bakeoff.stats.paired import t_interval

from .checks import Line, told
from .counting import share
from .noise import Floats
from .world import Run, World

_TTFT = METRICS["ttft_s"]


def pair_logs(run: Run, statistic: str, *, start_every: int = 1) -> Floats:
    """Log ratios of the pairs of the first cell, as the compare path forms them."""
    names = [v.name for v in run.asked.variants]
    pairs = Grid(run.asked, run.blocks).pairs(names[0], names[1], run.asked.cells()[0].key)
    return make_series(pairs, _TTFT, statistic, start_every).logs


def _requests(run: Run, variant: str) -> Floats:
    arm = Grid(run.asked, run.blocks).arm(variant, run.asked.cells()[0].key)
    return np.asarray(np.log(np.concatenate([r.values["ttft_s"] for r in arm])), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class WelchOnRequests:
    """All requests of one arm against all of the other, each counted as independent; and the same of block means. The
    base is measured first, and each arm started once."""

    group: str
    case: str
    world: World
    rounds: int
    repetitions: int = 2000

    def trial(self, number: int) -> tuple[float, ...]:
        asked = msgspec.structs.replace(self.world.experiment, start_every=0)
        world = replace(self.world, experiment=asked, order="one after the other")
        run = world.measure(self.rounds, self.group, self.case, number)
        names = [v.name for v in run.asked.variants]
        base, other = (_requests(run, name) for name in names)
        means = [np.log([float(np.exp(part).mean()) for part in np.array_split(x, self.rounds)]) for x in (base, other)]
        requests = stats.ttest_ind(base, other, equal_var=False).pvalue < 0.05
        return float(requests), float(stats.ttest_ind(*means, equal_var=False).pvalue < 0.05)

    def lines(self, found: Sequence[tuple[float, ...]]) -> list[Line]:
        whats = "Welch on requests, AAA…BBB: false difference", "Welch on block means, AAA…BBB: false difference"
        return _told(self.group, self.case, whats, found)


@dataclass(frozen=True, kw_only=True)
class Peeking:
    """Student's t looked at after every pair from the sixth on, stopping when it excludes 0."""

    group: str
    case: str
    world: World
    rounds: int
    repetitions: int = 2000

    def trial(self, number: int) -> tuple[float, ...]:
        run = self.world.measure(self.rounds, self.group, self.case, number)
        logs = pair_logs(run, "mean")
        return (float(any(excludes_zero(logs[:n]) for n in range(6, self.rounds + 1))),)

    def lines(self, found: Sequence[tuple[float, ...]]) -> list[Line]:
        return _told(self.group, self.case, ("t after every pair: false difference at any look",), found)


@dataclass(frozen=True, kw_only=True)
class RoundsAsReplicates:
    """Every round of a start counted as a replicate."""

    group: str
    case: str
    world: World
    rounds: int
    repetitions: int = 2000

    def trial(self, number: int) -> tuple[float, ...]:
        run = self.world.measure(self.rounds, self.group, self.case, number)
        return (float(excludes_zero(pair_logs(run, "mean"))),)

    def lines(self, found: Sequence[tuple[float, ...]]) -> list[Line]:
        return _told(self.group, self.case, ("rounds counted, not starts: false difference",), found)


def excludes_zero(logs: Floats) -> bool:
    """Whether Student's 95 % interval does."""
    interval = t_interval(logs, 0.05)
    return interval.low is not None and interval.high is not None and (interval.low > 0 or interval.high < 0)


def _told(group: str, case: str, whats: Sequence[str], found: Sequence[tuple[float, ...]]) -> list[Line]:
    columns = zip(*found, strict=True)
    return [
        Line(group, case, what, told(seen), "", None, seen.trials)
        for what, seen in zip(whats, map(share, columns), strict=True)
    ]
