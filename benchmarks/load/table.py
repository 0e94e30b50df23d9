"""Results as markdown."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median


def row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def head(cells: Sequence[str]) -> str:
    return row(cells) + "\n" + row(["---"] * len(cells))


def spread(values: Sequence[float], scale: float = 1.0, digits: int = 2) -> str:
    """The median, and the range over the repetitions."""
    scaled = [value * scale for value in values]
    if not scaled:
        return "–"
    shown = f"{median(scaled):,.{digits}f}"
    return shown if len(scaled) < 2 else f"{shown} ({min(scaled):,.{digits}f}–{max(scaled):,.{digits}f})"


def quantile(values: Sequence[float], share: float) -> float:
    """Linear interpolation."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
