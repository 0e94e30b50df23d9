"""How fit the bench was during a block: client lag, contention by others, stolen time, clocks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ..client import ClientBlock
from ..model import Health, Sample


def quantile(values: Sequence[float], share: float) -> float | None:
    """Linear interpolation between order statistics (numpy's default), None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def block_health(block: ClientBlock, samples: Sequence[Sample], cores: int) -> Health:
    """Health from what the client saw and the samples. CPU shares are CPU seconds per second of wall time."""
    delays = [(r.sent_ns - r.scheduled_ns) / 1e9 for r in block.records if r.sent_ns is not None]
    lags = [lag / 1e9 for lag in block.loop_lag_ns]
    busy = _rate(samples, "machine_busy_s")
    tree = _rate(samples, "tree_cpu_s")
    client = _rate(samples, "client_cpu_s")
    if client is not None and block.workers_cpu_s:
        # The samples see this process alone; its workers told their own use.
        client += block.workers_cpu_s / max((block.ended_ns - block.started_ns) / 1e9, 1e-3)
    steal = _rate(samples, "machine_steal_s")
    other = None
    if busy is not None and tree is not None:
        # Without the server's own tree (a remote server, or one that we did not start) "other" is unknown:
        # on one machine it would count the server itself.
        other = max(0.0, busy - tree - (client or 0.0))
    return Health(
        send_delay_p50_s=quantile(delays, 0.5),
        send_delay_p99_s=quantile(delays, 0.99),
        loop_lag_p50_s=quantile(lags, 0.5),
        loop_lag_p99_s=quantile(lags, 0.99),
        parse_backlog_p99_s=quantile([late / 1e9 for late in block.backlog_ns], 0.99),
        client_processes=block.processes,
        client_cpu_share=client,
        tree_cpu_share=tree,
        other_cpu_share=other,
        steal_share=None if steal is None else steal / cores,
        runnable_p50=_median([s.runnable for s in samples]),
        cores=cores,
        frequency_mhz=_median([s.frequency_mhz for s in samples]),
        temperature_c=_median([s.temperature_c for s in samples]),
    )


def block_memory(samples: Sequence[Sample]) -> dict[str, float]:
    """Medians over the block [bytes]: ``anon`` and ``mapped`` of the server's tree, ``gpu``; what is told of them."""
    fields = {"anon": "tree_anon_bytes", "mapped": "tree_mapped_bytes", "gpu": "gpu_memory_bytes"}
    found = {name: _median([getattr(sample, field) for sample in samples]) for name, field in fields.items()}
    return {name: value for name, value in found.items() if value is not None}


def _rate(samples: Sequence[Sample], field: str) -> float | None:
    """Difference of a cumulative counter ÷ time between the first and last sample that have it."""
    known = [(s.t_ns, getattr(s, field)) for s in samples if getattr(s, field) is not None]
    if len(known) < 2 or known[-1][0] <= known[0][0]:
        return None
    # Counters tick at 10 ms: below a fifth of a second the quotient would be mostly rounding.
    span = (known[-1][0] - known[0][0]) / 1e9
    return float(known[-1][1] - known[0][1]) / span if span >= 0.2 else None


def _median(values: Sequence[float | int | None]) -> float | None:
    known = [float(v) for v in values if v is not None]
    return statistics.median(known) if known else None
