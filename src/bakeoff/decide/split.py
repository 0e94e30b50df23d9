"""Which variant for which traffic, where one wins on one side of a crossing and another on the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..compare.crossings import Line, lines_of
from ..metrics import METRICS
from ..model import Crossing, Experiment, Interval
from ..units import rounded, to_digits
from .standing import CellStanding, Standing

#: What lies on either side of a level, by axis: how traffic is named, and the unit of the level.
_WORDS = {
    "input_tokens": ("for prompts {side} about {level} tokens", "under", "over"),
    "output_tokens": ("for answers {side} about {level} tokens", "under", "over"),
    "concurrency": ("{side} about {level} at a time", "below", "above"),
    "rate": ("{side} about {level} requests/s", "below", "above"),
    "replay": ("{side} about {level} times the trace's speed", "below", "above"),
}
_TASK = "e2e_latency_s"


def split_condition(experiment: Experiment, standing: Standing, crossings: Sequence[Crossing]) -> str | None:
    """``for prompts under about 300 tokens, base above (crossing at 250–360)``.

    None unless all cells of the candidate lie on one line, it wins those on one side and loses those on the other, and
    one crossing that was found lies between them. Cells near the crossing may be undecided (there the difference is
    small), none may be invalid.
    """
    line = next((line for line in lines_of(experiment) if _covers(line, standing)), None)
    if line is None or standing.has("invalid"):
        return None
    sides = [(level, cell.side) for level, cell in _by_level(line, standing) if cell.side in ("candidate", "base")]
    if not sides or sides[0][1] == sides[-1][1]:
        return None
    first, last = sides[0][1], sides[-1][1]
    turn = sum(side == first for _, side in sides)
    if any(side != last for _, side in sides[turn:]):  # it turns back
        return None
    below = first == "candidate"
    crossing = _crossing(line, standing, crossings, below, (sides[turn - 1][0], sides[turn][0]))
    if crossing is None:
        return None
    text, under, over = _WORDS[line.axis]
    level = _point(crossing.at)
    own, others = (under, "above") if below else (over, "below")
    return f"{text.format(side=own, level=level)}, {experiment.base.name} {others} (crossing at {_place(crossing)})"


def _covers(line: Line, standing: Standing) -> bool:
    mine = {cell.cell.key for cell in standing.cells if cell.cell is not None}
    return len(standing.cells) == len(mine) and mine == {cell.key for _, cell in line.cells}


def _by_level(line: Line, standing: Standing) -> list[tuple[float, CellStanding]]:
    by_key = {cell.cell.key: cell for cell in standing.cells if cell.cell is not None}
    return [(level, by_key[cell.key]) for level, cell in line.cells]


def _crossing(
    line: Line, standing: Standing, crossings: Sequence[Crossing], below: bool, between: tuple[float, float]
) -> Crossing | None:
    """The crossing of the typical task, else of a gate; the only one of its metric, between the cells decided.

    While cells are undecided, it has to speak for all gates: that of the task, or of the only metric that gates.
    """
    levels = tuple(level for level, _ in line.cells)
    names = {cell.workload for _, cell in line.cells}
    gates = list(dict.fromkeys(row.metric for row in standing.gates))
    allowed = [_TASK, *(gates if len(gates) == 1 or not standing.has("open") else ())]
    for metric in dict.fromkeys(allowed):
        found = [
            c
            for c in crossings
            if (c.candidate, c.axis, c.load, c.levels) == (standing.candidate, line.axis, line.load, levels)
            and c.metric == metric
            and set(c.workloads) == names
            and c.status == "crosses"
        ]
        if len(found) == 1 and found[0].better_below is below:
            at = found[0].at.point
            if at is not None and between[0] <= at <= between[1]:
                return found[0]
    return None


def crossing_sentences(experiment: Experiment, candidate: str, crossings: Sequence[Crossing]) -> tuple[str, ...]:
    """Every crossing of a candidate that was found, as a reason."""
    told = []
    for c in crossings:
        if c.candidate == candidate and c.status == "crosses" and c.at.point is not None:
            text, under, over = _WORDS[c.axis]
            side = text.format(side=under if c.better_below else over, level=_point(c.at))
            ahead = f"{candidate} is ahead of {experiment.base.name} {side} ({_place(c)})"
            told.append(f"{METRICS[c.metric].label}: {ahead}")
    return tuple(told)


def _place(crossing: Crossing) -> str:
    """Where it crosses; and on which assumption, where the levels are too far apart to do without one."""
    if crossing.gap is None:
        return _span(crossing.at)
    return f"{_span(crossing.at)} on a straight line between {crossing.gap[0]:,.6g} and {crossing.gap[1]:,.6g}"


def _span(at: Interval) -> str:
    """``250–360``: rounded outward, so that all of the interval lies in it; ``…`` for an end that is not known."""
    digits = _digits(at)
    low = "…" if at.low is None else rounded(at.low, digits, math.floor)
    return f"{low}–{'…' if at.high is None else rounded(at.high, digits, math.ceil)}"


def _point(at: Interval) -> str:
    """The level itself, with the digits of its interval: it then lies inside."""
    return rounded(at.point or 0.0, _digits(at))


def _digits(at: Interval) -> int:
    """As few digits as widen the interval to its double at most."""
    if at.low is None or at.high is None:
        return 2
    low, high = at.low, at.high

    def width(digits: int) -> float:
        return to_digits(high, digits, math.ceil) - to_digits(low, digits, math.floor)

    return next((digits for digits in (2, 3) if width(digits) <= 2 * (high - low)), 4)
