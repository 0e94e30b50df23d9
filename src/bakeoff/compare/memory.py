"""What servers occupy: peaks of their starts, medians while they worked, the parts that engines tell, and growth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from ..model import Block, BlockData, Experiment, Interval, MemoryUse, Start
from ..stats.paired import t_interval

#: Growth of private memory over what was watched that is worth a word: as a share of it, and in bytes.
GROWTH_SHARE = 0.01
GROWTH_BYTES = 16e6
#: Level of the test that the growth is beyond the noise of the blocks.
GROWTH_P = 0.001
#: Degrees of freedom that the test needs.
_FREEDOM = 4
#: Share of a start's blocks that are not looked at: a cache that fills itself is no leak.
_SETTLING = 1 / 3


class Growth(NamedTuple):
    """Slope of private memory by time, starts having levels of their own."""

    per_hour: Interval  # [bytes/h]
    watched_s: float  # longest time of one start that was looked at
    share: float  # growth over that time ÷ the mean level
    p_value: float  # of no growth, one-sided

    @property
    def leak(self) -> bool:
        """Whether it is beyond noise and large enough to matter."""
        grown = (self.per_hour.point or 0.0) * self.watched_s / 3600
        return self.p_value < GROWTH_P and self.share > GROWTH_SHARE and grown > GROWTH_BYTES


def growth(blocks: Sequence[Block]) -> Growth | None:
    """Of one variant's measured blocks; None where too few of them tell their memory, or starts are too short.

    The first third of each start's blocks is left out.
    """
    times: list[np.typing.NDArray[np.float64]] = []
    levels: list[np.typing.NDArray[np.float64]] = []
    for start in sorted({block.start_id for block in blocks}):
        own = sorted((b for b in blocks if b.start_id == start and "anon" in b.memory), key=lambda b: b.started_ns)
        own = own[math.ceil(len(own) * _SETTLING) :]
        if len(own) >= 2:
            middle = np.array([(b.started_ns + b.ended_ns) / 2e9 for b in own])
            times.append(middle - middle[0])
            levels.append(np.array([b.memory["anon"] for b in own]))
    freedom = sum(t.size for t in times) - len(times) - 1
    if freedom < _FREEDOM:
        return None
    x = np.concatenate([t - t.mean() for t in times])
    y = np.concatenate([v - v.mean() for v in levels])
    spread = float((x**2).sum())
    if spread == 0:
        return None
    slope = float((x * y).sum()) / spread
    error = math.sqrt(float(((y - slope * x) ** 2).sum()) / freedom / spread)
    half = float(stats.t.ppf(0.975, freedom)) * error
    watched = max(float(t[-1]) for t in times)
    level = float(np.concatenate(levels).mean())
    p_value = float(stats.t.sf(slope / error, freedom)) if error > 0 else (0.0 if slope > 0 else 1.0)
    bounds = Interval(point=slope * 3600, low=(slope - half) * 3600, high=(slope + half) * 3600)
    return Growth(bounds, watched, slope * watched / level if level else 0.0, p_value)


def memory_use(experiment: Experiment, blocks: Sequence[BlockData], starts: Sequence[Start]) -> tuple[MemoryUse, ...]:
    """Every variant of which anything is known."""
    alpha = 1 - experiment.confidence
    found = []
    for variant in experiment.variants:
        own = [s for s in starts if s.variant == variant.name and s.kind == "measure"]
        worked = [d.block for d in blocks if d.block.variant == variant.name and d.block.kind == "measure"]
        row = _row(variant.name, own, worked, alpha)
        if row is not None:
            found.append(row)
    return tuple(found)


def _row(variant: str, starts: Sequence[Start], blocks: Sequence[Block], alpha: float) -> MemoryUse | None:
    peaks = {
        "private": [s.peak_anon_bytes for s in starts],
        "mapped": [s.peak_mapped_bytes for s in starts],
        "gpu": [s.peak_gpu_bytes for s in starts],
    }
    peak = {name: _mean([float(v) for v in values if v], alpha) for name, values in peaks.items()}
    steady = {
        "private": _steady(blocks, "anon", alpha),
        "mapped": _steady(blocks, "mapped", alpha),
        "gpu": _steady(blocks, "gpu", alpha),
    }
    if all(interval.point is None for interval in (*peak.values(), *steady.values())):
        return None
    grows = growth(blocks)
    on_device = any(s.memory_on_device for s in starts if s.memory_parts)
    resident = {name: steady[name] if steady[name].point is not None else peak[name] for name in steady}
    parts = _parts(starts, resident, on_device)
    return MemoryUse(
        variant=variant,
        starts=len(starts),
        peak_private=peak["private"],
        steady_private=steady["private"],
        peak_mapped=peak["mapped"],
        steady_mapped=steady["mapped"],
        peak_gpu=peak["gpu"],
        steady_gpu=steady["gpu"],
        parts=parts,
        parts_of=None if not parts else ("device" if on_device else "process"),
        growth_per_hour=Interval(point=None) if grows is None else grows.per_hour,
        leak=grows is not None and grows.leak,
    )


def _parts(starts: Sequence[Start], resident: dict[str, Interval], on_device: bool) -> dict[str, float]:
    """Means over the starts that tell; ``rest``: what they leave of what is resident (never below nothing)."""
    told = [s.memory_parts for s in starts if s.memory_parts]
    if not told:
        return {}
    names = dict.fromkeys(name for parts in told for name in parts)
    parts = {name: sum(p.get(name, 0.0) for p in told) / len(told) for name in names}
    of = [resident["gpu"].point] if on_device else [resident["private"].point, resident["mapped"].point]
    known = [value for value in of if value is not None]
    rest = sum(known) - sum(parts.values())
    # Reserved memory that was never touched is not resident: then the parts are more than what is there.
    return {**parts, "rest": rest} if len(known) == len(of) and rest > 0 else parts


def _steady(blocks: Sequence[Block], name: str, alpha: float) -> Interval:
    """Mean over starts of the median over a start's blocks."""
    by_start: dict[int, list[float]] = {}
    for block in blocks:
        if name in block.memory:
            by_start.setdefault(block.start_id, []).append(block.memory[name])
    return _mean([float(np.median(values)) for values in by_start.values()], alpha)


def _mean(values: Sequence[float], alpha: float) -> Interval:
    return t_interval(np.array(values, dtype=np.float64), alpha)
