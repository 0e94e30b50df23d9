from __future__ import annotations

import math
import statistics
from itertools import pairwise

import msgspec
import pytest

from bakeoff.errors import UsageError
from bakeoff.mock import LatencyModel
from bakeoff.mock.latency import Pace

SECOND = 1_000_000_000


def offsets(model: LatencyModel, tokens: int, *, inputs: int = 0, start_ns: int = 0) -> list[float]:
    """Deadlines of the tokens of one request, in seconds from its start."""
    timing = Pace(model, 0).timing(start_ns, inputs, tokens)
    return [(timing.due(k) - start_ns) / SECOND for k in range(tokens)]


def test_the_deadlines_are_those_of_the_formula() -> None:
    model = LatencyModel(ttft_s=0.05, per_input_token_s=0.001, tpot_s=0.02)
    assert offsets(model, 3, inputs=100) == pytest.approx([0.15, 0.17, 0.19])


def test_scale_multiplies_everything() -> None:
    assert offsets(LatencyModel(scale=1.1), 2) == pytest.approx([0.055, 0.077])


def test_drift_grows_with_the_minutes_since_listening() -> None:
    model = LatencyModel(drift_per_minute=0.1)
    assert offsets(model, 2, start_ns=60 * SECOND) == pytest.approx([0.055, 0.077])
    assert offsets(LatencyModel(drift_per_minute=-1), 2, start_ns=90 * SECOND) == pytest.approx([0, 0])


def test_the_start_effect_is_one_factor_per_process() -> None:
    model = LatencyModel(start_effect=0.05, noise_seed=3)
    first, second = Pace(model, 0), Pace(model, 0)
    assert first.process_factor == second.process_factor != 1
    assert first.timing(0, 0, 1) == first.timing(0, 0, 1)
    assert Pace(msgspec.structs.replace(model, noise_seed=None), 0).process_factor != first.process_factor


def test_jitter_is_lognormal_with_mean_one_per_request() -> None:
    pace = Pace(LatencyModel(jitter=0.2, noise_seed=1), 0)
    timings = [pace.timing(0, 0, 5) for _ in range(4000)]
    factors = [timing.first_ns / (0.05 * SECOND) for timing in timings]
    assert statistics.fmean(factors) == pytest.approx(1, abs=0.02)
    assert statistics.pstdev([math.log(f) for f in factors]) == pytest.approx(0.2, rel=0.1)
    gaps = [timing.gap_ns / (0.02 * SECOND) for timing in timings]
    assert statistics.fmean(gaps) == pytest.approx(1, abs=0.02)
    assert abs(statistics.correlation(factors, gaps)) < 0.1


def test_gap_jitter_varies_within_a_request_and_never_goes_back() -> None:
    times = offsets(LatencyModel(gap_jitter=0.5, noise_seed=1), 2000)
    gaps = [b - a for a, b in pairwise(times)]
    assert min(gaps) > 0
    assert statistics.fmean(gaps) == pytest.approx(0.02, rel=0.06)
    assert statistics.pstdev(gaps) > 0.005


@pytest.mark.parametrize(
    "bad",
    [
        {"ttft_s": -1.0},
        {"tpot_s": math.nan},
        {"jitter": math.inf},
        {"scale": 0.0},
        {"slots": -1},
        {"tokens_per_chunk": 0},
        {"coalesce": 0},
        {"drift_per_minute": math.nan},
    ],
)
def test_impossible_models_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(bad))) as caught:
        LatencyModel(**bad)  # type: ignore[arg-type]
    assert caught.value.remedy
