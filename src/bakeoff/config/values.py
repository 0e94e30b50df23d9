"""Values with a grammar of their own: ``6..40``, ``5 USD``, ``every 4 rounds``, ``3%``, ``20s``, ``chat.ttft_s.p95``.

Each function takes what the file holds and raises ValueError with a message that says what is expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import UsageError
from ..metrics import METRICS
from ..units import parse_duration, parse_percent
from .places import did_you_mean, shown

MOST_PAIRS = 1000
FEWEST_PAIRS = 2  # one pair has no spread, so no interval
_PAIRS = re.compile(r"\s*(\d{1,9})\s*(?:\.\.|…)\s*(\d{1,9})\s*")
_SPEND = re.compile(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([A-Za-z]{3})\s*")
_WATTS = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(k?W)?\s*")
_POINTS = re.compile(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*(?:points?)?\s*")
_STARTS = re.compile(r"\s*every\s+(?:(\d{1,6})\s+)?rounds?\s*")


class Gate(NamedTuple):
    """A gate, taken apart. workload None: every workload."""

    workload: str | None
    metric: str
    statistic: str | None


def pairs(value: Any) -> tuple[int, int]:
    """``6..40`` → (6, 40); ``8`` → (8, 8)."""
    match = _PAIRS.fullmatch(value) if isinstance(value, str) else None
    if match:
        low, high = int(match[1]), int(match[2])
    elif isinstance(value, int) and not isinstance(value, bool):
        low = high = value
    else:
        raise ValueError(f"must be a number or a range such as 6..40, not {shown(value)}")
    if low > high:
        raise ValueError(f"starts above its end: {low}..{high}; did you mean {high}..{low}?")
    if low < FEWEST_PAIRS or high > MOST_PAIRS:
        raise ValueError(f"must lie between {FEWEST_PAIRS} and {MOST_PAIRS} (one pair alone has no interval)")
    return low, high


def spend(value: Any) -> tuple[float, str]:
    """``5 USD`` → (5.0, "USD")."""
    match = _SPEND.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise ValueError(f"must be an amount of money such as '5 USD', not {shown(value)}")
    amount = float(match[1])
    if amount <= 0:
        raise ValueError("must be more than nothing; leave it out for no limit")
    return amount, match[2].upper()


def starts(value: Any) -> int:
    """``every round`` → 1; ``every 4 rounds`` → 4; ``once`` → 0 [rounds per start]."""
    text = value.strip().lower() if isinstance(value, str) else None
    if text == "once":
        return 0
    match = _STARTS.fullmatch(text) if text else None
    if not match:
        hint = did_you_mean(text, ("every round", "once")) if text else ""
        raise ValueError(f"must be 'every round', 'every 4 rounds' (any number) or 'once', not {shown(value)}{hint}")
    rounds = int(match[1] or 1)
    if not 1 <= rounds <= MOST_PAIRS:
        raise ValueError(f"must be between 1 and {MOST_PAIRS} rounds; 'once' means a single start")
    return rounds


def share(value: Any) -> float:
    """``3%`` or 0.03 → 0.03. A bare number from 1 on is refused: it surely meant percent."""
    number = _quantity(value, parse_percent)
    if number is None:
        raise ValueError(f"must be a percentage such as 3%, not {shown(value)}")
    if not 0 <= number < 1:
        hint = f"; did you mean {value}%?" if isinstance(value, int | float) and 1 <= value < 100 else ""
        raise ValueError(f"must be at least 0% and below 100%, not {shown(value)}{hint}")
    return number


def confidence(value: Any) -> float:
    """``95%`` or 0.95 → 0.95."""
    number = _quantity(value, parse_percent)
    if number is None:
        raise ValueError(f"must be a percentage such as 95%, not {shown(value)}")
    if not 0.5 <= number <= 0.9999:
        hint = f"; did you mean {value}%?" if isinstance(value, int | float) and 50 <= value <= 99.99 else ""
        raise ValueError(f"must lie between 50% and 99.99%, not {shown(value)}{hint}")
    return number


def duration(value: Any, unit_s: float = 1.0, unit: str = "s") -> float:
    """``20s`` → 20.0 [s]; a bare number counts in the unit that the key names (`unit_s` seconds)."""
    seconds = _quantity(value, parse_duration, unit_s)
    if seconds is None:
        raise ValueError(f"must be a time such as 20{unit}, not {shown(value)}")
    if not 0 < seconds <= 30 * 86400:
        raise ValueError(f"must be more than 0 and at most 30 days, not {shown(value)}")
    return seconds


def watts(value: Any) -> float:
    """``40 W``, ``1.2 kW`` or 40 → 40.0 [W]."""
    match = _WATTS.fullmatch(value) if isinstance(value, str) else None
    if match:
        return float(match[1]) * (1000.0 if match[2] == "kW" else 1.0)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e9:
        return float(value)
    raise ValueError(f"must be a power such as 40 W, not {shown(value)}")


def margin_points(value: Any) -> float:
    """``1 point``, ``1.5 points`` or 1.5 → 1.5 [percentage points]."""
    match = _POINTS.fullmatch(value) if isinstance(value, str) else None
    number = _quantity(float(match[1]) if match else value, lambda _: math.nan)
    if number is None or math.isnan(number):
        percent = value.strip().removesuffix("%").rstrip() if isinstance(value, str) and "%" in value else ""
        hint = f"; did you mean '{percent} points'?" if _POINTS.fullmatch(percent) else ""
        raise ValueError(f"must be percentage points of accuracy such as '1 point', not {shown(value)}{hint}")
    if not 0 < number <= 100:
        raise ValueError(f"must be more than 0 and at most 100 points, not {shown(value)}")
    return number


def pause(value: Any) -> float:
    """As :func:`duration`, or 0 for none."""
    if _quantity(value, parse_duration) == 0:
        return 0.0
    return duration(value)


def _quantity(value: Any, parse: Callable[[str], float], scale: float = 1.0) -> float | None:
    """A text by its unit, a bare number times `scale`; None for anything else."""
    if isinstance(value, str):
        try:
            return parse(value)
        except UsageError:
            return None
    return float(value) * scale if isinstance(value, int | float) and not isinstance(value, bool) else None


def gate(value: Any, workloads: list[str]) -> Gate:
    """``ttft_s``, ``ttft_s.p95``, ``chat.ttft_s`` or ``chat.ttft_s.p95``, checked against what exists."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"must be a metric such as ttft_s or chat.ttft_s.p95, not {shown(value)}")
    parts = value.strip().split(".")
    if len(parts) > 3:
        raise ValueError(f"has too many parts; the form is workload.metric.statistic: {shown(value)}")
    # Workloads are not named like metrics, so one word tells which form it is.
    has_workload = len(parts) == 3 or (len(parts) == 2 and parts[0] not in METRICS and parts[1] in METRICS)
    if not has_workload and len(parts) == 2 and parts[0] in workloads:
        has_workload = True
    workload = parts[0] if has_workload else None
    rest = parts[1:] if has_workload else parts
    if workload is not None and workload not in workloads:
        raise ValueError(f"there is no workload {shown(workload)}{did_you_mean(workload, workloads)}")
    metric = METRICS.get(rest[0])
    if metric is None:
        raise ValueError(f"there is no metric {shown(rest[0])}{did_you_mean(rest[0], METRICS)}")
    statistic = rest[1] if len(rest) > 1 else None
    if statistic is not None and statistic not in metric.statistics:
        known = ", ".join(metric.statistics)
        raise ValueError(f"{metric.name} has no statistic {shown(statistic)}; it has {known}")
    return Gate(workload, metric.name, statistic)
