"""Every arrival process against its theory: dispersion of counts, scatter of gaps, correlation of neighbours.

Tolerances are four standard errors of the statistic, by its own theory; the seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bakeoff.errors import UsageError
from bakeoff.model import BlockSize, Load, Prompts, Workload
from bakeoff.workloads import PromptFactory, WorkloadError, draw_schedule

_RATE = 10.0
_COUNT = 200_000


def _gamma(shape: float) -> Load:
    return Load(kind="open", levels=(_RATE,), arrivals="gamma", burstiness=shape)


_LOADS = {
    "constant": (Load(kind="open", levels=(_RATE,), arrivals="constant"), math.inf),
    "poisson": (Load(kind="open", levels=(_RATE,)), 1.0),
    "gamma 1": (_gamma(1.0), 1.0),
    "gamma 0.25": (_gamma(0.25), 0.25),
    "gamma 4": (_gamma(4.0), 4.0),
}


def _gaps(load: Load, seed: int = 3) -> NDArray[np.float64]:
    """Gaps [s]; the first one from the block's start."""
    return np.diff(np.array((0, *draw_schedule(load, _RATE, count=_COUNT, seed=seed)))) / 1e9


def _lag1(values: NDArray[np.float64]) -> float:
    centred = values - values.mean()
    return float(np.mean(centred[:-1] * centred[1:]) / values.var())


@pytest.mark.parametrize("name", _LOADS)
def test_gaps_have_the_mean_the_scatter_and_the_independence_of_their_process(name: str) -> None:
    load, shape = _LOADS[name]
    gaps = _gaps(load)
    if math.isinf(shape):
        assert set(gaps[1:].round(6)) == {0.1}
        return
    cv = 1 / math.sqrt(shape)
    n = gaps.size
    assert gaps.mean() == pytest.approx(1 / _RATE, rel=4 * cv / math.sqrt(n))
    # Variance of a sample CV by the delta method, with skewness 2 ÷ √shape and excess kurtosis 6 ÷ shape.
    error = cv * math.sqrt((cv**2 + (2 + 6 / shape) / 4 - cv * 2 / math.sqrt(shape)) / n)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, abs=4 * error)
    assert abs(_lag1(gaps)) < 4 / math.sqrt(n)


@pytest.mark.parametrize("name", _LOADS)
def test_counts_per_window_have_the_dispersion_of_their_process(name: str) -> None:
    """Over windows that hold many arrivals, variance ÷ mean of the counts tends to the squared CV of the gaps."""
    load, shape = _LOADS[name]
    windows, width = 200, 100.0
    ends = windows * width
    offsets = np.array(draw_schedule(load, _RATE, seconds=ends, seed=5)) / 1e9
    counts = np.histogram(offsets, bins=windows, range=(0, ends))[0]
    dispersion = counts.var(ddof=1) / counts.mean()
    if math.isinf(shape):
        assert dispersion == 0
        return
    assert dispersion == pytest.approx(1 / shape, rel=4 * math.sqrt(2 / (windows - 1)))


def test_poisson_counts_have_dispersion_one_at_every_width() -> None:
    offsets = np.array(draw_schedule(_LOADS["poisson"][0], _RATE, seconds=4000.0, seed=9)) / 1e9
    for bins in (400, 4000, 40_000):
        counts = np.histogram(offsets, bins=bins, range=(0, 4000))[0]
        assert counts.var(ddof=1) / counts.mean() == pytest.approx(1.0, abs=4 * math.sqrt(2 / bins + 1 / counts.sum()))


def test_a_shape_of_one_is_the_poisson_schedule_itself() -> None:
    assert draw_schedule(_gamma(1.0), 3.0, count=50, seed=4) == draw_schedule(
        _LOADS["poisson"][0], 3.0, count=50, seed=4
    )


@pytest.mark.parametrize("shape", [0.05, 0.25, 4.0])
def test_gamma_schedules_of_one_seed_extend_each_other(shape: float) -> None:
    for seed in range(40):
        by_time = draw_schedule(_gamma(shape), 20.0, seconds=3.0, seed=seed)
        longer = draw_schedule(_gamma(shape), 20.0, count=len(by_time) + 1, seed=seed)
        assert longer[:-1] == by_time
        assert longer[-1] >= 3 * 10**9


@pytest.mark.parametrize("shape", [0.0, -1.0, math.inf, math.nan])
def test_a_burstiness_must_be_positive(shape: float) -> None:
    with pytest.raises(UsageError, match="burstiness"):
        draw_schedule(_gamma(shape), 1.0, count=3, seed=0)


def test_a_replay_is_not_drawn() -> None:
    with pytest.raises(UsageError, match="trace"):
        draw_schedule(Load(kind="replay", levels=(1.0,)), 1.0, count=3, seed=0)


# Replay ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _trace(folder: Path, stamps_ms: list[float]) -> Path:
    path = folder / "trace.jsonl"
    lines = (f'{{"timestamp": {ms}, "input_length": 40, "output_length": 5, "hash_ids": [0]}}\n' for ms in stamps_ms)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _factory(path: Path, block: BlockSize, speeds: tuple[float, ...] = (1.0,)) -> PromptFactory:
    workload = Workload(
        name="w",
        prompts=Prompts(source="mooncake", path=str(path), recorded_lengths=True),
        output_tokens=100,
        load=Load(kind="replay", levels=speeds),
        block=block,
        cache="declared",
    )
    return PromptFactory(workload, seed=1, run_id="r")


def test_windows_of_requests_keep_the_traces_gaps_and_follow_each_other(tmp_path: Path) -> None:
    factory = _factory(_trace(tmp_path, [500, 600, 900, 1000, 5000, 5001]), BlockSize(requests=3))
    assert factory.arrivals(0, 1.0, count=3) == (0, 100_000_000, 400_000_000)
    assert factory.arrivals(1, 1.0, count=3) == (0, 4_000_000_000, 4_001_000_000)
    assert factory.arrivals(1, 4.0, count=3) == (0, 1_000_000_000, 1_000_250_000)


def test_a_trace_that_ends_begins_again_at_its_mean_distance(tmp_path: Path) -> None:
    factory = _factory(_trace(tmp_path, [0, 100, 400, 600]), BlockSize(requests=3))
    assert factory.arrivals(1, 1.0, count=3) == (0, 200_000_000, 300_000_000)


def test_windows_of_seconds_hold_what_came_in_their_time(tmp_path: Path) -> None:
    path = _trace(tmp_path, [0, 900, 1100, 1900, 2100, 9500])
    factory = _factory(path, BlockSize(seconds=1.0), (1.0, 2.0))
    # The fastest level needs two seconds of the trace a round; the slower one takes their first half.
    assert factory.arrivals(0, 2.0, seconds=1.0) == (0, 450_000_000, 550_000_000, 950_000_000)
    assert factory.arrivals(0, 1.0, seconds=1.0) == (0, 900_000_000)
    assert factory.arrivals(1, 1.0, seconds=1.0) == (100_000_000,)
    # Windows from 4 to 8 s are empty, and that from 8 s in its first half: the third round begins the trace anew.
    assert factory.arrivals(2, 1.0, seconds=1.0) == factory.arrivals(0, 1.0, seconds=1.0)
    assert any("3 of the trace's 5 windows hold no request" in note for note in factory.notes)


@pytest.mark.parametrize("speed", [0.5, 1.0, 10.0])
def test_time_scaling_changes_the_rate_and_nothing_of_the_pattern(tmp_path: Path, speed: float) -> None:
    drawn = np.cumsum(np.random.default_rng(7).standard_gamma(0.3, 3000)) * 100
    factory = _factory(_trace(tmp_path, [float(round(ms, 3)) for ms in drawn]), BlockSize(requests=3000), (speed,))
    gaps = np.diff(np.array(factory.arrivals(0, speed, count=3000)))
    original = np.diff(drawn)
    assert gaps.mean() == pytest.approx(original.mean() * 1e6 / speed, rel=1e-6)
    assert gaps.std() / gaps.mean() == pytest.approx(original.std() / original.mean(), rel=1e-4)
    assert _lag1(gaps.astype(np.float64)) == pytest.approx(_lag1(original), abs=1e-4)


@pytest.mark.parametrize(
    "make",
    [lambda: Prompts(input_tokens=20), lambda: Prompts(source="synthetic", input_tokens=9)],
)
def test_only_a_trace_has_arrivals(make: Callable[[], Prompts]) -> None:
    workload = Workload(
        name="w", prompts=make(), output_tokens=1, load=Load(kind="replay", levels=(1.0,)), block=BlockSize(requests=2)
    )
    with pytest.raises(WorkloadError, match="holds no times"):
        PromptFactory(workload, seed=0, run_id="r").arrivals(0, 1.0, count=2)
