"""A device's span cut into pieces, each with its cause: busy events that count once, and idle gaps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from .busy import span_window, step_windows
from .categories import CATEGORIES, COMM, COPY, UNCLASSIFIED, category_ids
from .diff_sharing import shares
from .diff_types import Key, Pieces
from .gaps import CAUSES, HOST, UNKNOWN, device_gaps
from .host_activity import ACTIVITIES, UNKNOWN_ACTIVITY, activity_ids
from .intervals import covered, union

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .gaps import Gaps
    from .timeline import Timeline

#: Causes that the traces do not tell: they make up the residual.
UNTOLD: frozenset[Key] = frozenset({("idle", CAUSES[UNKNOWN]), ("busy", UNCLASSIFIED)})
EXPOSED: Key = ("communication", "exposed")
ANY_IDLE: Key = ("idle", "any cause")
_COPY = re.compile(r"Mem(?:cpy|ory copy)\s*(\w+)", re.IGNORECASE)
_MEMSET = re.compile(r"Memset", re.IGNORECASE)


class Gatherer:
    """Pieces of several sorts, put together."""

    def __init__(self) -> None:
        self._keys: dict[Key, int] = {}
        self._parts: list[dict[str, NDArray[Any]]] = []

    def key(self, key: Key) -> int:
        """The index of a cause."""
        return self._keys.setdefault(key, len(self._keys))

    def add(self, **columns: NDArray[Any]) -> None:
        """start, end, ns, key, name: columns of equal length. Pieces without any time are left out."""
        kept = columns["ns"] > 0
        self._parts.append({name: column[kept] for name, column in columns.items()})

    def pieces(self, span_ns: int, origin_ns: int, names: tuple[str, ...], steps: list[tuple[int, int]]) -> Pieces:
        """All of them."""
        return Pieces(
            span_ns=span_ns,
            origin_ns=origin_ns,
            keys=tuple(self._keys),
            start=self._column("start").astype(np.int64),
            end=self._column("end").astype(np.int64),
            ns=self._column("ns").astype(np.float64),
            key=self._column("key").astype(np.int64),
            name=self._column("name").astype(np.int64),
            names=names,
            steps=tuple(steps),
        )

    def _column(self, name: str) -> NDArray[Any]:
        return np.concatenate([part[name] for part in self._parts]) if self._parts else np.empty(0)


def device_pieces(timeline: Timeline, device: int, *, causes: bool, by_step: bool) -> Pieces:
    """The device's span, whole or (by_step) from the first step's work to the end of the last one's.

    causes: divide idle time by its cause; False where the other trace cannot tell causes.
    """
    windows = [(start, end) for _, start, end in step_windows(timeline, device)]
    window = (windows[0][0], windows[-1][1]) if by_step and windows else span_window(timeline, device)
    gather = Gatherer()
    _busy(timeline, device, window, gather)
    gaps = device_gaps(timeline, device, window)
    if not causes:
        key = np.full(len(gaps), gather.key(ANY_IDLE))
        gather.add(start=gaps.start, end=gaps.end, ns=gaps.end - gaps.start, key=key, name=_names_after(timeline, gaps))
    else:
        _idle(timeline, gaps, gather)
    return gather.pieces(window[1] - window[0], first_event(timeline), timeline.names, windows)


def first_event(timeline: Timeline) -> int:
    """Where viewers put their zero: the first event of any kind, ns."""
    return min(int(events.start[0]) for events in (timeline.gpu, timeline.host) if len(events))


def _busy(timeline: Timeline, device: int, window: tuple[int, int], gather: Gatherer) -> None:
    gpu = timeline.gpu
    mine = np.flatnonzero((gpu.device == device) & (gpu.end > window[0]) & (gpu.start < window[1]))
    category = category_ids(timeline)[mine]
    comm, copy = CATEGORIES.index(COMM), CATEGORIES.index(COPY)
    # Communication hidden behind compute, and copies hidden behind either, cost nothing.
    tier = np.select([category == comm, category == copy], [1, 2], 0).astype(np.int8)
    ns = shares(gpu.start[mine], gpu.end[mine], tier, window)
    key = np.empty(len(mine), np.int64)
    for index in np.unique(category):
        chosen = category == index
        if index == copy:
            for name in np.unique(gpu.name[mine[chosen]]):
                key[chosen & (gpu.name[mine] == name)] = gather.key(("copy", _copy_name(timeline.names[name])))
        else:
            key[chosen] = gather.key(EXPOSED if index == comm else ("busy", CATEGORIES[index]))
    gather.add(start=gpu.start[mine], end=gpu.end[mine], ns=ns, key=key, name=gpu.name[mine])


def _copy_name(name: str) -> str:
    """``Memcpy HtoD (Pageable -> Device)`` → ``HtoD``."""
    match = _COPY.search(name)
    if match:
        return match[1]
    return "memset" if _MEMSET.search(name) else "copy kernels"


def _names_after(timeline: Timeline, gaps: Gaps) -> NDArray[np.int64]:
    """What ended each gap; the name 0 stands in where nothing did (at a window's edge)."""
    after = np.maximum(gaps.after, 0)
    return np.where(gaps.after >= 0, timeline.gpu.name[after], 0).astype(np.int64)


def _idle(timeline: Timeline, gaps: Gaps, gather: Gatherer) -> None:
    length = gaps.end - gaps.start
    name = _names_after(timeline, gaps)
    for cause in np.unique(gaps.cause):
        mine = np.flatnonzero(gaps.cause == cause)
        if cause == HOST:
            _host_idle(timeline, gaps, mine, gather)
            continue
        key = np.full(len(mine), gather.key(("idle", CAUSES[cause])))
        gather.add(start=gaps.start[mine], end=gaps.end[mine], ns=length[mine], key=key, name=name[mine])


def _host_idle(timeline: Timeline, gaps: Gaps, mine: NDArray[np.int64], gather: Gatherer) -> None:
    """Gaps in which the host was late, divided by what the launching thread did; see `host_activity`."""
    host = timeline.host
    launch = timeline.gpu.launch[gaps.after[mine]]
    thread = host.thread[launch]
    for number in np.unique(thread):
        chosen = mine[thread == number]
        add_activities(timeline, (gaps.start[chosen], gaps.end[chosen]), int(number), gather)


def add_activities(
    timeline: Timeline,
    gap: tuple[NDArray[np.int64], NDArray[np.int64]],
    thread: int,
    gather: Gatherer,
    *,
    left: str = "host: " + UNKNOWN_ACTIVITY,
    skip: frozenset[str] = frozenset(),
) -> None:
    """Divides gaps among the activities of one thread: each instant goes to the first activity of the table that is
    open; what none covers is `left`. A piece carries the name of the event that explains it."""
    host, ids = timeline.host, activity_ids(timeline)
    start, end = gap
    near = np.flatnonzero((host.thread == thread) & (ids >= 0))
    if len(start) and len(near):
        near = near[(host.end[near] > start.min()) & (host.start[near] < end.max())]
    told = np.zeros(len(start), np.int64)
    upto = np.empty(0, np.int64)
    for index, (activity, _, _) in enumerate(ACTIVITIES):
        mine = near[ids[near] == index]
        if not len(mine) or activity in skip:
            continue
        upto = np.sort(np.concatenate([upto, mine]))
        now = covered(union(host.start[upto], host.end[upto]), start, end)
        # Host events are sorted by start: the last one that began before the gap's end is the one open in it.
        last = np.maximum(np.searchsorted(host.start[mine], end, "left") - 1, 0)
        key = np.full(len(start), gather.key(("idle", "host: " + activity)))
        gather.add(start=start, end=end, ns=now - told, key=key, name=host.name[mine[last]])
        told = now
    rest = (end - start) - told
    after = np.searchsorted(host.start, end, "left")
    name = host.name[np.minimum(after, len(host) - 1)] if len(host) else np.zeros(len(start), np.int64)
    gather.add(start=start, end=end, ns=rest, key=np.full(len(start), gather.key(("idle", left))), name=name)
