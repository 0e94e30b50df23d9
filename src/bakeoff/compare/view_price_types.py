"""What reports show of the price of speed. Texts are ready to be shown; numbers are there for charts alone."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import Interval
from .view_types import Tone


@dataclass(frozen=True, kw_only=True)
class PartView:
    """One part of the gap between two tasks' times. seconds, low, high: of a task; texts ready to be shown."""

    name: str
    base: str
    value: str
    seconds: float
    low: float | None
    high: float | None
    change: str  # "+640 ms"
    share: str  # of the gap; empty where there is none
    small: bool = False  # next to the whole time


@dataclass(frozen=True, kw_only=True)
class EntryView:
    """Time, tokens, energy or cost, for a task or for a solved one. `sign` and `word` only where it is judged."""

    label: str
    base: str
    value: str
    change: str
    interval: str
    tone: Tone
    sign: str = ""
    word: str = ""
    primary: bool = True


@dataclass(frozen=True, kw_only=True)
class TaskTimeView:
    """Tasks of one candidate against the base."""

    candidate: str
    title: str
    counted: str  # "120 tasks in 6 rounds"
    entries: tuple[EntryView, ...]
    parts: tuple[PartView, ...]
    base_s: float | None
    value_s: float | None
    note: str | None
    method: str


@dataclass(frozen=True, kw_only=True)
class TableView:
    """A small table: heads, and rows of texts."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ParetoPoint:
    """One variant: time of a solved task [s], share of right answers, memory [bytes]; bounds None where unknown."""

    arm: str
    index: int
    time: Interval
    quality: Interval
    memory: float | None
    best: bool  # no other variant is both quicker and better


@dataclass(frozen=True, kw_only=True)
class ParetoView:
    """All variants that have both; `missing` says why another one is not there."""

    title: str
    points: tuple[ParetoPoint, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PriceView:
    """Everything about the price of speed."""

    tasks: tuple[TaskTimeView, ...] = ()
    pareto: ParetoView | None = None
    memory: TableView | None = None
    startups: TableView | None = None
    energy: TableView | None = None
    break_evens: tuple[str, ...] = ()
    turning: tuple[str, ...] = ()  # those of `break_evens` that name a number
