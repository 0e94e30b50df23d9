"""What is measured once per server start: start-up times and memory peaks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..metrics import Metric
from ..model import Start
from ..stats.estimators import log_ratio
from .pairs import Series

_PEAKS = {
    "peak_memory_bytes": "peak_anon_bytes",
    "peak_mapped_bytes": "peak_mapped_bytes",
    "peak_gpu_bytes": "peak_gpu_bytes",
}


def start_value(start: Start, metric: Metric) -> float:
    """One metric of one start, in the metric's unit; NaN where it was not seen."""
    if metric.name == "ready_s":
        return _span(start.spawn_ns, start.ready_ns)
    if metric.name == "cold_start_s":
        if start.first_request_ns is None or start.ready_ns is None:
            return _span(start.spawn_ns, start.first_token_ns)
        # Between the two the harness builds its prompts: its own time, not the server's.
        return _span(start.spawn_ns, start.ready_ns) + _span(start.first_request_ns, start.first_token_ns)
    peak = getattr(start, _PEAKS[metric.name])
    return float(peak) if peak else math.nan


def _span(first: int | None, last: int | None) -> float:
    """Seconds between two stamps; NaN where one is missing."""
    return math.nan if first is None or last is None or last <= first else (last - first) / 1e9


def start_series(
    starts: Sequence[Start], base: str, other: str, metric: Metric, strata: Mapping[int, int] | None = None
) -> Series:
    """Log ratios by start group. Start-up times pair only starts that found the page cache in the same state.

    A variant that was started twice in one group (it died) counts with its first complete start. strata: round →
    machine, where rounds of several machines are merged.
    """
    arms = _by_group(starts, base, metric), _by_group(starts, other, metric)
    keys: list[int] = []
    rows: list[tuple[float, float, float]] = []
    labels: list[int] = []
    undefined = 0
    for group in sorted(arms[0].keys() & arms[1].keys()):
        a, b = arms[0][group], arms[1][group]
        if metric.kind == "start" and {a.page_cache, b.page_cache} == {"warm", "cold"}:
            undefined += 1  # reading a model from disk or from memory is not the variants' difference
            continue
        values = start_value(a, metric), start_value(b, metric)
        logs = log_ratio(values[1], values[0])
        if math.isfinite(logs):
            keys.append(group)
            rows.append((logs, *values))
            labels.append(strata.get(a.round, 0) if strata else 0)
        else:
            undefined += 1
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return Series(
        keys=tuple(keys),
        logs=columns[:, 0],
        base=columns[:, 1],
        other=columns[:, 2],
        per_round=columns[:, 0],
        rounds=len(keys),
        waiting=0,
        undefined=undefined,
        strata=np.array(labels, dtype=np.int64) if strata and len(set(labels)) > 1 else None,
    )


def _by_group(starts: Sequence[Start], variant: str, metric: Metric) -> dict[int, Start]:
    found: dict[int, Start] = {}
    for start in sorted(starts, key=lambda s: s.id):
        if start.variant == variant and start.kind == "measure":
            known = found.get(start.group)
            if known is None or not math.isfinite(start_value(known, metric)):
                found[start.group] = start
    return found
