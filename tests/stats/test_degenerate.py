"""Every estimator refuses what is not a number, and claims nothing from nothing."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.errors import TooFewData
from bakeoff.model import Interval
from bakeoff.stats import anytime, drift, fixed, multiplicity, paired, power, strata
from bakeoff.stats.accuracy import clustered_t_interval

Estimator = Callable[[Sequence[float]], Any]
INTERVALS: dict[str, Callable[[Sequence[float], float], Interval]] = {
    "anytime": anytime.interval,
    "t": paired.t_interval,
    "hodges-lehmann": paired.hodges_lehmann,
    "clustered": lambda x, alpha: clustered_t_interval(x, np.arange(len(x)), alpha),
}
ALL: dict[str, Estimator] = {
    **{name: lambda x, f=function: f(x, 0.05) for name, function in INTERVALS.items()},  # type: ignore[misc]
    "anytime p": anytime.p_value,
    "t p": paired.t_p_value,
    "t tails": paired.t_tails,
    "sign flip": paired.sign_flip_p_value,
    "wilcoxon": paired.wilcoxon_p_value,
    "one look": lambda x: fixed.by_mean(x).p_difference(),
    "slope": drift.slope,
    "lag 1": drift.lag1,
    "first": drift.first_change,
    "holm": multiplicity.holm,
    "holm levels": lambda x: multiplicity.holm_levels(x, 0.05),
    "bh": multiplicity.benjamini_hochberg,
    "pooled": lambda x: power.pooled_sd([np.asarray(x)]),
    "strata": strata.summarise,
    "aligned": lambda x: strata.aligned(x, [0] * len(x)),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(name: str, bad: float) -> None:
    with pytest.raises(TooFewData):
        ALL[name]([0.1, bad, 0.2, 0.3])


@pytest.mark.parametrize("name", INTERVALS)
@pytest.mark.parametrize("values", [[], [0.1]])
def test_fewer_than_two_values_have_no_bounds(name: str, values: list[float]) -> None:
    found = INTERVALS[name](values, 0.05)
    assert (found.low, found.high) == (None, None)
    assert found.point == (values[0] if values else None)


@given(st.sampled_from(sorted(INTERVALS)), st.lists(st.floats(-2, 2), min_size=8, max_size=20), st.floats(0.1, 50))
def test_intervals_scale_mirror_ignore_order_and_widen(name: str, values: list[float], factor: float) -> None:
    of, x = INTERVALS[name], np.array(values)
    plain = of(list(x), 0.05)
    assert plain.low is not None
    assert plain.high is not None
    assert plain.point is not None
    assert plain.low <= plain.point + 1e-9
    assert plain.point <= plain.high + 1e-9
    scaled, mirrored = of(list(x * factor), 0.05), of(list(-x), 0.05)
    assert (scaled.low, scaled.high) == pytest.approx((plain.low * factor, plain.high * factor), rel=1e-6, abs=1e-9)
    assert (mirrored.low, mirrored.high) == pytest.approx((-plain.high, -plain.low), rel=1e-6, abs=1e-9)
    order = np.random.default_rng(x.size).permutation(x.size)
    if name != "clustered":
        shuffled = of(list(x[order]), 0.05)
        assert (shuffled.low, shuffled.high) == pytest.approx((plain.low, plain.high), rel=1e-6, abs=1e-9)
    surer = of(list(x), 0.02)
    assert surer.low is not None
    assert surer.high is not None
    assert surer.low <= plain.low + 1e-9
    assert plain.high <= surer.high + 1e-9


@pytest.mark.parametrize("name", INTERVALS)
def test_without_spread_the_interval_is_the_point(name: str) -> None:
    found = INTERVALS[name]([0.25] * 10, 0.05)
    assert (found.low, found.point, found.high) == (0.25, 0.25, 0.25)


def test_ties_are_no_trouble() -> None:
    x = [0.1, 0.1, 0.1, 0.2, 0.2, -0.1, -0.1, 0.1]
    assert 0 < paired.wilcoxon_p_value(x) < 1
    assert 0 < paired.sign_flip_p_value(x) < 1
    assert paired.hodges_lehmann(x, 0.05).point == pytest.approx(0.1)
