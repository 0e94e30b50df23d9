"""Answers that are reasoning alone."""

import numpy as np
import pytest

from bakeoff.model import Caution, Result

from .simulate import Arm, Simulation, experiment
from .test_engine import result_of


def thinking(share: float) -> Arm:
    """That share of its answers ends before anything but reasoning came."""

    def first(columns: dict[str, np.ndarray]) -> np.ndarray:
        stamps = columns["first_token_ns"].copy()
        stamps[: round(share * stamps.size)] = -1
        return stamps

    return Arm(columns={"first_output_ns": first})


def told(result: Result) -> list[Caution]:
    return [caution for caution in result.warnings if caution.code == "unseen-output"]


def test_an_arm_that_only_thinks_is_named() -> None:
    result = result_of(Simulation(experiment(), {"base": Arm(), "flash": thinking(1.0)}).run(6))
    (caution,) = told(result)
    assert (caution.severity, caution.variant, caution.metrics) == ("invalid", "flash", ("ttfo_s",))
    assert caution.message.startswith("100 % of the answers of flash are reasoning alone")
    assert "invalid" not in {row.outcome for row in result.comparisons if row.gate}


@pytest.mark.parametrize(("share", "times"), [(0.0, 0), (0.25, 1)])
def test_the_first_visible_output_of_a_selection_is_not_valid(share: float, times: int) -> None:
    result = result_of(Simulation(experiment(), {"base": thinking(share), "flash": Arm()}).run(6))
    assert len(told(result)) == times
    outcomes = [row.outcome for row in result.comparisons if row.metric == "ttfo_s"]
    assert outcomes == ["invalid"] * times  # where it equals TTFT it has no row


def test_whoever_fails_has_not_thought() -> None:
    result = result_of(Simulation(experiment(), {"base": Arm(), "flash": Arm(fail=0.5)}).run(6))
    assert told(result) == []
