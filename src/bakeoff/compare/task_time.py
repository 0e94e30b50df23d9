"""What a task takes: its time, split exactly; its tokens, energy and money, and all of these for a solved one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..model import Answer, Cell, Experiment, Interval, TaskTime
from ..stats import outcome
from ..stats.ratios import PairedRatio, paired_ratio, wider
from .energy import Draw, block_draw, mean_draw
from .extract import Floats, Requests
from .pairs import Grid
from .task_parts import Rows, interval_of, task_parts, time_logs, total_s
from .tasks import Tasks, question_tasks, request_tasks

METRIC = "task_time_s"
_FEWEST = 2  # replicates for an interval


def task_times(experiment: Experiment, grid: Grid, answers: Sequence[Answer] = ()) -> tuple[TaskTime, ...]:
    """Each candidate against the base: over all questions, task by task, and in each cell of natural length."""
    found: list[TaskTime] = []
    base = [answer for answer in answers if answer.variant == experiment.base.name]
    names = [task.name for task in experiment.quality.tasks] if experiment.quality else []
    for candidate in experiment.candidates:
        other = [answer for answer in answers if answer.variant == candidate.name]
        for name in [*([None] if len(names) > 1 else []), *names]:
            tasks = question_tasks(experiment, name, base, other)
            if tasks is not None:
                draws = mean_draw(experiment, grid, experiment.base.name), mean_draw(experiment, grid, candidate.name)
                found.append(_task_time(experiment, _Case(candidate.name, tasks, draws, one_look=True), task=name))
        for cell in experiment.cells():
            if experiment.workload(cell.workload).length == "natural":
                found += _of_cell(experiment, grid, candidate.name, cell)
    return tuple(found)


class _Case(NamedTuple):
    """Tasks of one candidate against the base, with the power that both draw meanwhile."""

    candidate: str
    tasks: Tasks
    draws: tuple[Draw | None, Draw | None]
    one_look: bool  # a number of questions that was set in advance; else looked at after every round


def _of_cell(experiment: Experiment, grid: Grid, candidate: str, cell: Cell) -> list[TaskTime]:
    pairs = grid.pairs(experiment.base.name, candidate, cell.key)
    tasks = request_tasks(pairs, experiment.start_every)
    if tasks is None:
        return []
    draws = _draw(experiment, [p.base for p in pairs]), _draw(experiment, [p.other for p in pairs])
    case = _Case(candidate, tasks, draws, one_look=experiment.method == "fixed")
    return [_task_time(experiment, case, workload=cell.workload, load=cell.load)]


def _draw(experiment: Experiment, blocks: Sequence[Requests]) -> Draw | None:
    draws = [draw for block in blocks if isinstance(draw := block_draw(experiment, block), Draw)]
    if len(draws) < len(blocks) or len({draw.source for draw in draws}) != 1:
        return None
    return draws[0]._replace(watts=sum(draw.watts for draw in draws) / len(draws))


def _task_time(experiment: Experiment, case: _Case, **place: Any) -> TaskTime:
    tasks, alpha = case.tasks, 1 - experiment.confidence
    replicates = [np.flatnonzero(tasks.replicate == key) for key in np.unique(tasks.replicate)]
    margin = experiment.margin_of(METRIC)
    logs = time_logs(tasks, replicates)
    interval = interval_of(logs, alpha, case.one_look)
    seconds = _totals(tasks, np.ones(tasks.count), "time_s", experiment, case)
    assert seconds is not None  # noqa: S101 - times are what makes it a task
    by_round = _by_replicate(seconds, replicates, alpha)
    reasons = _reasons(tasks, (experiment.base.name, case.candidate), len(replicates))
    method = "log ratio of mean times by round; " + ("one look, Student's t" if case.one_look else "anytime-valid")
    if len(replicates) < _FEWEST and tasks.count >= _MANY:
        # One round: the questions themselves are all that scatters.
        found = _by_replicate(seconds, [np.flatnonzero(tasks.cluster == c) for c in np.unique(tasks.cluster)], alpha)
        by_round, interval = found, _log(found.ratio)
        method = "jackknife over tasks of one round: the luck of a start is not in it"
    whole = _exp(interval)
    entries, solved = _entries(experiment, case, replicates, alpha)
    parts, hidden = task_parts(tasks, replicates, alpha, case.one_look)
    per_solved = solved.get("time_s")
    equal = interval_of(logs, 2 * alpha, True) if case.one_look and len(replicates) >= _FEWEST else None
    return TaskTime(
        candidate=case.candidate,
        base_s=by_round.base,
        value_s=by_round.other,
        ratio=whole,
        parts=parts,
        per_task={name: (found.base, found.other) for name, found in entries.items()},
        per_solved={name: (found.base, found.other) for name, found in solved.items()},
        ratios={name: found.ratio for name, found in entries.items()} | {"time_s": whole},
        solved_ratios={name: found.ratio for name, found in solved.items()},
        tasks=tasks.count,
        reason="; ".join([*reasons, *hidden]) or None,
        outcome=_outcome(interval, margin, equal),
        solved_outcome=None if per_solved is None else _outcome(_log(per_solved.ratio), margin, None),
        margin=margin,
        rounds=len(replicates),
        units=_units(experiment, [*entries, *solved]),
        method=method,
        energy_source=_energy_source(case),
        **place,
    )


#: Tasks of one round that an interval over them needs.
_MANY = 8


def _reasons(tasks: Tasks, names: tuple[str, str], rounds: int) -> list[str]:
    told = []
    if sum(tasks.unfinished):
        told.append(_left_out(tasks.unfinished, names))
    if tasks.unread:
        one = tasks.unread == 1
        told.append(
            f"{tasks.unread} {'task' if one else 'tasks'} without a readable answer of both arms "
            f"{'counts with its' if one else 'count with their'} time, unread answers as unsolved"
        )
    if rounds < _FEWEST:
        told.append("one round: what starts differ by is not in the interval")
    return told


def _left_out(unfinished: tuple[int, int, int], names: tuple[str, str]) -> str:
    """``10 tasks are left out of both: 3 that flash did not finish, 7 that neither arm finished``."""
    who = [f"{names[0]} did not finish", f"{names[1]} did not finish", "neither arm finished"]
    told = [(count, text) for count, text in zip(unfinished, who, strict=True) if count]
    count = sum(unfinished)
    head = f"{count} {'task' if count == 1 else 'tasks'}"
    are = f"{'is' if count == 1 else 'are'} left out of both"
    if len(told) == 1:
        return f"{head} that {told[0][1]} {are}"
    return f"{head} {are}: {', '.join(f'{n} that {text}' for n, text in told)}"


def _outcome(interval: Interval, margin: float, equivalence: Interval | None) -> str:
    if interval.point is None:
        return "invalid"
    judged = outcome.judge(interval, margin=margin, better="lower", time_like=True, equivalence=equivalence)
    return judged.outcome


# ── per task and per solved task ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Sums:
    """Numerators and denominators of both arms, task by task."""

    base: tuple[Floats, Floats]
    other: tuple[Floats, Floats]


def _entries(
    experiment: Experiment, case: _Case, replicates: Sequence[Rows], alpha: float
) -> tuple[dict[str, PairedRatio], dict[str, PairedRatio]]:
    """Per task and per solved task, by name. An entry that is not known is not there."""
    tasks = case.tasks
    ones = np.ones(tasks.count)
    graded = bool(np.isfinite(tasks.base["solved"]).all() and np.isfinite(tasks.other["solved"]).all())
    clusters = [np.flatnonzero(tasks.cluster == c) for c in np.unique(tasks.cluster)] if graded else []
    per_task, per_solved = {}, {}
    for name in ("time_s", "tokens", "energy_j", "cost"):
        sums = _totals(tasks, ones, name, experiment, case)
        if sums is None:
            continue
        per_task[name] = _by_replicate(sums, replicates, alpha)
        if graded:
            solved = _Sums((sums.base[0], tasks.base["solved"]), (sums.other[0], tasks.other["solved"]))
            # Time has its luck by starts, the score by questions: whichever scatters more bounds the quotient.
            starts, items = _by_replicate(solved, replicates, alpha), _by_replicate(solved, clusters, alpha)
            found = [wider(a, b) if len(replicates) >= _FEWEST else b for a, b in zip(starts, items, strict=True)]
            per_solved[name] = PairedRatio(*found)
    return per_task, per_solved


def _totals(tasks: Tasks, weights: Floats, name: str, experiment: Experiment, case: _Case) -> _Sums | None:
    """What each task takes of something, with the weights as denominators; None where an arm does not tell."""
    names = experiment.base.name, case.candidate
    found = []
    for arm, variant, draw in zip((tasks.base, tasks.other), names, case.draws, strict=True):
        if name == "time_s":
            amounts: Floats | None = total_s(arm)
        elif name == "tokens":
            amounts = arm["tokens"]
        elif name == "energy_j":
            amounts = None if draw is None else np.asarray(draw.watts * arm["occupied_s"], dtype=np.float64)
        else:
            amounts = _cost(experiment, variant, arm)
        if amounts is None or not np.isfinite(amounts).all():
            return None
        found.append(amounts)
    if name == "energy_j" and _energy_source(case) is None:
        return None
    return _Sums((found[0], weights), (found[1], weights))


def _cost(experiment: Experiment, variant: str, arm: Mapping[str, Floats]) -> Floats | None:
    """Money by task: tokens at their price, and the machine's hour for the time that a task occupies it."""
    prices = [v.price for v in experiment.variants]
    price = experiment.variant(variant).price
    if price is None or price.free or len({p.currency for p in prices if p is not None and not p.free}) != 1:
        return None
    money = np.zeros(arm["calls"].size)
    if price.input or price.output:
        money = money + (arm["input_tokens"] * price.input + arm["tokens"] * price.output) / 1e6
    if price.hour:
        money = money + arm["occupied_s"] * price.hour / 3600
    return np.asarray(money, dtype=np.float64)


def _energy_source(case: _Case) -> str | None:
    """Of both arms alike: a measured one against a modelled one is no comparison."""
    sources = {None if draw is None else draw.source for draw in case.draws}
    return next(iter(sources)) if len(sources) == 1 else None


def _units(experiment: Experiment, names: Sequence[str]) -> dict[str, str]:
    currency = next((v.price.currency for v in experiment.variants if v.price is not None and not v.price.free), "")
    units = {"time_s": "s", "tokens": "tokens", "energy_j": "J", "cost": currency}
    return {name: units[name] for name in dict.fromkeys(names)}


def _by_replicate(sums: _Sums, replicates: Sequence[Rows], alpha: float) -> PairedRatio:
    def gathered(arm: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        top, bottom = (np.array([float(values[rows].sum()) for rows in replicates]) for values in arm)
        return top, bottom

    return paired_ratio(gathered(sums.base), gathered(sums.other), alpha)


def _exp(interval: Interval) -> Interval:
    ends = [None if v is None or math.isinf(v) else math.exp(v) for v in (interval.point, interval.low, interval.high)]
    return Interval(point=ends[0], low=ends[1], high=ends[2])


def _log(interval: Interval) -> Interval:
    ends = [None if v is None or v <= 0 else math.log(v) for v in (interval.point, interval.low, interval.high)]
    return Interval(point=ends[0], low=ends[1], high=ends[2])
