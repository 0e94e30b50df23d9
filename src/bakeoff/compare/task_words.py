"""How the time of a task is told: one place for findings, the decision and every report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model import Interval, TaskPart, TaskTime
from ..units import change, seconds

_NAMES = {"time_s": "time", "tokens": "output tokens", "energy_j": "energy", "cost": "cost"}


def entry_name(name: str) -> str:
    """``time_s`` → ``time``."""
    return _NAMES.get(name, name)


def place_of(row: TaskTime) -> str:
    """``a task of sums``, ``a task``, ``a request of chat``: what the row counts."""
    if row.workload is not None:
        return f"a task of {row.workload}"
    return f"a task of {row.task}" if row.task else "a task"


def parts_by_weight(row: TaskTime) -> list[TaskPart]:
    """Those that pull where the whole goes come first, the largest at the front."""
    direction = math.copysign(1.0, sum(part.log_share.point or 0.0 for part in row.parts))
    return sorted(row.parts, key=lambda part: -direction * (part.log_share.point or 0.0))


def share_of(row: TaskTime, part: TaskPart) -> Interval | None:
    """The part's share of the whole gap. None where there is no gap to speak of."""
    whole = sum(p.log_share.point or 0.0 for p in row.parts)
    if abs(whole) < 1e-9 or part.log_share.point is None:
        return None
    return part.share or Interval(point=part.log_share.point / whole)


def part_value(value: float, unit: str) -> str:
    """``64``, ``10.2 ms``, ``1.24 s/call``; the name of a part says that tokens (and calls) are meant."""
    if unit in ("s", "s/call"):
        return seconds(value) + unit.removeprefix("s")
    count = f"{value:,.0f}" if value >= 100 or abs(value - round(value)) < 0.005 else f"{value:,.1f}"
    return count + ("/call" if unit.endswith("/call") else "")


def part_sentence(part: TaskPart, gap: TaskTime | None = None) -> str:
    """``output tokens 32 → 64``; of a gap also the time that it holds."""
    text = f"{part.name} {part_value(part.base, part.unit)} → {part_value(part.value, part.unit)}"
    if gap is None or part.seconds.point is None:
        return text
    return f"{text}: {signed_seconds(part.seconds.point)} of {signed_seconds(gap_seconds(gap))}"


def gap_seconds(row: TaskTime) -> float:
    """What the parts add up to [s]."""
    return sum(part.seconds.point or 0.0 for part in row.parts)


def signed_seconds(value: float) -> str:
    """``+1.90 s``, ``−20.3 ms``."""
    if abs(value) < 1e-9:
        return "±0 s"
    return f"{'−' if value < 0 else '+'}{seconds(abs(value))}"


def task_sentence(row: TaskTime) -> str:
    """``a task of sums takes +78 % [+70, +86], 690 ms → 1.23 s, slower``."""
    times = f"{seconds(row.base_s.point)} → {seconds(row.value_s.point)}"
    return f"{place_of(row)} takes {ratio_text(row.ratio)}, {times}, {row.outcome}"


def solved_sentence(row: TaskTime) -> str | None:
    """The same for a solved task; None where no task is graded."""
    if row.solved_outcome is None or "time_s" not in row.per_solved:
        return None
    base, value = row.per_solved["time_s"]
    ratio = row.solved_ratios.get("time_s", Interval(point=None))
    if ratio.point is None:
        nobody = [name for name, arm in (("the base", base), (row.candidate, value)) if arm.point is None]
        return f"{place_of(row)}: nothing was solved by {nobody[0] if len(nobody) == 1 else 'either of the two'}"
    times = f"{seconds(base.point)} → {seconds(value.point)}"
    return f"a solved task takes {ratio_text(ratio)}, {times}, {row.solved_outcome}"


def ratio_text(ratio: Interval) -> str:
    """``+78 % [+70, +86]``."""
    if ratio.low is None or ratio.high is None:
        return change(ratio.point)
    return f"{change(ratio.point)} [{change(ratio.low, unit=False)}, {change(ratio.high, unit=False)}]"


def leading_parts(row: TaskTime, most: int = 2) -> Sequence[TaskPart]:
    """The parts that hold most of the gap, in its own direction."""
    whole = sum(part.log_share.point or 0.0 for part in row.parts)
    return [p for p in parts_by_weight(row)[:most] if (p.log_share.point or 0.0) * whole > 0.2 * whole * whole]
