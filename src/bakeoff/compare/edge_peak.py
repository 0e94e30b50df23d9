"""Whether throughput still rises at the highest level of a sweep, so that the peak lies beyond the levels measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..model import Cell, Experiment, Interval
from ..stats import anytime, paired
from ..stats.estimators import throughput
from ..units import change
from .extract import Requests

#: As the search counts a step: one that adds less throughput than this has added nothing.
RISE = 0.05


class Climb(NamedTuple):
    """What the highest level adds to an arm's throughput over the best level below it. gain: log ratio, over rounds."""

    below: float
    highest: float
    gain: Interval
    unit: str  # of the levels

    @property
    def rising(self) -> bool:
        """The typical round gains more than a step has to."""
        return self.gain.point is not None and self.gain.point > math.log1p(RISE)

    @property
    def surely(self) -> bool:
        """The rounds exclude a step that adds nothing."""
        return self.gain.low is not None and self.gain.low > math.log1p(RISE)

    def sentence(self, name: str, high: float) -> str:
        """Why the peak is open. high: upper end of the search."""
        more = "raise `high`" if self.highest >= math.floor(high) else "measure higher levels"
        if self.surely:
            return f"{name} is still rising at {self.highest:g}, the highest level: {more}"
        step = f"{self.below:g} → {self.highest:g} {self.unit} adds {change(math.exp(self.gain.point or 0.0))}"
        return f"{name} may still rise: {step}, not surely over {RISE * 100:g} %; take more rounds or larger blocks"


def climb(experiment: Experiment, cells: Sequence[Cell], rounds: Sequence[Sequence[Requests]]) -> Climb | None:
    """The last step of one arm. cells: by rising level. rounds: its blocks in all of them. None: nothing to compare."""
    rates = [[block.per_block["request_throughput_rps"] for block in blocks] for blocks in rounds]
    whole = [i for i, row in enumerate(rates) if len(row) > 1 and all(math.isfinite(r) and r > 0 for r in row)]
    if not whole:
        return None
    means = np.mean(np.log([rates[i][:-1] for i in whole]), axis=0)
    below = int(np.argmax(means))
    most = math.ceil(cells[below].level) if cells[below].kind == "closed" else 0
    best = [fullest_rate(rounds[i][below], rates[i][below], most) for i in whole]
    steps = np.array([math.log(rates[i][-1] / rate) for i, rate in zip(whole, best, strict=True)])
    alpha = 1 - experiment.confidence
    gain = anytime.interval(steps, alpha) if experiment.method == "anytime" else paired.t_interval(steps, alpha)
    unit = "at a time" if cells[0].kind == "closed" else "requests/s"
    return Climb(cells[below].level, cells[-1].level, gain, unit)


def fullest_rate(requests: Requests, rate: float, most: int) -> float:
    """The rate of a block [requests/s] if its window had ended at the best moment near its end; at least `rate`.

    A server completes requests that are alike in bunches. Answers under way count by the share that arrived, but the
    reading of prompts does not, and an answer of one chunk counts as a whole: a window that ends within a bunch then
    has its time and not its requests. So the window is let end at each of its last completions. most: requests at a
    time, as many as one bunch can hold.
    """
    start, end = requests.block.window_ns
    first, last = (np.asarray(requests.columns[n], dtype=np.int64) for n in ("first_token_ns", "last_token_ns"))
    ends = np.sort(last[requests.ok & (last > start) & (last <= end)])
    tried = ends[max(ends.size // 2, ends.size - most) :]
    whole = requests.ok.astype(np.float64)
    return max([rate, *(throughput(first, last, whole, (start, int(moment))) for moment in tried)])
