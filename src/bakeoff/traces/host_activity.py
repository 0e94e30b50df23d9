"""What a host thread was busy with, by the names of its events.

The table is ordered by what explains most: time inside a data loader is data loading, whatever operators it calls. Add
a row to teach a new activity.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from .intervals import covered, union
from .timeline import HostKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .gaps import Gaps
    from .timeline import Timeline

_CALLS = frozenset({HostKind.RUNTIME, HostKind.DRIVER})
_ANY = frozenset(HostKind)

# (activity, kinds of events, pattern on the name)
ACTIVITIES: tuple[tuple[str, frozenset[HostKind], str], ...] = (
    ("data loading", _ANY, r"DataLoader|dataloader|_next_data|pin_memory|collate|prefetch_batch|load_batch"),
    ("compile", _ANY, r"convert_frame|compile_fx|_inductor/|triton/compiler|backend_compile|ModuleLoad|LibraryLoad|"
                      r"nvrtc|GraphInstantiate|StreamEndCapture|CompileContext|torch/_dynamo/(?:symbolic|output)"),
    ("synchronise", _ANY, r"[sS]ynchronize|^(?:cuda|hip)Memcpy(?:2D|3D)?$|^aten::(?:item|_local_scalar_dense|nonzero)$|"
                          r"EventQuery|QueueFinish"),
    ("allocation", _CALLS, r"Malloc|Free|HostAlloc|HostRegister|Mem(?:Alloc|Create|Map|Pool)"),
    ("tokenise and sample", _ANY, r"tokeniz|[sS]ampler|multinomial|sample_token|logits_process"),
    ("launch calls", _CALLS, r""),
    ("operators", frozenset({HostKind.OP}), r""),
    ("Python", frozenset({HostKind.PYTHON}), r""),
)  # fmt: skip
UNKNOWN_ACTIVITY = "unknown"
_COMPILED = tuple((name, kinds, re.compile(pattern)) for name, kinds, pattern in ACTIVITIES)


def activity_ids(timeline: Timeline) -> NDArray[np.int8]:
    """For each host event the index into ACTIVITIES, or −1."""
    if "activity_ids" not in timeline.memo:
        host = timeline.host
        result = np.full(len(host), -1, np.int8)
        used = np.unique(host.name)
        for index in reversed(range(len(_COMPILED))):
            _, kinds, pattern = _COMPILED[index]
            named = np.zeros(len(timeline.names), bool)
            if pattern.pattern:
                named[[i for i in used if pattern.search(timeline.names[i])]] = True
            else:
                named[:] = True
            result[named[host.name] & np.isin(host.kind, [int(kind) for kind in kinds])] = index
        timeline.memo["activity_ids"] = result
    ids: NDArray[np.int8] = timeline.memo["activity_ids"]
    return ids


def host_idle_ns(timeline: Timeline, gaps: Gaps, chosen: NDArray[np.bool_]) -> dict[str, int]:
    """The chosen gaps divided by what the thread that made the next launch did in them.

    From a gap's start to its end; each instant goes to the first activity of the table that is open on that thread,
    what none covers is ``unknown``. Sums to the gaps' length.
    """
    gpu, host = timeline.gpu, timeline.host
    ids = activity_ids(timeline)
    names = [name for name, _, _ in ACTIVITIES]
    result = dict.fromkeys([*names, UNKNOWN_ACTIVITY], 0)
    picked = np.flatnonzero(chosen & (gaps.after >= 0))
    launch = gpu.launch[gaps.after[picked]]
    picked, launch = picked[launch >= 0], launch[launch >= 0]
    total = int((gaps.end - gaps.start)[chosen].sum())
    told = 0
    for thread in np.unique(host.thread[launch]):
        mine = picked[host.thread[launch] == thread]
        start, end = gaps.start[mine], gaps.end[mine]
        near = np.flatnonzero((host.thread == thread) & (ids >= 0))
        # Only events that can touch a gap.
        near = near[(host.end[near] > start.min()) & (host.start[near] < end.max())]
        before = 0
        for index, name in enumerate(names):
            upto = near[ids[near] <= index]
            now = int(covered(union(host.start[upto], host.end[upto]), start, end).sum())
            result[name] += now - before
            before = now
        told += before
    result[UNKNOWN_ACTIVITY] = total - told
    return result
