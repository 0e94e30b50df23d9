"""Formatting and parsing of quantities. One place, so that every report shows the same digits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

from .errors import UsageError

_DURATIONS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
}


def _digits(value: float, significant: int = 3) -> str:
    """Fixed-point text with the given number of significant digits, never scientific."""
    if value == 0:
        return "0"
    # The place of the first digit after rounding: 9.996 is 10.0, as 10 is.
    power = int(f"{value:.{significant - 1}e}".partition("e")[2])
    return f"{value:,.{min(max(0, significant - 1 - power), 9)}f}"


def _rounded(value: float) -> float:
    """The size as it is shown, to three digits: it tells the unit, so that 999.9 ms are 1.00 s."""
    return abs(float(f"{value:.2e}"))


def seconds(value: float | None) -> str:
    """0.0217 → ``21.7 ms``; 6.62 → ``6.62 s``; 190 → ``3.2 min``."""
    if value is None or not math.isfinite(value):
        return "–"
    size = _rounded(value)
    if size >= 120:
        return f"{value / 60:.1f} min"
    if size >= 1 or value == 0:
        return f"{_digits(value)} s"
    if size >= 1e-3:
        return f"{_digits(value * 1e3)} ms"
    return f"{_digits(value * 1e6)} µs"


def size(value: float | None) -> str:
    """Bytes, decimal prefixes as model files are sold: 292_000_000 → ``292 MB``."""
    if value is None or not math.isfinite(value):
        return "–"
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if _rounded(value) >= factor:
            return f"{_digits(value / factor)} {unit}"
    return f"{value:.0f} B"


def quantity(value: float | None, unit: str) -> str:
    """A value in its metric's unit, scaled for reading."""
    if unit == "s":
        return seconds(value)
    if unit == "B":
        return size(value)
    if value is None or not math.isfinite(value):
        return "–"
    return f"{_digits(value)} {unit}"


def change(ratio: float | None, *, unit: bool = True) -> str:
    """A ratio as a signed change: 1.693 → ``+69 %``; 0.655 → ``−35 %``; one decimal below 10 %."""
    if ratio is None or not math.isfinite(ratio):
        return "–"
    percent = (ratio - 1) * 100
    text = f"{abs(percent):.0f}" if abs(percent) >= 9.95 else f"{abs(percent):.1f}"
    sign = "±" if float(text) == 0 else ("+" if percent > 0 else "−")
    return f"{sign}{text}{' %' if unit else ''}"


def points(value: float | None) -> str:
    """A difference in percentage points with its sign: ``−0.4``, ``+12``, ``±0.0``; one decimal below 10."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{abs(value):.0f}" if abs(value) >= 9.95 else f"{abs(value):.1f}"
    return f"{'±' if float(text) == 0 else '+' if value > 0 else '−'}{text}"


def point_count(value: float) -> str:
    """A margin in percentage points: ``1 point``, ``0.5 points``."""
    return f"{value:g} point{'' if value == 1 else 's'}"


def to_digits(value: float, significant: int, way: Callable[[Decimal], int] = round) -> float:
    """The value with so many digits. way: `round`, `math.floor` or `math.ceil`. 0 for what is not above 0."""
    if value <= 0:
        return 0.0
    exact = Decimal(repr(float(value)))
    step = Decimal(10) ** (exact.adjusted() + 1 - significant)
    return float(Decimal(way(exact / step)) * step)


def rounded(value: float, significant: int = 2, way: Callable[[Decimal], int] = round) -> str:
    """A load level or a rate without more digits than are known: 284.3 → ``280``; 2.47 → ``2.5``. way: `to_digits`."""
    shown = to_digits(value, significant, way)
    if shown <= 0:
        return "0"
    decimals = max(0, significant - 1 - math.floor(math.log10(shown)))
    text = f"{shown:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def parse_duration(text: str) -> float:
    """``20 ms`` → 0.02 [s]. A bare number is refused: its unit would be a guess. Raises UsageError."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zµ]+)\s*", text)
    if not match or match[2] not in _DURATIONS:
        raise UsageError(f"{text!r} is not a duration", remedy="write a number and a unit: 50ms, 2s, 5min")
    return float(match[1]) * _DURATIONS[match[2]]


def parse_percent(text: str) -> float:
    """``3%`` or ``3 %`` → 0.03; ``0.03`` → 0.03. Raises UsageError."""
    match = re.fullmatch(r"\s*([+\-−]?)\s*([0-9]*\.?[0-9]+)\s*(%?)\s*", text)
    if not match:
        raise UsageError(f"{text!r} is not a percentage", remedy="write for example 3%")
    value = float(match[2]) / (100 if match[3] else 1)
    return -value if match[1] in ("-", "−") else value
