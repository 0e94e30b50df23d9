"""What reports show. Plain frozen data: numbers in base units (s, B, ratios), texts already bounded and cleaned.

Renderers format these and compute no statistics, so that every report of a run says the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..model import Interval, Outcome, Ratio

if TYPE_CHECKING:
    from .view_price_types import PriceView
    from .view_quality import FlipView, ScoreView

Tone = Literal["good", "bad", "equal", "unsure", "invalid"]


@dataclass(frozen=True, kw_only=True)
class ArmView:
    """One variant as reports name it. `index` 0 is the base; it also picks the colour of charts."""

    name: str
    index: int
    engine: str = ""
    model: str | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One metric of one candidate against the base.

    sign and word say the outcome without colour; `primary` rows belong to the short report, the others to the
    full one; `note` is the one line that an invalid, inconclusive or probable outcome owes its reader.
    """

    candidate: str
    metric: str
    label: str
    statistic: str
    unit: str
    better: Literal["lower", "higher"]
    base: Interval
    value: Interval
    ratio: Ratio
    outcome: Outcome
    tone: Tone
    sign: str
    word: str
    gate: bool
    primary: bool
    margin: float
    pairs: int
    note: str | None = None
    minimum_detectable: float | None = None
    method: str = ""
    contradicts: bool = False  # its columns say another thing than its paired change, or its interval than its outcome


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Empirical distribution of one arm: share `p` of requests at or below `x` [unit of the metric]."""

    arm: str
    x: tuple[float, ...]
    p: tuple[float, ...]
    requests: int
    median: float


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """All arms' curves of one metric in one cell."""

    metric: str
    label: str
    unit: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, kw_only=True)
class PairPoint:
    """Candidate ÷ base of one pair; kind ``aa``: the base's second visit ÷ its first (no effect by design)."""

    arm: str
    kind: Literal["pair", "aa"]
    round: int
    group: int
    ratio: float
    outlier: bool = False  # stands apart from its arm's other pairs; it counts all the same


@dataclass(frozen=True, kw_only=True)
class PairSummary:
    """What the pairs of one arm look like. Ratios and shares; None where there are too few to tell.

    spread: standard deviation of the log ratios. drift: change over the run by a straight line, as a ratio. likeness:
    lag-1 autocorrelation. detectable: relative effect that so many pairs show with 80 %.
    """

    arm: str
    kind: Literal["pair", "aa"]
    pairs: int
    ratio: float
    spread: float | None = None
    drift: float | None = None
    likeness: float | None = None
    detectable: float | None = None


@dataclass(frozen=True, kw_only=True)
class PairSeries:
    """All pairs of one metric in one cell, in order of time."""

    metric: str
    label: str
    margin: float
    points: tuple[PairPoint, ...]
    summaries: tuple[PairSummary, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CrossingView:
    """Where one candidate and the base change places along an axis. `points`: (level, ratio) of every cell measured.

    `text` says it in one sentence; `at` in the unit of the axis, without a point where nothing crosses.
    """

    candidate: str
    label: str  # of the metric
    axis: str  # "prompt length"
    unit: str  # "tokens"
    where: str  # the workload, and what was the same
    status: Literal["crosses", "none", "unresolved"]
    text: str
    at: Interval
    margin: float
    points: tuple[tuple[float, Ratio], ...]


@dataclass(frozen=True, kw_only=True)
class EdgeView:
    """How much load one candidate bears against the base, in a workload whose levels were searched."""

    title: str
    text: str  # with figures and outcome
    reason: str | None  # why it is open
    tone: Tone


@dataclass(frozen=True, kw_only=True)
class CellView:
    """A workload at one load level."""

    key: str
    title: str
    rows: tuple[Row, ...]
    distributions: tuple[Distribution, ...] = ()
    pairs: tuple[PairSeries, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One block on the time axis [min since the first block]."""

    arm: str
    cell: str
    round: int
    group: int
    aa: bool
    start: float
    end: float
    requests: int
    errors: int


@dataclass(frozen=True, kw_only=True)
class Strip:
    """One bench quantity by block: (arm, start [min], end [min], value)."""

    name: str
    label: str
    unit: str
    segments: tuple[tuple[str, float, float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Every block in order of time, and how fit the bench was meanwhile."""

    bars: tuple[Bar, ...] = ()
    strips: tuple[Strip, ...] = ()
    client_processes: int = 1  # most that sent at the same time


@dataclass(frozen=True, kw_only=True)
class FindingView:
    """A cause with its share of the gap; `unexplained` closes a gap's list."""

    candidate: str
    where: str
    title: str
    share: Interval | None
    status: str
    evidence: tuple[str, ...] = ()
    fix: str | None = None
    unexplained: bool = False


@dataclass(frozen=True, kw_only=True)
class QualityView:
    """What is said about quality, for the candidates that it holds for."""

    candidates: tuple[str, ...]
    status: str
    text: str
    tone: Tone


@dataclass(frozen=True, kw_only=True)
class DecisionView:
    """The recommendation: `headline` is one sentence; `ship` None means that the data do not decide."""

    ship: str | None
    headline: str
    conditions: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WarningView:
    """A warning with its remedy; `where` names the variant, cell and metrics that it touches."""

    code: str
    severity: Literal["note", "warning", "invalid"]
    message: str
    remedy: str
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class EnvironmentRow:
    """One key of the arms' fingerprints, in the order of the view's arms (None: this arm does not tell)."""

    key: str
    values: tuple[str | None, ...]
    differs: bool


@dataclass(frozen=True, kw_only=True)
class Output:
    """One arm's answer. `same` counts leading characters equal to the base's; None for the base itself."""

    arm: str
    text: str
    cut: int  # characters left out
    same: int | None = None
    identical: bool = False


@dataclass(frozen=True, kw_only=True)
class OutputSet:
    """The arms' answers to one prompt."""

    cell: str
    prompt: str | None
    prompt_cut: int
    outputs: tuple[Output, ...]


@dataclass(frozen=True, kw_only=True)
class ErrorCount:
    """Failed requests of one kind in one arm, of all its requests."""

    arm: str
    kind: str
    count: int
    requests: int


@dataclass(frozen=True, kw_only=True)
class View:
    """All that a report shows, in the order in which it shows it."""

    name: str
    run: str
    base: str
    candidates: tuple[str, ...]
    arms: tuple[ArmView, ...]
    facts: tuple[str, ...]
    state: Literal["running", "complete", "interrupted", "failed"]
    state_text: str | None
    stop_reason: str | None
    rounds: int
    confidence: float
    margin: float
    decision: DecisionView
    cells: tuple[CellView, ...] = ()
    resources: tuple[Row, ...] = ()
    quality: tuple[QualityView, ...] = ()
    findings: tuple[FindingView, ...] = ()
    warnings: tuple[WarningView, ...] = ()
    timeline: Timeline = field(default_factory=Timeline)
    environment: tuple[EnvironmentRow, ...] = ()
    machine: tuple[tuple[str, str], ...] = ()
    outputs: tuple[OutputSet, ...] = ()
    errors: tuple[ErrorCount, ...] = ()
    requests: tuple[tuple[str, int], ...] = ()  # requests sent, by arm
    crossings: tuple[CrossingView, ...] = ()
    scores: tuple[ScoreView, ...] = ()
    flips: tuple[FlipView, ...] = ()
    edges: tuple[EdgeView, ...] = ()
    price: PriceView | None = None
    method: tuple[tuple[str, str], ...] = ()
    command: str | None = None
    run_path: str | None = None
    redacted: bool = False
