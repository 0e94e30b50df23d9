"""What makes one request, block or start slower than the next, in log. Five scenarios, each adding to the one before.

Requests: prompts differ (and are the same for both arms of a round), neighbours in a block resemble each other, every
request scatters. Starts: each has its luck. Machine: it wanders from block to block and drifts over the run. Mishaps:
one request in a hundred takes three times as long; in one block of twenty, twenty requests in a row take half as long
again. (The sizes of mishaps are chosen so that medians and tail quantiles of pairs spread about as the method assumes.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from tests.compare.simulate import Noise

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Weather(Noise):
    """Standard deviations and shifts in log; shares of requests or blocks."""

    slow_phi: float = 0.9  # of the machine's wandering, from block to block
    outliers: float = 0.0
    outlier_size: float = float(np.log(3.0))
    bursts: float = 0.0  # share of blocks
    burst_length: int = 20
    burst_size: float = float(np.log(1.5))


SCENARIOS: dict[str, Weather] = {
    "iid": Weather(ar=0.0, start=0.0, slow=0.0, trend=0.0),
    "+AR": Weather(start=0.0, slow=0.0, trend=0.0),
    "+start": Weather(start=0.01, slow=0.0, trend=0.0),
    "+drift": Weather(),
    "+outliers": Weather(outliers=0.01, bursts=0.05),
}


def autoregressive(rng: np.random.Generator, shape: tuple[int, int], sd: float, phi: float) -> Floats:
    """Stationary AR(1) along the last axis with marginal standard deviation `sd`."""
    steps = rng.normal(0.0, sd * np.sqrt(1 - phi**2), shape)
    steps[:, 0] = rng.normal(0.0, sd, shape[0])
    return np.asarray(lfilter([1.0], [1.0, -phi], steps, axis=1), dtype=np.float64)


def machine(rng: np.random.Generator, weather: Weather, visits: int) -> Floats:
    """Level of the machine at each of so many blocks, in order of time; shape (visits,)."""
    wandering = autoregressive(rng, (1, visits), weather.slow, weather.slow_phi)[0]
    return np.asarray(wandering + weather.trend * np.linspace(0.0, 1.0, visits), dtype=np.float64)


def scatter(rng: np.random.Generator, weather: Weather, shape: tuple[int, int]) -> Floats:
    """What single requests add to their block's level; shape (blocks, requests)."""
    blocks, requests = shape
    x = autoregressive(rng, shape, weather.ar, weather.phi) + rng.normal(0.0, weather.eps, shape)
    x += (rng.random(shape) < weather.outliers) * weather.outlier_size
    struck = rng.random(blocks) < weather.bursts
    begins = rng.integers(0, requests, blocks)
    place = np.arange(requests)
    inside = (place >= begins[:, None]) & (place < begins[:, None] + weather.burst_length)
    return np.asarray(x + weather.burst_size * (struck[:, None] & inside), dtype=np.float64)
