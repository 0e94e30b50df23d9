"""Data of the charts, straight from the blocks: distributions, paired differences, timeline. Descriptive only."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..metrics import METRICS, Metric
from ..model import BlockData, Sample
from ..stats.drift import lag1, slope
from ..stats.power import minimum_detectable
from ..stats.strata import aligned, summarise
from .pairs import Grid, Pair, Series, pair_log_ratio, stray
from .view_text import metric_label
from .view_types import Bar, Curve, Distribution, PairPoint, PairSeries, PairSummary, Strip, Timeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CURVE_POINTS = 200
CURVE_METRICS = ("ttft_s", "tpot_s")


def distributions(grid: Grid, cell: str, arms: Mapping[str, str]) -> tuple[Distribution, ...]:
    """ECDFs of one cell's measured blocks, at most CURVE_POINTS points a curve. arms: variant → name to show."""
    found = []
    for name in CURVE_METRICS:
        curves = []
        for arm, shown in arms.items():
            parts = [requests.values[name] for requests in grid.arm(arm, cell)]
            values = np.concatenate([np.zeros(0), *parts])
            values = np.sort(values[np.isfinite(values)])
            if len(values):
                curves.append(_curve(shown, values))
        if curves:
            metric = METRICS[name]
            found.append(Distribution(metric=name, label=metric.label, unit=metric.unit, curves=tuple(curves)))
    return tuple(found)


def _curve(arm: str, values: Floats) -> Curve:
    """Downsampled by rank: both ends are kept, so the curve spans the data."""
    n = len(values)
    ranks = np.unique(np.linspace(0, n - 1, min(n, CURVE_POINTS)).round().astype(int))
    return Curve(
        arm=arm,
        x=tuple(float(v) for v in values[ranks]),
        p=tuple(float(r + 1) / n for r in ranks),
        requests=n,
        median=float(np.median(values)),
    )


def pair_series(
    grid: Grid, cell: str, arms: Mapping[str, str], gates: Sequence[tuple[str, str]]
) -> tuple[PairSeries, ...]:
    """Candidate ÷ base of every pair, by the estimators that the verdict rests on, and base ÷ base beside it.

    arms: variant → name to show; the first is the base. gates: (metric, statistic).
    """
    base, *candidates = arms
    found = []
    for name, statistic in gates:
        metric = METRICS[name]
        points: list[PairPoint] = []
        summaries: list[PairSummary] = []
        for candidate in candidates:
            series = grid.series(base, candidate, cell, metric, statistic)
            apart = {series.keys[i] for i in stray(series, grid.experiment.margin_of(name))}
            points += _points(grid.pairs(base, candidate, cell), metric, statistic, arms[candidate], apart, grid)
            summaries += _summary(grid, arms[candidate], series)
        again = _points(grid.aa_pairs(cell), metric, statistic, arms[base], set(), None)
        if again:
            logs = np.log([point.ratio for point in again])
            spread = float(logs.std(ddof=1)) if logs.size > 1 else None
            ratio = math.exp(float(logs.mean()))
            summaries.append(PairSummary(arm=arms[base], kind="aa", pairs=logs.size, ratio=ratio, spread=spread))
        if points or again:
            label, margin = metric_label(name, statistic), grid.experiment.margin_of(name)
            both = (*points, *again)
            found.append(PairSeries(metric=name, label=label, margin=margin, points=both, summaries=tuple(summaries)))
    return tuple(found)


def _points(
    pairs: Sequence[Pair], metric: Metric, statistic: str, shown: str, apart: Collection[int], grid: Grid | None
) -> list[PairPoint]:
    """One point a round. grid None: base against base. apart: replicates that are outliers."""
    by_group = grid is not None and grid.experiment.start_every >= 2
    found = []
    for pair in pairs:
        log = pair_log_ratio(pair, metric, statistic)
        if math.isfinite(log):
            found.append(
                PairPoint(
                    arm=shown,
                    kind="aa" if grid is None else "pair",
                    round=pair.round,
                    group=pair.group,
                    ratio=math.exp(log),
                    outlier=(pair.group if by_group else pair.round) in apart,
                )
            )
    return found


def _summary(grid: Grid, shown: str, series: Series) -> Iterator[PairSummary]:
    mean, sd, n, freedom = summarise(series.logs, series.strata)
    if n == 0:
        return
    known = freedom >= 1
    asked = grid.experiment
    least = minimum_detectable(sd, n, 1 - asked.confidence, asked.method) if known else None
    residuals = aligned(series.logs, series.strata)
    yield PairSummary(
        arm=shown,
        kind="pair",
        pairs=series.logs.size,
        ratio=math.exp(mean),
        spread=sd if known else None,
        drift=math.exp(slope(residuals)[0]) if residuals.size >= 4 else None,
        likeness=lag1(residuals)[0] if residuals.size >= 5 else None,
        detectable=math.expm1(least) if least is not None and least < _ABSURD else None,
    )


_ABSURD = 5.0  # a smallest effect of ×150 says nothing


_HEALTH = (
    ("other_cpu_share", "CPU of others", "cores"),
    ("steal_share", "Steal", "share"),
    ("send_delay_p99_s", "Send delay p99", "s"),
    ("loop_lag_p99_s", "Client lag p99", "s"),
    ("parse_backlog_p99_s", "Client backlog p99", "s"),
    ("tree_cpu_share", "CPU of server", "cores"),
    ("client_cpu_share", "CPU of client", "cores"),
    ("frequency_mhz", "CPU clock", "MHz"),
    ("temperature_c", "Temperature", "°C"),
)
_SAMPLED = (
    ("tree_anon_bytes", "Memory of server", "B"),
    ("gpu_busy", "GPU busy", "share"),
    ("gpu_memory_bytes", "GPU memory", "B"),
    ("gpu_power_w", "GPU power", "W"),
    ("gpu_clock_mhz", "GPU clock", "MHz"),
    ("gpu_temperature_c", "GPU temperature", "°C"),
)
_PEAKS = ("tree_anon_bytes", "gpu_memory_bytes")


def timeline(
    blocks: Sequence[BlockData], samples: Mapping[int, Sequence[Sample]], shown: Callable[[str], str]
) -> Timeline:
    """Bars [min since the first block] and, of what the platform tells, one strip per quantity."""
    ordered = sorted((b.block for b in blocks), key=lambda block: block.started_ns)
    if not ordered:
        return Timeline()
    origin = ordered[0].started_ns
    bars = tuple(
        Bar(
            arm=shown(b.variant),
            cell=shown(b.cell),
            round=b.round,
            group=b.group,
            aa=b.kind == "aa",
            start=(b.started_ns - origin) / 60e9,
            end=(b.ended_ns - origin) / 60e9,
            requests=b.requests,
            errors=b.errors,
        )
        for b in ordered
    )
    values: dict[str, list[float | None]] = {name: [getattr(b.health, name) for b in ordered] for name, _, _ in _HEALTH}
    for name, _, _ in _SAMPLED:
        values[name] = [_of_samples(samples.get(b.id, ()), name) for b in ordered]
    strips = []
    for name, label, unit in (*_HEALTH, *_SAMPLED):
        segments = tuple(
            (bar.arm, bar.start, bar.end, float(value))
            for bar, value in zip(bars, values[name], strict=True)
            if value is not None and np.isfinite(value)
        )
        if segments:
            strips.append(Strip(name=name, label=label, unit=unit, segments=segments))
    processes = max(b.health.client_processes for b in ordered)
    return Timeline(bars=bars, strips=tuple(strips), client_processes=processes)


def _of_samples(samples: Sequence[Sample], name: str) -> float | None:
    """One number for a block: the peak of memory, else the mean over the samples that tell."""
    values = [float(v) for v in (getattr(s, name) for s in samples) if v is not None]
    if not values:
        return None
    return max(values) if name in _PEAKS else float(np.mean(values))
