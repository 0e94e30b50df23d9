"""How much of a difference repeats of the same thing would show by chance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .diff_types import Band, Key, Pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray


def step_samples(trace: list[Pieces], keys: list[Key]) -> NDArray[np.float64]:
    """ns per key of each step, shape (steps, keys), mean over devices. A piece belongs to the step in which its event
    or gap begins."""
    index = {key: at for at, key in enumerate(keys)}
    count = min((len(part.steps) for part in trace), default=0)
    result = np.zeros((count, len(keys)))
    if not count:
        return result
    for part in trace:
        starts = np.array([start for start, _ in part.steps[:count]], np.int64)
        # A gap that leads up to a step's first work belongs to the step before it: it begins there.
        step = np.searchsorted(starts, part.start, "right") - 1
        inside = (step >= 0) & (part.start < part.steps[count - 1][1])
        column = np.array([index[key] for key in part.keys], np.int64)
        np.add.at(result, (step[inside], column[part.key[inside]]), part.ns[inside])
    return result / len(trace)


def band_of(samples: tuple[NDArray[np.float64], ...], scale: float, confidence: float, basis: str) -> Band | None:
    """Welch's interval of mean(candidate) − mean(base), in ms × scale; samples in ns, shape (n,) per side.

    Formula: B. L. Welch (1947), with the degrees of freedom of Satterthwaite. None below two repeats a side.
    """
    from scipy.special import stdtrit

    base, candidate = samples
    if min(len(base), len(candidate)) < 2:
        return None
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (base, candidate)]
    point = (float(candidate.mean()) - float(base.mean())) * scale / 1e6
    error = math.sqrt(sum(parts))
    if error == 0.0:
        return Band(low=point, high=point, confidence=confidence, basis=basis)
    freedom = sum(parts) ** 2 / sum(p**2 / (len(s) - 1) for p, s in zip(parts, (base, candidate), strict=True))
    reach = float(stdtrit(freedom, 0.5 + confidence / 2)) * error * scale / 1e6
    return Band(low=point - reach, high=point + reach, confidence=confidence, basis=basis)
