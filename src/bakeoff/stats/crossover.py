"""Where along an axis (concurrency, rate, prompt length) a ratio crosses 1, with an interval for that place.

The log ratio is taken as linear in the logarithm of the level between neighbouring levels. For a place x between the
levels a and b, with w = ln(x/a) / ln(b/a), the quantity (1 − w)·y_a + w·y_b of every pair estimates the log ratio at
x. A place belongs to the interval where that quantity's own interval contains 0 (test inversion; with two levels this
is Fieller 1954 on pairs). At the true crossing the test errs with probability alpha, wherever it lies, so no correction
for the number of places is needed; with the anytime-valid interval it holds at all looks together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import TooFewData
from ..model import Method
from . import anytime, paired
from .checks import finite_vector

#: One series a level, or an array of shape (levels, pairs).
Logs = NDArray[np.float64] | Sequence[NDArray[np.float64] | Sequence[float]]

#: crosses: the sign is sure on both sides of one place. none: the ratio is off 1 at every level measured, on one side.
#: unresolved: somewhere it may be 1, but the sides are not sure (more pairs, or a wider range of levels, would tell).
Status = Literal["crosses", "none", "unresolved"]


class Crossing(NamedTuple):
    """One place where the ratio crosses 1, in the unit of the levels. `rising`: below 1 before it, above 1 after."""

    point: float
    low: float
    high: float
    rising: bool


class Crossover(NamedTuple):
    """All sure crossings in the range measured. `sign`: of the log ratio over the whole range where it never crosses
    (0 where that is not sure)."""

    status: Status
    crossings: tuple[Crossing, ...] = ()
    sign: Literal[-1, 0, 1] = 0


class _Stretch(NamedTuple):
    """Part of the axis in which the ratio may be 1, in places: level number + share of the way to the next."""

    low: float
    high: float


def crossover(
    levels: Sequence[float],
    logs: Logs,
    *,
    alpha: float = 0.05,
    method: Method = "anytime",
) -> Crossover:
    """Where exp(log ratio) crosses 1 along `levels`.

    levels: at least two, positive, rising. logs: for each level the log ratios of its pairs, shape (pairs,), pair i of
    every level from the same round (so that what a round has in common counts as such). Raises TooFewData for NaN, for
    levels that do not rise and for series of unequal length.
    """
    values = _checked(levels, logs)
    if values.shape[1] < 2:
        return Crossover("unresolved")
    factor = _factor(values.shape[1], alpha, method)
    if not math.isfinite(factor):
        return Crossover("unresolved")
    means = values.mean(axis=1)
    stretches = _joined([s for i in range(len(values) - 1) for s in _may_be_one(values[i : i + 2], factor, i)])
    if not stretches:
        return Crossover("none", sign=1 if means[0] > 0 else -1)
    found = []
    for stretch in stretches:
        before, after = _sure_sign(means, stretch.low, before=True), _sure_sign(means, stretch.high, before=False)
        if before * after < 0:
            point = _zero(means, stretch, rising=after > 0)
            point, low, high = (_level(levels, place) for place in (point, stretch.low, stretch.high))
            found.append(Crossing(point, low, high, after > 0))
    return Crossover("crosses" if found and len(found) == len(stretches) else "unresolved", tuple(found))


def _checked(levels: Sequence[float], logs: Logs) -> NDArray[np.float64]:
    series = [finite_vector(values) for values in logs]
    place = finite_vector(levels)
    if place.size < 2 or place.size != len(series) or not (place > 0).all() or not (np.diff(place) > 0).all():
        raise TooFewData(
            f"{place.size} levels and {len(series)} series do not make an axis",
            remedy="pass two or more positive, rising levels and one series for each",
        )
    if len({values.size for values in series}) != 1:
        raise TooFewData("the levels have unequal numbers of pairs", remedy="keep the rounds that every level has")
    return np.array(series)


def _factor(n: int, alpha: float, method: Method) -> float:
    """Half-width of an interval in units of the standard deviation of the pairs."""
    return anytime.multiplier(n, alpha) if method == "anytime" else paired.t_multiplier(n, alpha)


def _may_be_one(ends: NDArray[np.float64], factor: float, number: int) -> list[_Stretch]:
    """Places between two neighbouring levels where |mean| ≤ factor · sd, as shares w in [0, 1] of the way.

    mean(w) = m0 + w·(m1 − m0) and the variance is quadratic in w, so the edges are roots of a quadratic.
    """
    m0, m1 = ends.mean(axis=1)
    cov = np.cov(ends, ddof=1) * factor**2
    slope = m1 - m0
    # mean(w)² − factor²·var(w) = a·w² + b·w + c, and the places wanted are those where it is not positive
    a = slope**2 - (cov[0, 0] - 2 * cov[0, 1] + cov[1, 1])
    b = 2 * (m0 * slope - (cov[0, 1] - cov[0, 0]))
    c = m0**2 - cov[0, 0]
    edges = sorted({0.0, 1.0, *(root for root in _roots(a, b, c) if 0 < root < 1)})
    stretches = []
    for low, high in itertools.pairwise(edges):
        middle = (low + high) / 2
        if a * middle**2 + b * middle + c <= 0:
            stretches.append(_Stretch(number + low, number + high))
    if not stretches:  # noiseless pairs: the place of the zero itself
        stretches = [_Stretch(number + w, number + w) for w in edges if abs(m0 + w * slope) <= 1e-15]
    return stretches


def _roots(a: float, b: float, c: float) -> list[float]:
    """Real roots of a·w² + b·w + c, in the form that does not cancel."""
    if a == 0:
        return [-c / b] if b else []
    discriminant = b * b - 4 * a * c
    if discriminant < 0:
        return []
    q = -(b + math.copysign(math.sqrt(discriminant), b)) / 2
    return [q / a, *([c / q] if q else [])]


def _joined(stretches: Sequence[_Stretch]) -> list[_Stretch]:
    """Stretches that touch become one."""
    joined: list[_Stretch] = []
    for stretch in stretches:
        if joined and stretch.low <= joined[-1].high + 1e-12:
            joined[-1] = _Stretch(joined[-1].low, max(joined[-1].high, stretch.high))
        else:
            joined.append(stretch)
    return joined


def _sure_sign(means: NDArray[np.float64], place: float, *, before: bool) -> float:
    """Sign of the log ratio at a stretch's edge, from where on it is sure. 0 where the range ends there."""
    if (before and place <= 0) or (not before and place >= means.size - 1):
        return 0.0
    number = min(math.floor(place), means.size - 2)
    at = float(means[number] + (place - number) * (means[number + 1] - means[number]))
    if abs(at) <= 1e-12:  # noiseless pairs: the edge is the zero itself
        at = float(means[math.ceil(place) - 1 if before else math.floor(place) + 1])
    return float(np.sign(at))


def _zero(means: NDArray[np.float64], stretch: _Stretch, *, rising: bool) -> float:
    """Place of the zero of the interpolated means inside the stretch; of several, the middle one."""
    zeros = []
    for i in range(means.size - 1):
        m0, m1 = means[i], means[i + 1]
        if m0 * m1 <= 0 and m0 != m1 and (m1 > m0) == rising:
            zeros.append(float(i + m0 / (m0 - m1)))
    inside = [z for z in zeros if stretch.low - 1e-9 <= z <= stretch.high + 1e-9]
    return inside[len(inside) // 2] if inside else (stretch.low + stretch.high) / 2


def _level(levels: Sequence[float], place: float) -> float:
    """The level at a place: between two levels it is interpolated in the logarithm."""
    number = min(math.floor(place), len(levels) - 2)
    a, b = math.log(levels[number]), math.log(levels[number + 1])
    return math.exp(a + (place - number) * (b - a))
