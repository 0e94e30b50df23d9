from __future__ import annotations

import pytest

from bakeoff.measure.warmup import is_stable


@pytest.mark.parametrize(
    ("latencies", "window", "expected"),
    [
        ([1.0], 1, None),
        ([1.0, 1.05], 1, True),
        ([3.0, 1.0], 1, False),
        ([3.0, 1.0, 1.02], 1, True),
        ([1.0, 1.0, 9.0, 1.0, 1.0, 1.0], 3, True),  # one slow request does not decide
        ([2.0, 2.1, 2.0, 1.0, 1.0, 1.0], 3, False),
    ],
)
def test_stability_compares_the_last_two_windows(latencies: list[float], window: int, expected: bool | None) -> None:
    assert is_stable(latencies, window) is expected
