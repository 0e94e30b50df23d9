"""Arrival schedules for open-loop load: when each request *should* leave, decided before the block starts.

Poisson arrivals have independent exponential gaps with mean 1 ÷ rate (their counts per window have dispersion 1).
Gamma arrivals have independent gaps of the same mean with shape `burstiness`: the gaps' coefficient of variation is
1 ÷ √shape, and counts over long windows have dispersion 1 ÷ shape (D. R. Cox, Renewal Theory, 1962), so that 1 is
Poisson and less is burstier. Constant arrivals are exactly 1 ÷ rate apart. One seed gives one schedule, so every arm
gets the same one. A trace's own times are not drawn: its prompts know them.
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

    Give either `count` (that many arrivals) or `seconds` (all arrivals in [0, seconds); with random arrivals their
    number is itself random, and may be zero). A longer schedule of the same seed starts with the shorter one.
    Constant arrivals start at 0; a random process has its first arrival after a gap like any other.
    Raises UsageError for a closed loop or a replay, a rate that is not positive, or an absurd size.
    """
    if load.kind != "open":
        what = "a closed loop has" if load.kind == "closed" else "a replay has a trace's times, and"
        raise UsageError(f"{what} no arrival schedule", remedy="ask for a schedule only where a rate is set")
    if load.arrivals == "gamma" and not 0 < load.burstiness < float("inf"):
        raise UsageError(f"a burstiness of {load.burstiness!r} is not possible", remedy="give a positive number")
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
    shape = load.burstiness if load.arrivals == "gamma" else 1.0
    return _renewal(level, shape, (count, seconds), seed)


def _constant(rate: float, count: int | None, seconds: float | None) -> tuple[int, ...]:
    """k ÷ rate for k = 0, 1, …: each offset from its own k, so that no rounding error accumulates."""
    gap_ns = 1e9 / rate
    if count is not None:
        return tuple(round(k * gap_ns) for k in range(count))
    end_ns = (seconds or 0.0) * 1e9
    # One more than fits, then cut: the last one may round on or beyond the end.
    offsets = (round(k * gap_ns) for k in range(int(end_ns / gap_ns) + 1))
    return tuple(offset for offset in offsets if offset < end_ns)


def _renewal(rate: float, shape: float, size: tuple[int | None, float | None], seed: int) -> tuple[int, ...]:
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(seed))

    def unit_gaps(number: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Gaps of mean 1; shape 1 is exponential."""
        return rng.standard_exponential(number) if shape == 1.0 else rng.standard_gamma(shape, number) / shape

    count, seconds = size
    if count is not None:
        arrivals = np.cumsum(unit_gaps(count)) / rate
    else:
        end = seconds or 0.0
        mean = rate * end
        # Mean + 6 standard deviations almost always suffices; else draw on. The generator's stream is sequential,
        # so drawing in pieces changes nothing.
        unit = np.cumsum(unit_gaps(int(mean + 6 * (mean / min(1.0, shape)) ** 0.5) + 16))
        while unit[-1] < mean:
            unit = np.concatenate((unit, unit[-1] + np.cumsum(unit_gaps(1024))))
        arrivals = unit / rate
        arrivals = arrivals[arrivals < end]
    return tuple(int(ns) for ns in np.rint(arrivals * 1e9))
