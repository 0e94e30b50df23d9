"""Start-up, phase by phase; what the first request pays; and after how many requests a slower start is made up for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..metrics import METRICS
from ..model import BreakEven, Cell, Experiment, Interval, Start, StartUp
from ..stats import anytime
from ..stats.paired import t_interval, t_multiplier
from ..stats.ratios import quotient_of_means
from .extract import Floats, Requests
from .pairs import Grid
from .resources import start_value

#: Phases in order: the name, and the stamps between which it lies.
PHASES = (
    ("process", "spawn_ns", "alive_ns"),
    ("port", "alive_ns", "port_ns"),
    ("ready", "port_ns", "ready_ns"),
    ("first request", "first_request_ns", "first_token_ns"),
)
_COLD = METRICS["cold_start_s"]


def start_ups(experiment: Experiment, grid: Grid, starts: Sequence[Start]) -> tuple[StartUp, ...]:
    """Every variant's starts, apart by the state in which they found the page cache."""
    found = []
    for variant in experiment.variants:
        own = [s for s in starts if s.variant == variant.name and s.kind == "measure" and s.spawn_ns is not None]
        for state in ("cold", "warm", "unknown"):
            same = [s for s in own if s.page_cache == state]
            if same:
                found.append(_row(experiment, grid, variant.name, state, same))
    return tuple(found)


def _row(experiment: Experiment, grid: Grid, variant: str, state: str, starts: Sequence[Start]) -> StartUp:
    alpha = 1 - experiment.confidence
    phases = {}
    for name, first, last in PHASES:
        values = [_span(getattr(s, first), getattr(s, last)) for s in starts]
        if any(math.isfinite(value) for value in values):
            phases[name] = _mean(values, alpha)
    typical = _typical(experiment, grid, variant)
    firsts = [_span(s.first_request_ns, s.first_token_ns) for s in starts]
    usual = [typical.get(s.id, math.nan) for s in starts]
    return StartUp(
        variant=variant,
        page_cache=state,
        starts=len(starts),
        phases=phases,
        total=_mean([start_value(s, _COLD) for s in starts], alpha),
        first_request=_mean(firsts, alpha),
        typical_request=_mean(usual, alpha),
        penalty=_difference([a - b for a, b in zip(firsts, usual, strict=True)], alpha),
    )


def _typical(experiment: Experiment, grid: Grid, variant: str) -> dict[int, float]:
    """Median TTFT by start [s], in the cell where it is shortest: the first request is a short one."""
    found: dict[int, float] = {}
    for cell in experiment.cells():
        by_start: dict[int, list[Floats]] = {}
        for block in grid.arm(variant, cell.key):
            by_start.setdefault(block.block.start_id, []).append(block.values["ttft_s"])
        for start, values in by_start.items():
            known = np.concatenate(values)
            known = known[np.isfinite(known)]
            if known.size:
                found[start] = min(float(np.median(known)), found.get(start, math.inf))
    return found


def start_break_evens(experiment: Experiment, grid: Grid, starts: Sequence[Start]) -> tuple[BreakEven, ...]:
    """N* = (C_F − C_B) ÷ (s_B − s_F) of every candidate in each closed cell, by the state of the page cache.

    C: spawn to first token. s: what a request (a conversation, where there are any) takes of the server, which at a
    concurrency of c is its time ÷ c. Open loops keep a server idle in between, so that their requests make up nothing.
    """
    found = []
    for candidate in experiment.candidates:
        for state in ("cold", "warm", "unknown"):
            for cell in experiment.cells():
                if cell.kind == "closed":
                    row = _break_even(experiment, grid, starts, candidate.name, cell, state)
                    found += [row] if row is not None else []
    return tuple(found)


def _break_even(
    experiment: Experiment, grid: Grid, starts: Sequence[Start], candidate: str, cell: Cell, state: str
) -> BreakEven | None:
    cold, task = [], []
    names = experiment.base.name, candidate
    by_group = [_by_group(starts, name, state) for name in names]
    times = [_task_by_group(grid.arm(name, cell.key), cell) for name in names]
    for group in sorted(by_group[0].keys() & by_group[1].keys() & times[0].keys() & times[1].keys()):
        dear = start_value(by_group[1][group], _COLD) - start_value(by_group[0][group], _COLD)
        saved = times[0][group] - times[1][group]
        if math.isfinite(dear) and math.isfinite(saved):
            cold.append(dear)
            task.append(saved)
    if not cold:
        return None
    row = BreakEven(
        candidate=candidate,
        kind="start-up",
        workload=cell.workload,
        load=cell.load,
        status="unresolved",
        page_cache=state,
    )
    return turning_point(experiment, row, np.array(cold), np.array(task))


def turning_point(experiment: Experiment, row: BreakEven, fixed: Floats, saved: Floats) -> BreakEven:
    """The row with its status. fixed: what the candidate costs more to begin with; saved: what it then saves each time,
    replicate by replicate."""
    import msgspec

    alpha = 1 - experiment.confidence
    dearer, saving = _sign(experiment, fixed, alpha), _sign(experiment, saved, alpha)
    if dearer == 0 or saving == 0:
        return msgspec.structs.replace(row, reason=_open(dearer, saving, fixed.size))
    if dearer != saving:
        return msgspec.structs.replace(row, status="never" if dearer > 0 else "at once")
    n = fixed.size
    factor = anytime.multiplier(n, alpha) if experiment.method == "anytime" else t_multiplier(n, alpha)
    at = quotient_of_means(fixed, saved, factor)
    low = None if at.low is None else max(0.0, at.low)
    return msgspec.structs.replace(
        row, status="at", at=msgspec.structs.replace(at, low=low), candidate_after=dearer > 0
    )


def _open(dearer: int, saving: int, n: int) -> str:
    what = [*(["the start"] if dearer == 0 else []), *(["a request"] if saving == 0 else [])]
    return f"{n} {'pair does' if n == 1 else 'pairs do'} not tell which arm is ahead in {' and in '.join(what)}"


def _sign(experiment: Experiment, values: Floats, alpha: float) -> int:
    """Whether the mean lies above (1) or below (−1) nothing; 0 where the replicates do not tell."""
    if values.size and float(np.ptp(values)) == 0:  # declared, not measured
        return int(np.sign(values[0]))
    found = anytime.interval(values, alpha) if experiment.method == "anytime" else t_interval(values, alpha)
    if found.low is not None and found.low > 0:
        return 1
    return -1 if found.high is not None and found.high < 0 else 0


def _by_group(starts: Sequence[Start], variant: str, state: str) -> dict[int, Start]:
    found: dict[int, Start] = {}
    for start in sorted(starts, key=lambda s: s.id):
        if start.variant == variant and start.kind == "measure" and start.page_cache == state:
            found.setdefault(start.group, start)
    return found


def _task_by_group(blocks: Sequence[Requests], cell: Cell) -> dict[int, float]:
    """Mean time of a task by start group, ÷ concurrency [s]."""
    groups: dict[int, list[float]] = {}
    for block in blocks:
        seconds = block.per_block["task_time_s"]
        if math.isfinite(seconds):
            groups.setdefault(block.block.group, []).append(seconds / cell.level)
    return {group: sum(values) / len(values) for group, values in groups.items()}


def _span(first: int | None, last: int | None) -> float:
    return math.nan if first is None or last is None or last < first else (last - first) / 1e9


def _mean(values: Sequence[float], alpha: float) -> Interval:
    """Of times: the lower bound is not below nothing."""
    found = _difference(values, alpha)
    return found if found.low is None else Interval(point=found.point, low=max(0.0, found.low), high=found.high)


def _difference(values: Sequence[float], alpha: float) -> Interval:
    return t_interval(np.array([value for value in values if math.isfinite(value)], dtype=np.float64), alpha)
