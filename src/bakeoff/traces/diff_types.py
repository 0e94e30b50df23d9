"""The gap between two traces, split: rows that add up to it, each with what was counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Unit = Literal["trace", "step", "token"]
RowKind = Literal["idle", "busy", "communication", "copy", "compile"]


@dataclass(frozen=True, kw_only=True)
class Example:
    """A kernel, operator or call that a row's time went to."""

    name: str
    ms: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What one side of a row is made of. Sums over all traces of that side, not divided by steps or tokens.

    longest_ms: the longest single event or gap. range_ms: where it lies, from the trace's first event on, to open it
    in a viewer; None when there is none.
    """

    ms: float = 0.0
    events: int = 0
    longest_ms: float = 0.0
    range_ms: tuple[float, float] | None = None
    examples: tuple[Example, ...] = ()

    @property
    def mean_us(self) -> float | None:
        """Mean duration of one event or gap, µs."""
        return self.ms * 1e3 / self.events if self.events else None


@dataclass(frozen=True, kw_only=True)
class Band:
    """Where the true difference lies, from repeats. basis: what the repeats were."""

    low: float
    high: float
    confidence: float
    basis: str

    @property
    def holds_zero(self) -> bool:
        """The difference may be noise."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True, kw_only=True)
class Row:
    """One cause's part of the gap, in ms per unit. Positive: the candidate spends more on it."""

    kind: RowKind
    name: str
    ms: float
    base_ms: float
    candidate_ms: float
    base: Counted
    candidate: Counted
    band: Band | None = None

    @property
    def label(self) -> str:
        """``idle · host: data loading``."""
        return f"{self.kind} · {self.name}"

    def share(self, gap_ms: float) -> float | None:
        """Part of the gap; negative when it works against it; None when there is no gap."""
        return self.ms / gap_ms if gap_ms else None


@dataclass(frozen=True, kw_only=True)
class TraceDiff:
    """candidate − base. All values are ms per `unit`; ``sum(row.ms) + residual_ms == gap_ms`` to rounding.

    rows: largest first. residual: time whose cause the traces do not tell (gaps without a recorded launch, kernels of
    no known kind), also split. sums: the rows of one sort together ("host idle", "busy"). alignment: how the two were
    laid beside each other, or why they could not be; `gap_ms` is then no difference of the same work, and has no cause.
    """

    unit: Unit
    base_ms: float
    candidate_ms: float
    gap_ms: float
    rows: tuple[Row, ...]
    residual_ms: float
    residual: tuple[Row, ...]
    sums: dict[str, float]
    cause: str
    alignment: str
    aligned: bool
    steps: tuple[int, int] | None = None
    tokens: tuple[float, float] | None = None
    band: Band | None = None
    notes: tuple[str, ...] = ()
    sources: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def noisy(self) -> bool:
        """The noise band of the gap holds 0."""
        return self.band is not None and self.band.holds_zero

    def share(self, row: Row) -> float | None:
        """The row's part of the gap; None where windows are not aligned, and so may hold different work."""
        return row.share(self.gap_ms) if self.aligned else None


Key = tuple[RowKind, str]


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """The time of one device (or of a CPU's operators) cut into pieces that add up to its span, each with its cause.

    Columns of equal length. start, end: the event or gap that a piece belongs to, ns. ns: the piece's own part of the
    span. key: index into keys. name: index into Timeline.names (or into own_names, where those are given).
    """

    span_ns: int
    origin_ns: int
    keys: tuple[Key, ...]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    ns: NDArray[np.float64]
    key: NDArray[np.int64]
    name: NDArray[np.int64]
    names: tuple[str, ...]
    steps: tuple[tuple[int, int], ...] = ()  # windows of the steps, one after the other

    def within(self, window: tuple[int, int]) -> NDArray[np.bool_]:
        """Which pieces begin inside the window."""
        return np.asarray((self.start >= window[0]) & (self.start < window[1]))


def as_json(diff: TraceDiff) -> dict[str, Any]:
    """The difference as ``--json`` prints it."""

    def side(counted: Counted) -> dict[str, Any]:
        return {
            "ms": counted.ms,
            "events": counted.events,
            "mean_us": counted.mean_us,
            "longest_ms": counted.longest_ms,
            "range_ms": list(counted.range_ms) if counted.range_ms else None,
            "examples": [{"name": e.name, "ms": e.ms, "count": e.count} for e in counted.examples],
        }

    def band(value: Band | None) -> dict[str, Any] | None:
        if value is None:
            return None
        return {"low": value.low, "high": value.high, "confidence": value.confidence, "basis": value.basis}

    def row(value: Row) -> dict[str, Any]:
        return {
            "kind": value.kind,
            "name": value.name,
            "ms": value.ms,
            "share": diff.share(value),
            "band": band(value.band),
            "base_ms": value.base_ms,
            "candidate_ms": value.candidate_ms,
            "evidence": {"base": side(value.base), "candidate": side(value.candidate)},
        }

    return {
        "schema": "bakeoff.trace-diff/1",
        "unit": diff.unit,
        "base": list(diff.sources[0]),
        "candidate": list(diff.sources[1]),
        "base_ms": diff.base_ms,
        "candidate_ms": diff.candidate_ms,
        "gap_ms": diff.gap_ms,
        "band": band(diff.band),
        "cause": diff.cause,
        "sums": diff.sums,
        "rows": [row(r) for r in diff.rows],
        "residual_ms": diff.residual_ms,
        "residual": [row(r) for r in diff.residual],
        "aligned": diff.aligned,
        "alignment": diff.alignment,
        "steps": list(diff.steps) if diff.steps else None,
        "tokens": list(diff.tokens) if diff.tokens else None,
        "notes": list(diff.notes),
    }
