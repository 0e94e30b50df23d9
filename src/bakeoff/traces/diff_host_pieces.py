"""A CPU's timeline cut into pieces: operators by kind, and the time between them. For traces without GPU events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .diff_pieces import Gatherer, add_activities, first_event
from .diff_sharing import innermost, shares
from .diff_types import Pieces
from .intervals import covered, union
from .op_categories import op_category
from .timeline import HostKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .timeline import Timeline

BETWEEN_OPS = "between operators"
BETWEEN_STEPS = "between steps"
# Calls of operators are operators; there is no device whose launches could wait.
_SKIPPED = frozenset({"operators", "launch calls"})


def has_operators(timeline: Timeline) -> bool:
    """Whether the trace has operators on the host, the work of a CPU."""
    return bool((timeline.host.kind == HostKind.OP).any())


def host_pieces(timeline: Timeline, *, by_step: bool) -> Pieces:
    """From the first operator's start to the last one's end, or (by_step) over the steps.

    An instant belongs to the innermost operator; where several threads run operators, to each in equal parts.
    """
    start, end, owner = _segments(timeline)
    steps = _step_windows(timeline, int(start.min()), int(end.max()))
    window = (steps[0][0], steps[-1][1]) if by_step and steps else (int(start.min()), int(end.max()))
    gather = Gatherer()
    labels, label_of = _labels(timeline)
    ns = shares(start, end, np.zeros(len(start), np.int8), window)
    category = np.array([gather.key(("busy", op_category(label))) for label in labels] or [0], np.int64)
    label = label_of[owner]
    gather.add(start=start, end=end, ns=ns, key=category[label], name=label + len(timeline.names))
    _between(timeline, union(start, end), window, gather)
    return gather.pieces(window[1] - window[0], first_event(timeline), (*timeline.names, *labels), steps)


def _segments(timeline: Timeline) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(start, end, index of the innermost operator) of disjoint pieces per thread."""
    host = timeline.host
    parts: list[tuple[list[int], list[int], list[int]]] = []
    ops = np.flatnonzero(host.kind == HostKind.OP)
    for thread in np.unique(host.thread[ops]):
        mine = ops[host.thread[ops] == thread]
        starts, ends, owners = innermost(host.start[mine], host.end[mine])
        parts.append((starts, ends, mine[owners].tolist()))
    if not any(starts for starts, _, _ in parts):  # operators without any duration
        return host.start[ops], host.end[ops], ops
    columns = [np.array([value for part in parts for value in part[i]], np.int64) for i in range(3)]
    return columns[0], columns[1], columns[2]


def _labels(timeline: Timeline) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """(what operators do, index of it per host event): the operator type where the format has one, else the name."""
    host = timeline.host
    pairs = np.stack([host.name.astype(np.int64), host.detail.astype(np.int64)], axis=1)
    known, inverse = np.unique(pairs, axis=0, return_inverse=True)
    texts: dict[str, int] = {}
    of_pair = np.empty(len(known), np.int64)
    for row, (name, detail) in enumerate(known.tolist()):
        told = timeline.details[detail].op_type if 0 <= detail < len(timeline.details) else ""
        of_pair[row] = texts.setdefault(told or timeline.names[name], len(texts))
    return tuple(texts), of_pair[inverse.reshape(-1)]


def _step_windows(timeline: Timeline, first: int, last: int) -> list[tuple[int, int]]:
    """Steps in which operators ran, one after the other: each lasts until the next one begins."""
    steps = timeline.steps
    inside = np.flatnonzero((steps.end > first) & (steps.start < last))
    starts = steps.start[inside].tolist()
    ends = [*starts[1:], max(last, int(steps.end[inside[-1]]))] if starts else []
    return list(zip(starts, ends, strict=True))


def _between(
    timeline: Timeline,
    busy: tuple[NDArray[np.int64], NDArray[np.int64]],
    window: tuple[int, int],
    gather: Gatherer,
) -> None:
    """Gaps between operators. Outside of all steps they are the caller's; inside, what the next operator's thread did,
    else the runtime's own work."""
    start = np.concatenate(([window[0]], busy[1]))
    end = np.concatenate((busy[0], [window[1]]))
    start, end = np.clip(start, *window), np.clip(end, *window)
    start, end = start[end > start], end[end > start]
    if not len(start):
        return
    host, steps = timeline.host, timeline.steps
    # Cut at the borders of steps, so that each piece lies inside or outside.
    cuts = np.unique(np.concatenate([steps.start, steps.end])) if len(steps) else np.empty(0, np.int64)
    start, end = _cut(start, end, cuts)
    inside = np.ones(len(start), bool)
    if len(steps):
        inside = covered(union(steps.start, steps.end), start, end) > 0
    ops = np.flatnonzero(host.kind == HostKind.OP)
    following = ops[np.minimum(np.searchsorted(host.start[ops], end, "left"), len(ops) - 1)]
    out = np.flatnonzero(~inside)
    key = np.full(len(out), gather.key(("idle", BETWEEN_STEPS)))
    gather.add(start=start[out], end=end[out], ns=(end - start)[out], key=key, name=host.name[following[out]])
    for thread in np.unique(host.thread[following[inside]]):
        mine = inside & (host.thread[following] == thread)
        add_activities(timeline, (start[mine], end[mine]), int(thread), gather, left=BETWEEN_OPS, skip=_SKIPPED)


def _cut(
    start: NDArray[np.int64], end: NDArray[np.int64], cuts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Disjoint sorted intervals, cut at the given times."""
    inner = cuts[np.searchsorted(start, cuts, "left") > 0]
    at = np.searchsorted(start, inner, "left") - 1
    inner = inner[(inner > start[at]) & (inner < end[at])]
    return np.sort(np.concatenate([start, inner])), np.sort(np.concatenate([end, inner]))


def host_steps(timeline: Timeline) -> int:
    """Steps in which operators ran."""
    host = timeline.host
    ops = host.kind == HostKind.OP
    return len(_step_windows(timeline, int(host.start[ops].min()), int(host.end[ops].max())))
