from __future__ import annotations

import asyncio

import uvloop

from bakeoff.client import SYSTEM_CLOCK, loop_runner
from bakeoff.client.timing import Backoff, LagMeter, Pacer


def test_lag_is_kept_bounded_and_evenly_thinned() -> None:
    meter = LagMeter(SYSTEM_CLOCK)
    for i in range(100_000):
        meter.note(i)
    assert 4096 <= len(meter.values) < 8192
    assert abs(sorted(meter.values)[len(meter.values) // 2] - 50_000) < 100
    meter.note(-5)
    assert min(meter.values) >= 0


def test_a_pacer_spaces_turns_evenly() -> None:
    pacer = Pacer(60)
    assert [pacer.turn(100) for _ in range(3)] == [100, 1_000_000_100, 2_000_000_100]
    assert pacer.turn(10_000_000_000) == 10_000_000_000
    assert [Pacer(None).turn(t) for t in (5, 5)] == [5, 5]


def test_a_backoff_starts_again_after_success() -> None:
    backoff = Backoff()
    assert [backoff.after_limit(None) for _ in range(3)] == [1, 2, 4]
    backoff.reset()
    assert backoff.after_limit(None) == 1
    assert backoff.after_limit(0.5) == 0.5


def test_measurements_run_on_uvloop() -> None:
    async def kind() -> object:
        return asyncio.get_running_loop()

    with loop_runner() as runner:
        assert isinstance(runner.run(kind()), uvloop.Loop)
