"""What speed costs, as reports show it: task times and their parts, and quality against time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model import Experiment, Interval, MemoryUse, Result, TaskPart, TaskTime
from ..units import change, quantity
from .task_words import entry_name, part_value, parts_by_weight, place_of, share_of, signed_seconds
from .view_price_tables import break_even_text, energy_table, memory_table, startup_table
from .view_price_types import EntryView, ParetoPoint, ParetoView, PartView, PriceView, TaskTimeView
from .view_redact import Cleaner
from .view_text import load_words, tone_and_sign


def price_view(result: Result, experiment: Experiment, clean: Cleaner) -> PriceView:
    """From the result alone; nothing is computed that is not in it."""
    told = [(row, break_even_text(row, result.base, experiment, clean)) for row in result.break_evens]
    return PriceView(
        tasks=tuple(_task(row, clean) for row in result.task_times[:_LIMIT]),
        pareto=_pareto(result, clean),
        memory=memory_table(result.memory, clean),
        startups=startup_table(result.startups, clean),
        energy=energy_table(result.energy, experiment, clean),
        break_evens=tuple(text for _, text in told[:_LIMIT]),
        turning=tuple(text for row, text in told[:_LIMIT] if row.status == "at"),
    )


_LIMIT = 60
_SMALL = 0.005  # of a task's time: parts below it are not worth a word in the short form


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _task(row: TaskTime, clean: Cleaner) -> TaskTimeView:
    entries = [_entry(row, name, solved=False) for name in row.per_task]
    entries += [_entry(row, name, solved=True) for name in row.per_solved]
    load = ", ".join(load_words(kind, level) for kind, level in row.load.items())
    return TaskTimeView(
        candidate=clean(row.candidate, 60),
        title=clean(place_of(row), 80) + (f", {load}" if load else ""),
        counted=f"{row.tasks:,} task{'' if row.tasks == 1 else 's'} in {row.rounds} "
        f"round{'' if row.rounds == 1 else 's'}",
        entries=tuple(entries),
        parts=tuple(_part(row, part) for part in parts_by_weight(row)),
        base_s=row.base_s.point,
        value_s=row.value_s.point,
        note=clean(row.reason, 400) if row.reason else None,
        method=clean(row.method, 200),
    )


def _entry(row: TaskTime, name: str, *, solved: bool) -> EntryView:
    base, value = (row.per_solved if solved else row.per_task)[name]
    ratio = (row.solved_ratios if solved else row.ratios).get(name, Interval(point=None))
    outcome = (row.solved_outcome if solved else row.outcome) if name == "time_s" else None
    tone, sign = tone_and_sign(outcome) if outcome else ("unsure", "")
    unit = row.units.get(name, "")
    label = entry_name(name)
    if name == "energy_j" and row.energy_source:
        label += f" ({row.energy_source})"
    return EntryView(
        label=f"{label}, solved" if solved else label,
        base=_amount(base.point, unit),
        value=_amount(value.point, unit),
        change=change(ratio.point),
        interval=_bounds(ratio),
        tone=tone,
        sign=sign,
        word=outcome or "",
        primary=name == "time_s",
    )


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return part_value(value, unit) if unit == "tokens" else quantity(value, unit)


def _bounds(ratio: Interval) -> str:
    if ratio.low is None or ratio.high is None:
        return "–"
    return f"[{change(ratio.low, unit=False)}, {change(ratio.high, unit=False)}]"


def _part(row: TaskTime, part: TaskPart) -> PartView:
    share = share_of(row, part)
    told = share is not None and share.point is not None and row.outcome not in ("equivalent", "inconclusive")
    return PartView(
        name=part.name,
        base=part_value(part.base, part.unit),
        value=part_value(part.value, part.unit),
        seconds=part.seconds.point or 0.0,
        low=part.seconds.low,
        high=part.seconds.high,
        change=signed_seconds(part.seconds.point or 0.0),
        share=f"{round(share.point * 100)} %".replace("-", "−") if told and share and share.point is not None else "",
        small=abs(part.seconds.point or 0.0) < _SMALL * max(row.base_s.point or 0.0, row.value_s.point or 0.0),
    )


def _pareto(result: Result, clean: Cleaner) -> ParetoView | None:
    """Of all questions together, or of the only task."""
    rows = [row for row in result.task_times if row.workload is None and "time_s" in row.per_solved]
    whole = [row for row in rows if row.task is None] or rows
    if not whole:
        return None
    task = whole[0].task
    scores = {s.candidate: s for s in result.scores if s.measure == "accuracy" and s.task == task}
    memory = {m.variant: m for m in result.memory}
    found: list[tuple[str, Interval, Interval]] = []
    missing: list[str] = []
    for row in [r for r in whole if r.task == task]:
        score = scores.get(row.candidate)
        if score is None:
            continue
        base, value = row.per_solved["time_s"]
        arms = [(result.base, base, score.base), (row.candidate, value, score.value)]
        for name, time, quality in arms if not found and not missing else arms[1:]:
            if time.point is None or quality.point is None:
                missing.append(f"{clean(name, 60)} is not shown: it solved nothing")
            else:
                found.append((name, time, quality))
    if not found:
        return None
    order = (result.base, *result.candidates)
    return ParetoView(
        title="all tasks" if task is None else clean(task, 60),
        points=tuple(
            ParetoPoint(
                arm=clean(name, 60),
                index=order.index(name),
                time=time,
                quality=quality,
                memory=_bytes(memory.get(name)),
                best=not any(_beats(other, (time, quality)) for _, *other in found),
            )
            for name, time, quality in found
        ),
        missing=tuple(missing),
    )


def _beats(other: Sequence[Interval], mine: Sequence[Interval]) -> bool:
    quicker = (other[0].point or math.inf) - (mine[0].point or math.inf)
    better = (other[1].point or 0.0) - (mine[1].point or 0.0)
    return quicker <= 0 and better >= 0 and (quicker < 0 or better > 0)


def _bytes(memory: MemoryUse | None) -> float | None:
    """Of the device where there is one; else all that is resident at the peak."""
    if memory is None:
        return None
    if memory.peak_gpu.point:
        return memory.peak_gpu.point
    known = [value for value in (memory.peak_private.point, memory.peak_mapped.point) if value is not None]
    return sum(known) if known else None
