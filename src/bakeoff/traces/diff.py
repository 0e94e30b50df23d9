"""Where the gap between two traces sits: rows that add up to it, each with what was counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .diff_align import Plan, plan
from .diff_noise import band_of, step_samples
from .diff_pieces import UNTOLD, device_pieces
from .diff_rows import compile_pieces, gathered, row_of
from .diff_types import Band, Key, Pieces, Row, TraceDiff, as_json
from .diff_words import NO_CAUSE, cause_of, notes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .timeline import Timeline

__all__ = ["TraceDiff", "as_json", "diff"]


def diff(
    base: Timeline | Sequence[Timeline],
    candidate: Timeline | Sequence[Timeline],
    *,
    tokens: tuple[float, float] | None = None,
    confidence: float = 0.95,
) -> TraceDiff:
    """candidate − base, split into idle time by cause, busy time by category, exposed communication and copies.

    Several traces a side are repeats of one another: means are compared, and each row gets a noise band (Welch's
    interval); with one trace a side and at least three steps each, the band comes from the steps. tokens: output
    tokens that one trace of the base and of the candidate each made, to compare per token.

    Raises TraceError where the two cannot answer one question (a GPU trace and a CPU-only one), with the reason.
    """
    sides = (_listed(base), _listed(candidate))
    laid = plan(sides, tokens)
    pieces = tuple([_pieces(timeline, laid) for timeline in side] for side in sides)
    keys = list(dict.fromkeys(key for side in pieces for trace in side for part in trace for key in part.keys))
    values = tuple(
        np.array([_values(trace, keys, laid.divisor(number, index)) for index, trace in enumerate(side)])
        for number, side in enumerate(pieces)
    )
    samples, scale, basis = _samples(laid, pieces, keys, values)
    rows: list[Row] = []
    for at, key in enumerate(keys):
        means = tuple(float(side[:, at].mean()) / 1e6 for side in values)
        counted = tuple(gathered(side, key) for side in pieces)
        band = band_of(tuple(s[:, at] for s in samples), scale, confidence, basis) if samples else None
        rows.append(row_of(key, means, counted, band))
    told = _ordered(row for row, key in zip(rows, keys, strict=True) if key not in UNTOLD)
    untold = _ordered(row for row, key in zip(rows, keys, strict=True) if key in UNTOLD)
    spans = tuple(float(np.mean(_spans(side, laid, number))) / 1e6 for number, side in enumerate(pieces))
    gap = spans[1] - spans[0]
    whole: Band | None = None
    if samples:
        whole = band_of(tuple(s.sum(axis=1) for s in samples), scale, confidence, basis)
    residual = gap - float(np.sum([row.ms for row in told]))
    sums = _sums(rows)
    return TraceDiff(
        unit=laid.unit,
        base_ms=spans[0],
        candidate_ms=spans[1],
        gap_ms=gap,
        rows=told,
        residual_ms=0.0 if abs(residual) < _DUST_MS else residual,
        residual=untold,
        sums=sums,
        cause=cause_of(gap, told, sums, whole, laid.unit) if laid.aligned or not gap else NO_CAUSE,
        alignment=laid.words,
        aligned=laid.aligned,
        steps=laid.steps,
        tokens=tokens,
        band=whole,
        notes=notes_of(sides, laid, pieces),
        sources=tuple(tuple(t.source for t in side) for side in sides),  # type: ignore[arg-type]  # two sides
    )


# Rounding of sums of doubles; a nanosecond is the traces' own resolution.
_DUST_MS = 1e-9


def _listed(side: Timeline | Sequence[Timeline]) -> list[Timeline]:
    return list(side) if isinstance(side, Sequence) else [side]


def _pieces(timeline: Timeline, laid: Plan) -> list[Pieces]:
    """One per device; a CPU or a compiler counts as one."""
    by_step = laid.unit == "step"
    if laid.mode == "gpu":
        return [device_pieces(timeline, d, causes=laid.causes, by_step=by_step) for d in timeline.device_ids]
    if laid.mode == "host":
        from .diff_host_pieces import host_pieces

        return [host_pieces(timeline, by_step=by_step)]
    return [compile_pieces(timeline)]


def _values(trace: list[Pieces], keys: list[Key], divisor: float) -> NDArray[np.float64]:
    """ns per unit for each key, mean over the trace's devices."""
    index = {key: at for at, key in enumerate(keys)}
    total = np.zeros(len(keys))
    for part in trace:
        sums = np.bincount(part.key, part.ns, len(part.keys))
        for at, key in enumerate(part.keys):
            total[index[key]] += sums[at]
    return total / (len(trace) * divisor)


def _spans(side: list[list[Pieces]], laid: Plan, number: int) -> list[float]:
    return [
        float(np.mean([part.span_ns for part in trace])) / laid.divisor(number, index)
        for index, trace in enumerate(side)
    ]


def _samples(
    laid: Plan,
    pieces: tuple[list[list[Pieces]], ...],
    keys: list[Key],
    values: tuple[NDArray[np.float64], ...],
) -> tuple[tuple[NDArray[np.float64], ...], float, str]:
    """(repeats per side, shape (repeats, keys) in ns; ns of the unit per ns of a repeat; what they are)."""
    counts = tuple(len(side) for side in values)
    if min(counts) >= 2 and not laid.ranks:
        return values, 1.0, f"{counts[0]} and {counts[1]} traces"
    if counts == (1, 1) and laid.steps and min(laid.steps) >= 3 and laid.unit != "token":
        found = tuple(step_samples(side[0], keys) for side in pieces)
        if min(len(f) for f in found) >= 3:
            scale = float(laid.steps[0]) if laid.unit == "trace" else 1.0
            return found, scale, f"{len(found[0])} and {len(found[1])} steps of one trace each"
    return (), 1.0, ""


def _ordered(rows: object) -> tuple[Row, ...]:
    """Largest first; equal ones by name."""
    listed: list[Row] = list(rows)  # type: ignore[call-overload]  # an iterable of rows
    return tuple(sorted(listed, key=lambda row: (-abs(row.ms), row.kind, row.name)))


def _sums(rows: list[Row]) -> dict[str, float]:
    """Rows of one sort together, residual included, ms per unit. busy: kernels, copies and memsets."""
    sums: dict[str, float] = {}
    idle = [row for row in rows if row.kind == "idle"]
    if idle:
        sums["idle"] = float(np.sum([row.ms for row in idle]))
        hosts = [row.ms for row in idle if row.name.startswith("host: ")]
        if hosts:
            sums["host idle"] = float(np.sum(hosts))
    busy = [row.ms for row in rows if row.kind in ("busy", "communication", "copy")]
    if busy:
        sums["busy"] = float(np.sum(busy))
    for kind in ("communication", "copy", "compile"):
        if listed := [row.ms for row in rows if row.kind == kind]:
            sums[kind] = float(np.sum(listed))
    return sums
