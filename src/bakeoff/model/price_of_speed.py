"""What a variant's speed costs in quality, and what a whole task takes: rows of the result."""

from __future__ import annotations

import msgspec

from .estimate import Better, Interval


class QualityScore(msgspec.Struct, frozen=True, kw_only=True):
    """One quality measure of one candidate against the base, paired by item. Differences in points where the unit is
    ``points`` (an accuracy is a share, its difference counts percentage points)."""

    candidate: str
    task: str | None = None  # None: over all tasks, or no task's matter (divergence)
    measure: str  # accuracy, kl_mean, kl_median, kl_p99, same_top, rms_dp, perplexity_ratio, agreement, identical, …
    unit: str
    better: Better
    base: Interval
    value: Interval
    difference: Interval
    outcome: str  # better | worse | equivalent | not worse | inconclusive | uninformative | invalid
    margin: float | None = None
    items: int = 0
    needed: int | None = None  # items that the margin would need
    minimum_detectable: float | None = None
    flips: tuple[int, int] | None = None  # right → wrong, wrong → right
    flip_floor: Interval | None = None  # share of items that the base flips against itself
    method: str = ""
    reason: str | None = None
    counts: dict[str, int] = {}  # cut, failed, ungradable by arm: "base.cut", "candidate.cut", …


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """An item that the arms answered differently, to be looked at."""

    candidate: str
    task: str
    item: str
    prompt: str
    expected: str
    base_text: str
    candidate_text: str
    base_score: float
    candidate_score: float


class TaskPart(msgspec.Struct, frozen=True, kw_only=True):
    """One component of the ratio of task times (log-mean weights: the parts add up to ln of the whole ratio)."""

    name: str  # calls, waiting, prefill, reasoning tokens, output tokens, time per token
    base: float  # the component's own value per task
    value: float
    unit: str
    log_share: Interval  # its part of ln(candidate ÷ base)
    seconds: Interval  # the same part in seconds per task


class TaskTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time, tokens, energy and money for a task, and for a solved one."""

    candidate: str
    task: str | None = None
    base_s: Interval
    value_s: Interval
    ratio: Interval
    parts: tuple[TaskPart, ...] = ()
    per_solved: dict[str, tuple[Interval, Interval]] = {}  # time_s, tokens, energy_j, cost → (base, candidate)
    per_task: dict[str, tuple[Interval, Interval]] = {}
    tasks: int = 0
    reason: str | None = None
