"""Which share of a change each part of a sum holds: exact, and without an order of the parts.

Log-mean Divisia index (Ang 2004): with T = Σ parts and L(a, b) = (a − b)/ln(a/b), the change ln(T₁/T₀) is the sum over
parts of L(p₁, p₀)/L(T₁, T₀) · ln(p₁/p₀); and where a part is a product of factors, its logarithm splits further.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..errors import TooFewData


def log_mean(a: float, b: float) -> float:
    """(a − b) ÷ ln(a ÷ b) of two positive numbers; a where they are equal."""
    if a == b:
        return a
    away = (a - b) / b
    # log1p keeps the quotient exact for numbers that hardly differ, and loses it where one is close to nothing.
    return (a - b) / (math.log1p(away) if abs(away) < 0.5 else math.log(a / b))


def split(base: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Share of ln(Σ other ÷ Σ base) that each part holds, in log; the shares sum to it.

    base, other: the same parts, in one unit, not negative. A part that is 0 in both holds nothing; one that is 0 in one
    of them is taken as vanishingly small. Raises TooFewData for other parts, negative ones or an empty sum.
    """
    totals = sum(base.values()), sum(other.values())
    numbers = [*base.values(), *other.values()]
    if base.keys() != other.keys() or min(totals) <= 0 or any(not 0 <= n < math.inf for n in numbers):
        raise TooFewData("these parts cannot be split", remedy="give the same parts of both, none negative")
    weight = log_mean(totals[1], totals[0])
    shares = {}
    for name, before in base.items():
        after = other[name]
        # L(a, b)·ln(a/b) = a − b, also in the limit of a part that appears or vanishes.
        shares[name] = (after - before) / weight
    return shares


def product(base: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Share of each factor in Π other − Π base, in the unit of the product: L(p₁, p₀) · ln(f₁/f₀). They sum to it.

    Raises TooFewData for other factors or factors that are not positive.
    """
    numbers = [*base.values(), *other.values()]
    if base.keys() != other.keys() or any(not 0 < n < math.inf for n in numbers):
        raise TooFewData("these factors cannot be split", remedy="give the same positive factors of both")
    weight = log_mean(math.prod(other.values()), math.prod(base.values()))
    return {name: weight * math.log(other[name] / base[name]) for name in base}
