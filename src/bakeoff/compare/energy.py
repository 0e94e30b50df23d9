"""Energy per request and per token: measured, modelled from declared watts, or unknown. Never a made-up number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..model import Cell, EnergyUse, Experiment, Interval
from ..stats.paired import t_interval
from .extract import Requests
from .pairs import Grid

Source = Literal["measured", "modelled"]


class Draw(NamedTuple):
    """Mean power over one block's steady window [W]. idle: of the same devices without a server; None: not known."""

    watts: float
    idle: float | None
    source: Source


def block_draw(experiment: Experiment, requests: Requests) -> Draw | str:
    """The power of a block, or why it is not known.

    Modelled: idle + (busy − idle) × utilisation, where utilisation is the server's CPU time ÷ (time × cores); of a
    server that cannot be seen, a closed loop keeps it at work all the time, and an open loop tells nothing.
    """
    block = requests.block
    window_s = (block.window_ns[1] - block.window_ns[0]) / 1e9
    if block.energy_j is not None and window_s > 0:
        return Draw(block.energy_j / window_s, block.idle_w, "measured")
    power = experiment.power_of(block.variant)
    if power is None:
        return "nothing here measures it, and no watts are declared (`energy: {idle: 40 W, busy: 120 W}`)"
    share, cores = block.health.tree_cpu_share, block.health.cores
    if share is not None and cores:
        return Draw(power.at(share / cores), power.idle, "modelled")
    if "/c" in block.cell:  # Cell.key of a closed loop
        return Draw(power.busy, power.idle, "modelled")
    return "the server's utilisation is not seen, so that its declared watts cannot be applied"


def energy_use(experiment: Experiment, grid: Grid) -> tuple[EnergyUse, ...]:
    """Every variant in every cell. Where no variant of a run has any, one row a variant says why."""
    rows = [
        _row(experiment, cell, variant.name, blocks)
        for cell in experiment.cells()
        for variant in experiment.variants
        if (blocks := grid.arm(variant.name, cell.key))
    ]
    if any(row.source != "unknown" for row in rows):
        return tuple(rows)
    first = {row.variant: row for row in reversed(rows)}
    return tuple(row for row in rows if row is first[row.variant])


def _row(experiment: Experiment, cell: Cell, variant: str, blocks: Sequence[Requests]) -> EnergyUse:
    told = [(block_draw(experiment, block), block) for block in blocks]
    known = [(draw, block) for draw, block in told if isinstance(draw, Draw)]
    sources = {draw.source for draw, _ in known}
    base = EnergyUse(variant=variant, workload=cell.workload, load=cell.load, source="unknown")
    if not known:
        reason = next((draw for draw, _ in told if isinstance(draw, str)), None)
        return _replace(base, reason=reason)
    if len(sources) > 1:  # a run that went on with another set of sensors
        known = [(draw, block) for draw, block in known if draw.source == "measured"]
    alpha = 1 - experiment.confidence
    idles = [draw.idle for draw, _ in known if draw.idle is not None]
    watts = np.array([draw.watts for draw, _ in known])
    rate = np.array([block.per_block["request_throughput_rps"] for _, block in known])
    tokens = np.array([block.per_block["token_throughput_tps"] for _, block in known])
    idle = float(np.mean(idles)) if len(idles) == len(known) else None
    return _replace(
        base,
        source=known[0][0].source,
        watts=_mean(watts, alpha),
        idle_watts=idle,
        gross_j=_mean(_over(watts, rate), alpha),
        net_j=Interval(point=None) if idle is None else _mean(_over(np.maximum(0.0, watts - idle), rate), alpha),
        per_token_j=_mean(_over(watts, tokens), alpha),
        devices=tuple(dict.fromkeys(name for _, block in known for name in block.block.energy_by)),
    )


def mean_draw(experiment: Experiment, grid: Grid, variant: str) -> Draw | None:
    """A variant's power over all its blocks: what questions outside of blocks are taken to draw. None: not known."""
    draws = [
        draw
        for cell in experiment.cells()
        for block in grid.arm(variant, cell.key)
        if isinstance(draw := block_draw(experiment, block), Draw)
    ]
    if not draws or len({draw.source for draw in draws}) > 1:
        return None
    idles = [draw.idle for draw in draws if draw.idle is not None]
    idle = sum(idles) / len(idles) if len(idles) == len(draws) else None
    return Draw(sum(draw.watts for draw in draws) / len(draws), idle, draws[0].source)


def _over(top: np.typing.NDArray[np.float64], bottom: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(bottom > 0, top / bottom, np.nan), dtype=np.float64)


def _mean(values: np.typing.NDArray[np.float64], alpha: float) -> Interval:
    """Mean over blocks, one look; the lower bound is never below nothing."""
    known = values[np.isfinite(values)]
    found = t_interval(known, alpha)
    low = None if found.low is None or math.isnan(found.low) else max(0.0, found.low)
    return Interval(point=found.point, low=low, high=found.high)


def _replace(row: EnergyUse, **fields: object) -> EnergyUse:
    import msgspec

    return msgspec.structs.replace(row, **fields)
