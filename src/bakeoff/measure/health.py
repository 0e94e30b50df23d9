"""How fit the bench was during a block: client lag, contention by others, stolen time, clocks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

from ..model import Health, RequestRecord, Sample


def quantile(values: Sequence[float], share: float) -> float | None:
    """Linear interpolation between order statistics (numpy's default), None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def block_health(
    records: Sequence[RequestRecord], samples: Sequence[Sample], loop_lag_ns: Sequence[int], cores: int
) -> Health:
    """Health from raw records and samples. CPU shares are CPU seconds per second of wall time."""
    delays = [(r.sent_ns - r.scheduled_ns) / 1e9 for r in records if r.sent_ns is not None]
    lags = [lag / 1e9 for lag in loop_lag_ns]
    busy = _rate(samples, "machine_busy_s")
    tree = _rate(samples, "tree_cpu_s")
    client = _rate(samples, "client_cpu_s")
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
        client_cpu_share=client,
        tree_cpu_share=tree,
        other_cpu_share=other,
        steal_share=None if steal is None else steal / cores,
        runnable_p50=_median([s.runnable for s in samples]),
        cores=cores,
        frequency_mhz=_median([s.frequency_mhz for s in samples]),
        temperature_c=_median([s.temperature_c for s in samples]),
    )


def block_energy(samples: Sequence[Sample], start_ns: int, end_ns: int) -> float | None:
    """∫P dt over the block [J] by the trapezoidal rule, gross; None unless power was read often enough.

    Power is sampled a few times a second and taken as constant from the last sample to the block's end.
    """
    points = [(s.t_ns, s.gpu_power_w) for s in samples if s.gpu_power_w is not None]
    if len(points) < 2 or end_ns <= start_ns:
        return None
    points = [(start_ns, points[0][1]), *((t, p) for t, p in points if start_ns < t < end_ns), (end_ns, points[-1][1])]
    return sum((b[0] - a[0]) / 1e9 * (a[1] + b[1]) / 2 for a, b in pairwise(points))


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
