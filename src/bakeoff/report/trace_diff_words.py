"""How the difference of two traces is written: one place for the terminal and the page."""

from __future__ import annotations

from ..traces.diff_types import Band, Counted, Row, TraceDiff
from ..traces.diff_words import amount
from .trace_cells import milliseconds

_SMALL = 0.005  # of the gap, or of a fiftieth of the longer span where the gap is smaller
_NAME = 100
_WHOLE = 100  # ms from which on one decimal is enough


def number(ms: float) -> str:
    """``283.7``, ``0.038``: milliseconds without their unit."""
    return f"{ms:,.1f}" if abs(ms) >= _WHOLE else f"{ms:,.3f}"


def headline(diff: TraceDiff) -> str:
    """How the candidate stands: slower, faster, within the noise, or not to be told."""
    if not diff.aligned:
        return "whole windows, not aligned: no comparison"
    if diff.gap_ms == 0:
        return "no gap"
    if diff.noisy:
        return f"{amount(diff.gap_ms, diff.unit)}, within the noise"
    return f"{amount(diff.gap_ms, diff.unit)} {'slower' if diff.gap_ms > 0 else 'faster'}"


def signed(ms: float) -> str:
    """``−280.9``, ``+0.038``: a change in milliseconds."""
    return (f"{ms:+,.1f}" if abs(ms) >= _WHOLE else f"{ms:+,.3f}").replace("-", "−")


def share(ms: float, gap: float) -> str:
    """``107 %`` of the gap; nothing where there is no gap."""
    if not gap:
        return ""
    rounded = round(100 * ms / gap)  # an integer: no "−0 %"
    return f"{rounded:,} %".replace("-", "−")


def band_text(band: Band | None) -> str:
    """``95 % band [−355.2, −34.6] over 6 and 6 steps``: both ends with the decimals of the larger one."""
    if band is None:
        return ""
    decimals = 1 if max(abs(band.low), abs(band.high)) >= _WHOLE else 3
    low, high = (f"{end:+,.{decimals}f}".replace("-", "−") for end in (band.low, band.high))
    return f"{band.confidence * 100:g} % band [{low}, {high}] over {band.basis}"


def large_rows(diff: TraceDiff, most: int) -> list[Row]:
    """The rows worth a line of their own."""
    least = _SMALL * max(abs(diff.gap_ms), 0.02 * max(diff.base_ms, diff.candidate_ms))
    return [row for row in diff.rows[:most] if abs(row.ms) >= least]


def evidence_lines(row: Row) -> list[str]:
    """What was counted on each side, in words."""
    lines = [f"{name}: {_counted(side)}" for name, side in (("base", row.base), ("candidate", row.candidate))]
    return [*lines, band_text(row.band)] if row.band is not None else lines


def _counted(side: Counted) -> str:
    if not side.events:
        return "none"
    told = f"{side.events:,} in all, {milliseconds((side.mean_us or 0.0) / 1e3)} each on average"
    if side.range_ms is not None:
        start, end = side.range_ms
        told += f"; the longest lasts {side.longest_ms:,.3f} ms, at {start:,.3f} to {end:,.3f} ms of the trace"
    names = "; ".join(f"{e.name[:_NAME]} ({e.count:,}×, {number(e.ms)} ms)" for e in side.examples)
    return f"{told}: {names}" if names else told
