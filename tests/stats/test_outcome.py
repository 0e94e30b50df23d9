import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.model import Better, Interval
from bakeoff.stats.outcome import DECIDED, Judged, judge, log_margin, weaken

MARGIN = 0.03
M = log_margin(MARGIN)


def of(low: float | None, high: float | None) -> Interval:
    point = 0.0 if low is None or high is None else (low + high) / 2
    return Interval(point=point, low=low, high=high)


@pytest.mark.parametrize(
    ("interval", "better", "time_like", "expected"),
    [
        (of(M * 1.1, M * 2), "lower", True, Judged("slower")),
        (of(M * 1.1, M * 2), "higher", True, Judged("faster")),
        (of(M * 1.1, M * 2), "lower", False, Judged("worse")),
        (of(-M * 2, -M * 1.1), "lower", True, Judged("faster")),
        (of(-M * 2, -M * 1.1), "lower", False, Judged("better")),
        (of(-M * 2, -M * 1.1), "higher", False, Judged("worse")),
        (of(-M, M), "lower", True, Judged("equivalent")),
        (of(M / 4, M / 2), "lower", True, Judged("equivalent", True)),
        (of(M / 2, M * 2), "lower", True, Judged("probably slower")),
        (of(-M * 2, -M / 2), "lower", True, Judged("probably faster")),
        (of(M / 2, M * 2), "higher", False, Judged("probably better")),
        (of(-M / 2, M * 2), "lower", True, Judged("inconclusive")),
        (of(None, None), "lower", True, Judged("inconclusive")),
    ],
)
def test_words(interval: Interval, better: Better, time_like: bool, expected: Judged) -> None:
    assert judge(interval, margin=MARGIN, better=better, time_like=time_like) == expected


def test_fixed_n_equivalence_uses_the_narrower_interval() -> None:
    wide, narrow = of(-M * 1.2, M * 0.8), of(-M * 0.9, M * 0.5)
    assert judge(wide, margin=MARGIN, better="lower", time_like=True).outcome == "inconclusive"
    found = judge(wide, margin=MARGIN, better="lower", time_like=True, equivalence=narrow)
    assert found == Judged("equivalent", False)


@given(st.floats(-1, 1), st.floats(0, 1), st.sampled_from(["lower", "higher"]))
def test_swapping_the_arms_swaps_the_words(low: float, width: float, better: Better) -> None:
    swap = {"faster": "slower", "slower": "faster"}
    swap |= {f"probably {a}": f"probably {b}" for a, b in swap.items()}
    there = judge(of(low, low + width), margin=MARGIN, better=better, time_like=True)
    back = judge(of(-low - width, -low), margin=MARGIN, better=better, time_like=True)
    assert back.outcome == swap.get(there.outcome, there.outcome)
    assert back.detectable == there.detectable


def test_weaken_is_never_decided_unless_equivalent() -> None:
    assert weaken(Judged("slower")) == Judged("probably slower")
    assert weaken(Judged("probably slower")) == Judged("inconclusive")
    assert weaken(Judged("equivalent", True)) == Judged("equivalent")
    assert weaken(Judged("inconclusive")) == Judged("inconclusive")
    assert "probably slower" not in DECIDED
