"""Rows with their evidence: what was counted on each side, how long one took, and where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .diff_types import Band, Counted, Example, Key, Pieces, Row

if TYPE_CHECKING:
    from .timeline import Timeline

_EXAMPLES = 3
_NAME_CHARS = 160


def row_of(key: Key, means: tuple[float, ...], counted: tuple[Counted, ...], band: Band | None) -> Row:
    """A row; means in ms per unit."""
    return Row(
        kind=key[0],
        name=key[1],
        ms=means[1] - means[0],
        base_ms=means[0],
        candidate_ms=means[1],
        base=counted[0],
        candidate=counted[1],
        band=band,
    )


def gathered(side: list[list[Pieces]], key: Key) -> Counted:
    """What one side's time for a cause is made of, over its traces and devices."""
    total, events, longest = 0.0, 0, 0
    where: tuple[float, float] | None = None
    by_name: dict[str, tuple[float, int]] = {}
    for part in (part for trace in side for part in trace):
        if key not in part.keys:
            continue
        mine = np.flatnonzero(part.key == part.keys.index(key))
        if not len(mine):
            continue
        total += float(part.ns[mine].sum())
        events += len(mine)
        lengths = part.end[mine] - part.start[mine]
        top = int(mine[np.argmax(lengths)])
        if int(lengths.max()) >= longest:
            longest = int(lengths.max())
            where = ((part.start[top] - part.origin_ns) / 1e6, (part.end[top] - part.origin_ns) / 1e6)
        names, inverse = np.unique(part.name[mine], return_inverse=True)
        spent, count = np.bincount(inverse, part.ns[mine]), np.bincount(inverse)
        for at in np.argsort(-spent)[:_EXAMPLES]:
            label = part.names[int(names[at])][:_NAME_CHARS]
            ns, number = by_name.get(label, (0.0, 0))
            by_name[label] = (ns + float(spent[at]), number + int(count[at]))
    best = sorted(by_name.items(), key=lambda item: (-item[1][0], item[0]))[:_EXAMPLES]
    return Counted(
        ms=total / 1e6,
        events=events,
        longest_ms=longest / 1e6,
        range_ms=where,
        examples=tuple(Example(name=name, ms=ns / 1e6, count=number) for name, (ns, number) in best),
    )


def compile_pieces(timeline: Timeline) -> Pieces:
    """Compilations one after the other: first ones and recompilations. Events without a duration take none."""
    timed = [event for event in timeline.compiles if event.seconds]
    ns = np.array([round((event.seconds or 0.0) * 1e9) for event in timed], np.int64)
    keys: tuple[Key, ...] = (("compile", "first compilations"), ("compile", "recompilations"))
    end = np.cumsum(ns)
    return Pieces(
        span_ns=int(ns.sum()),
        origin_ns=0,
        keys=keys,
        start=end - ns,
        end=end,
        ns=ns.astype(np.float64),
        key=np.array([event.kind == "recompile" for event in timed], np.int64),
        name=np.arange(len(timed), dtype=np.int64),
        names=tuple(f"{e.frame}: {e.reason}" if e.reason else e.frame for e in timed),
    )
