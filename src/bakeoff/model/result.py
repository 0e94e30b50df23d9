"""What is concluded. ``Result`` is the contract of result.json (schema ``bakeoff.result/1``)."""

from __future__ import annotations

from typing import Literal

import msgspec

from .estimate import Better, Interval
from .price_of_speed import Flip, QualityScore, TaskTime

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


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A cause, or another fact that explains a gap."""

    candidate: str
    cause: str
    title: str
    share: Interval | None = None
    status: Literal["confirmed", "suspected", "refuted", "cannot attribute"] = "suspected"
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
