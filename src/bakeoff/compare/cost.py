"""From how many requests an hour on a fixed price (a machine by the hour) beats a price by the token."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from ..model import BreakEven, Cell, Experiment, Price
from .extract import Requests
from .pairs import Grid
from .startup import turning_point


def volume_break_evens(experiment: Experiment, grid: Grid) -> tuple[BreakEven, ...]:
    """V* = (H_F − H_B) ÷ (t_B − t_F) of every candidate in each cell, in requests an hour.

    H: price of an hour; t: tokens of a request at their price. Empty where prices are missing, in several currencies,
    or the hours of both arms cost the same.
    """
    base = experiment.base.price
    found = []
    for candidate in experiment.candidates:
        price = candidate.price
        if base is None or price is None or base.hour == price.hour or len(_currencies(base, price)) > 1:
            continue
        for cell in experiment.cells():
            row = _row(experiment, grid, candidate.name, cell, price.hour - base.hour)
            found += [row] if row is not None else []
    return tuple(found)


def _currencies(*prices: Price) -> set[str]:
    return {price.currency for price in prices if not price.free}


def _row(experiment: Experiment, grid: Grid, candidate: str, cell: Cell, dearer: float) -> BreakEven | None:
    pairs = grid.pairs(experiment.base.name, candidate, cell.key)
    tokens = [(_tokens(experiment, pair.base), _tokens(experiment, pair.other)) for pair in pairs]
    saved = np.array([b - f for b, f in tokens if math.isfinite(b) and math.isfinite(f)], dtype=np.float64)
    if not saved.size:
        return None
    row = BreakEven(candidate=candidate, kind="volume", workload=cell.workload, load=cell.load, status="unresolved")
    row = turning_point(experiment, row, np.full(saved.size, dearer), saved)
    if row.status != "at" or row.at.point is None:
        return row
    fixed = [pair.other if dearer > 0 else pair.base for pair in pairs]
    served = _served(fixed)
    if cell.kind == "closed" and served is not None and row.at.point > served:
        name = candidate if dearer > 0 else experiment.base.name
        reason = f"one machine of {name} serves about {served:,.0f} an hour here: at a price by the hour it is no match"
        return msgspec.structs.replace(row, reason=reason)
    return row


def _tokens(experiment: Experiment, block: Requests) -> float:
    """Mean price of a request's tokens; NaN where they are not known."""
    price = experiment.variant(block.block.variant).price
    if price is None or not block.completed:
        return math.nan
    if price.input == price.output == 0:
        return 0.0
    asked, written = block.numbers("input_tokens")[block.ok], block.numbers("output_tokens")[block.ok]
    return float(np.mean((asked * price.input + written * price.output) / 1e6))


def _served(blocks: Sequence[Requests]) -> float | None:
    """Requests an hour that these blocks were served at."""
    rates = [block.per_block["request_throughput_rps"] for block in blocks]
    known = [rate for rate in rates if math.isfinite(rate)]
    return 3600 * sum(known) / len(known) if known else None
