from __future__ import annotations

import asyncio
import time

import uvloop

from bakeoff.client import SYSTEM_CLOCK, loop_runner
from bakeoff.client.timing import Backoff, LagMeter, Metronome, Pacer

from .server import run


def test_the_metronome_is_never_early_and_keeps_the_order() -> None:
    async def main() -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        start = time.monotonic_ns() + 20_000_000
        instants = [start + i * 3_000_000 for i in range(10)]
        metronome = Metronome(
            asyncio.get_running_loop(),
            SYSTEM_CLOCK,
            [(t, lambda t=t: seen.append((t, time.monotonic_ns()))) for t in instants],  # type: ignore[misc]
        )
        metronome.start()
        while len(seen) < 10:  # noqa: ASYNC110  # the callbacks are what is waited for
            await asyncio.sleep(0.005)
        metronome.stop()
        assert [t for t, _ in seen] == instants
        return seen

    assert all(fired >= due for due, fired in run(main()))


def test_a_stopped_metronome_posts_nothing_more() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        later = time.monotonic_ns() + 60_000_000_000
        metronome = Metronome(asyncio.get_running_loop(), SYSTEM_CLOCK, [(later, lambda: fired.append(1))])
        metronome.start()
        metronome.stop()  # returns at once
        Metronome(asyncio.get_running_loop(), SYSTEM_CLOCK, []).stop()  # never started
        return fired

    began = time.monotonic_ns()
    assert run(main()) == []
    assert time.monotonic_ns() - began < 30_000_000_000


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
