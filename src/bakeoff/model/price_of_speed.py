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
    # better | worse | equivalent | not worse | probably better | probably worse | inconclusive |
    # uninformative | invalid; of a divergence: equivalent | different | inconclusive | invalid
    outcome: str
    margin: float | None = None
    items: int = 0
    needed: int | None = None  # items that the margin would need
    minimum_detectable: float | None = None
    flips: tuple[int, int] | None = None  # right → wrong, wrong → right
    flip_floor: Interval | None = None  # share of items that the base flips against itself
    flip_counts: tuple[int, int] | None = None  # those items, and all that the base was asked twice
    p_value: float | None = None  # of no difference, not corrected for the number of rows
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
    share: Interval | None = None  # of the whole gap; without bounds where the gap itself is not clear of nothing


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
    workload: str | None = None  # tasks are requests (or conversations) of this workload, not questions
    load: dict[str, float] = {}
    outcome: str = "inconclusive"  # of the time of a task: faster, slower, equivalent, …
    ratios: dict[str, Interval] = {}  # candidate ÷ base of each entry of per_task
    solved_ratios: dict[str, Interval] = {}  # of each entry of per_solved
    solved_outcome: str | None = None  # of the time of a solved task; None: there is no such thing
    margin: float = 0.03
    rounds: int = 0  # replicates behind the intervals
    units: dict[str, str] = {}  # unit of each entry: s, tokens, J, a currency
    method: str = ""
    energy_source: str | None = None  # measured | modelled; None: unknown


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one variant's server occupies [bytes]. None: this machine, or this server, does not tell."""

    variant: str
    starts: int
    peak_private: Interval  # anonymous memory of the whole process tree, highest of a start
    steady_private: Interval  # the same, median while blocks ran
    peak_mapped: Interval  # resident pages of mapped files, shared mappings counted in full
    steady_mapped: Interval
    peak_gpu: Interval
    steady_gpu: Interval
    parts: dict[str, float] = {}  # what the engine tells: weights, kv cache, compute; and what is then left
    parts_of: str | None = None  # what `parts` add up to: private and mapped memory, or the device's
    growth_per_hour: Interval = Interval(point=None)  # of private memory while it was in use
    leak: bool = False  # it grows beyond the noise of its blocks


class StartUp(msgspec.Struct, frozen=True, kw_only=True):
    """One variant's starts that found the page cache in one state, phase by phase [s]."""

    variant: str
    page_cache: str  # warm | cold | unknown
    starts: int
    phases: dict[str, Interval]  # process, port, ready, first request: the time that each adds
    total: Interval  # spawn → first token, without what the harness did in between
    first_request: Interval = Interval(point=None)  # TTFT of the very first request
    typical_request: Interval = Interval(point=None)  # median TTFT of measured requests of the same starts
    penalty: Interval = Interval(point=None)  # what the first one took longer


class EnergyUse(msgspec.Struct, frozen=True, kw_only=True):
    """One variant's energy in one cell. Nothing is made up: `unknown` has no numbers."""

    variant: str
    workload: str
    load: dict[str, float]
    source: str  # measured | modelled | unknown
    watts: Interval = Interval(point=None)  # mean over the steady windows
    idle_watts: float | None = None
    gross_j: Interval = Interval(point=None)  # per request
    net_j: Interval = Interval(point=None)  # above idle, per request
    per_token_j: Interval = Interval(point=None)  # gross, per output token
    devices: tuple[str, ...] = ()  # what was measured: gpu, cpu, dram, soc
    reason: str | None = None


class BreakEven(msgspec.Struct, frozen=True, kw_only=True):
    """From where on the candidate pays, or no longer does.

    `start-up`: requests after which the slower start is made up for. `volume`: requests an hour from which the arm with
    the higher fixed price is the cheaper one. status `at`: it turns at `at`; `at once`: the candidate is ahead from the
    first; `never`: it is behind at any number; `unresolved`: the pairs do not tell.
    """

    candidate: str
    kind: str  # start-up | volume
    workload: str | None = None
    load: dict[str, float] = {}
    status: str
    at: Interval = Interval(point=None)
    candidate_after: bool | None = None  # with `at`: whether the candidate is ahead beyond it (else below it)
    page_cache: str | None = None  # start-up: in which state the starts found it
    reason: str | None = None
