"""What is concluded. ``Result`` is the contract of result.json (schema ``bakeoff.result/1``)."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import msgspec

from .estimate import Better, Interval
from .price_of_speed import BreakEven, EnergyUse, Flip, MemoryUse, QualityScore, StartUp, TaskTime

Outcome = Literal[
    "faster",
    "slower",
    "better",
    "worse",
    "equivalent",
    "probably faster",
    "probably slower",
    "probably better",
    "probably worse",
    "inconclusive",
    "invalid",
]
SCHEMA = "bakeoff.result/1"


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """value ÷ base. Unknown bounds are None (fewer than two pairs)."""

    point: float | None
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of one candidate against the base, in one cell (or per start: workload None)."""

    candidate: str
    workload: str | None = None
    load: dict[str, float] = {}
    metric: str
    statistic: str  # p50 | p95 | p99 | mean | total | peak
    unit: str
    better: Better
    base: Interval
    value: Interval
    ratio: Ratio
    outcome: Outcome
    margin: float
    pairs: int
    gate: bool = False
    detectable: bool = False  # True with `equivalent`: the interval still excludes 1
    reason: str | None = None  # why it is invalid, inconclusive or not reported
    pairs_needed: int | None = None  # more pairs that an inconclusive row still needs (estimate)
    minimum_detectable: float | None = None  # relative effect that these pairs could show
    method: str = ""
    p_value: float | None = None  # of no difference, not corrected for the number of rows
    spread: float | None = None  # standard deviation of the replicates' log ratios, inside each stratum
    seconds_needed: float | None = None  # time that `pairs_needed` more pairs would take [s]


class Crossing(msgspec.Struct, frozen=True, kw_only=True):
    """Where along an axis the candidate's ratio to the base crosses 1, or that it does not in the range measured.

    `crosses`: at `at`, the candidate being the better one below it (`better_below` True) or above it. `none`: it is
    better (`better_below` True) or worse all over the range. `unresolved`: the pairs do not tell.
    """

    candidate: str
    axis: Literal["concurrency", "rate", "replay", "input_tokens", "output_tokens"]
    workloads: tuple[str, ...]  # one for an axis of load; those that differ along the axis else
    load: dict[str, float] = {}  # what was the same, where the axis is a length
    metric: str
    statistic: str
    levels: tuple[float, ...]  # measured, rising
    status: Literal["crosses", "none", "unresolved"]
    at: Interval = Interval(point=None)  # in the unit of the axis
    better_below: bool | None = None
    confidence: float = 0.95

    @property
    def gap(self) -> tuple[float, float] | None:
        """The levels around `at` where they are more than a doubling apart, else None.

        `at` knows the noise, and takes the log ratio for a straight line between neighbouring levels. Over a doubling
        that hardly matters; over more, the shape of the line decides, and only the levels themselves are sure.
        """
        if self.at.point is None:
            return None
        low, high = self.at.low or self.at.point, self.at.high or self.at.point
        touched = [(a, b) for a, b in pairwise(self.levels) if a < high and b > low]
        if not any(b > 2 * a for a, b in touched):
            return None
        return touched[0][0], touched[-1][1]


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """How much load a candidate bears, against the base, in a workload whose levels were searched.

    `rate held`: the highest rate at which `attainment` of the requests meet the workload's limits, by interpolation
    between the levels of each round. `peak throughput`: the highest throughput of any level of each round.
    A bound is None where the levels do not reach it: even the highest level held in some round, or the lowest did not.
    """

    candidate: str
    workload: str
    kind: Literal["rate held", "peak throughput"]
    unit: str  # of base and value
    axis: Literal["concurrency", "rate"]
    levels: tuple[float, ...]
    attainment: float | None = None
    base: Interval
    value: Interval
    ratio: Ratio
    outcome: Outcome
    rounds: int
    reason: str | None = None  # why it is not decided, or not valid
    method: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A cause, or another fact that explains a gap."""

    candidate: str
    cause: str
    title: str
    share: Interval | None = None
    # measured: an exact split of what was measured; nothing was flipped, and nothing is left unexplained
    status: Literal["confirmed", "measured", "suspected", "refuted", "cannot attribute"] = "suspected"
    evidence: tuple[str, ...] = ()
    fix: str | None = None
    workload: str | None = None
    load: dict[str, float] = {}
    metric: str | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to ship. `ship` is None when the data do not decide."""

    ship: str | None
    conditions: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class Caution(msgspec.Struct, frozen=True, kw_only=True):
    """A warning with its remedy. `severity` invalid: the rows it touches are `invalid`."""

    code: str
    message: str
    remedy: str
    severity: Literal["note", "warning", "invalid"] = "warning"
    variant: str | None = None
    cell: str | None = None  # Cell.key
    metrics: tuple[str, ...] = ()  # touched metrics; empty: all


class QualityNote(msgspec.Struct, frozen=True, kw_only=True):
    """Quality of a candidate, or the reason why nothing is said about it."""

    candidate: str
    status: Literal["not measured", "not comparable", "garbage", "ok"]
    reason: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a run; recomputable from the run folder at any time."""

    schema: str = SCHEMA
    run: str
    name: str
    state: Literal["running", "complete", "interrupted", "failed"]
    base: str
    candidates: tuple[str, ...]
    rounds: int
    stop_reason: str | None = None
    comparisons: tuple[Comparison, ...] = ()
    quality: tuple[QualityNote, ...] = ()
    scores: tuple[QualityScore, ...] = ()  # measures of quality, where any was asked for
    flips: tuple[Flip, ...] = ()
    task_times: tuple[TaskTime, ...] = ()
    resources: tuple[Comparison, ...] = ()
    findings: tuple[Finding, ...] = ()
    decision: Decision = Decision(ship=None)
    warnings: tuple[Caution, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    edges: tuple[Edge, ...] = ()
    memory: tuple[MemoryUse, ...] = ()
    startups: tuple[StartUp, ...] = ()
    energy: tuple[EnergyUse, ...] = ()
    break_evens: tuple[BreakEven, ...] = ()
