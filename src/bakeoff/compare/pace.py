"""How long a round takes: from the first start of a start group to its last block, warm-up and pauses included."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from ..model import Block, Start


def round_seconds(blocks: Iterable[Block], starts: Iterable[Start] = ()) -> float | None:
    """Median over start groups of their time ÷ their rounds [s]; None without a measured block."""
    begins: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[int]] = defaultdict(list)
    rounds: dict[int, set[int]] = defaultdict(set)
    for block in blocks:
        if block.kind == "probe":
            continue
        begins[block.group].append(block.started_ns)
        ends[block.group].append(block.ended_ns)
        rounds[block.group].add(block.round)
    for start in starts:
        if start.kind != "probe" and start.spawn_ns is not None and start.group in rounds:
            begins[start.group].append(start.spawn_ns)
    spans = [(max(ends[group]) - min(begins[group])) / 1e9 / len(rounds[group]) for group in rounds]
    return statistics.median(spans) if spans else None
