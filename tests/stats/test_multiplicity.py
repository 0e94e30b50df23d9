import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bakeoff.stats.multiplicity import benjamini_hochberg, bonferroni_level, holm

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@given(P_VALUES)
def test_bh_agrees_with_scipy(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p, method="bh"))


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(P_VALUES)
def test_adjusting_never_helps_and_keeps_the_order(p: list[float]) -> None:
    for method in (holm, benjamini_hochberg):
        adjusted = method(p)
        assert (adjusted >= np.array(p) - 1e-12).all()
        assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= -1e-12).all()
    assert (holm(p) >= benjamini_hochberg(p) - 1e-12).all()


def test_empty_families() -> None:
    assert benjamini_hochberg([]).size == 0
    assert holm([]).size == 0
    assert bonferroni_level(0.05, 0) == 0.05
    assert bonferroni_level(0.05, 4) == pytest.approx(0.0125)
