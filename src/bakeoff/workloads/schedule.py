"""Arrival schedules for open-loop load: when each request *should* leave, decided before the block starts.

Poisson arrivals have independent exponential gaps with mean 1 ÷ rate (their counts per window have dispersion 1);
constant arrivals are exactly 1 ÷ rate apart. One seed gives one schedule, so every arm gets the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..model import Load

# More arrivals than any one client process could send in a block; a larger number is a slip of units.
MAX_ARRIVALS = 10_000_000


def draw_schedule(
    load: Load, level: float, *, count: int | None = None, seconds: float | None = None, seed: int
) -> tuple[int, ...]:
    """Offsets [ns] from the start of the block, ascending; `level` is the rate [requests/s].

    Give either `count` (that many arrivals) or `seconds` (all arrivals in [0, seconds); with Poisson arrivals their
    number is itself random, and may be zero). A longer schedule of the same seed starts with the shorter one.
    Constant arrivals start at 0; a Poisson process has its first arrival after an exponential gap like any other.
    Raises UsageError for a closed loop, a rate that is not positive, or an absurd size.
    """
    if load.kind != "open":
        raise UsageError("a closed loop has no arrival schedule", remedy="ask for a schedule only where a rate is set")
    if not 0 < level < float("inf"):
        raise UsageError(f"an arrival rate of {level!r} requests/s is not possible", remedy="give a positive rate")
    if (count is None) == (seconds is None):
        raise UsageError("a schedule needs either a number of requests or a time", remedy="give exactly one of the two")
    expected = count if count is not None else level * (seconds or 0.0)
    if not 0 <= expected <= MAX_ARRIVALS:
        raise UsageError(
            f"a schedule of {expected:g} arrivals is not possible (limit {MAX_ARRIVALS:,})",
            remedy="lower the rate or the length of the block",
        )
    if load.arrivals == "constant":
        return _constant(level, count, seconds)
    return _poisson(level, count, seconds, seed)


def _constant(rate: float, count: int | None, seconds: float | None) -> tuple[int, ...]:
    """k ÷ rate for k = 0, 1, …: each offset from its own k, so that no rounding error accumulates."""
    gap_ns = 1e9 / rate
    if count is not None:
        return tuple(round(k * gap_ns) for k in range(count))
    end_ns = (seconds or 0.0) * 1e9
    # One more than fits, then cut: the last one may round on or beyond the end.
    offsets = (round(k * gap_ns) for k in range(int(end_ns / gap_ns) + 1))
    return tuple(offset for offset in offsets if offset < end_ns)


def _poisson(rate: float, count: int | None, seconds: float | None, seed: int) -> tuple[int, ...]:
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(seed))
    if count is not None:
        arrivals = np.cumsum(rng.standard_exponential(count)) / rate
    else:
        end = seconds or 0.0
        mean = rate * end
        # Mean + 6 standard deviations almost always suffices; else draw on. The generator's stream is sequential,
        # so drawing in pieces changes nothing.
        unit = np.cumsum(rng.standard_exponential(int(mean + 6 * mean**0.5) + 16))
        while unit[-1] < mean:
            more = rng.standard_exponential(1024)
            unit = np.concatenate((unit, unit[-1] + np.cumsum(more)))
        arrivals = unit / rate
        arrivals = arrivals[arrivals < end]
    return tuple(int(ns) for ns in np.rint(arrivals * 1e9))
