from __future__ import annotations

import asyncio
import time

import pytest

from bakeoff.client import SYSTEM_CLOCK, alarm
from bakeoff.client.alarm import Alarm

from .server import SkippingClock, run


@pytest.fixture(params=["timerfd where there is one", "thread"])
def either_waker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "thread":

        def none(*_: object) -> None:
            raise OSError("none here")

        monkeypatch.setattr(alarm, "TimerFd", none)


@pytest.mark.usefixtures("either_waker")
def test_never_early_and_in_the_order_of_time() -> None:
    async def main() -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        through = asyncio.Event()
        errors: list[BaseException] = []
        bell = Alarm(asyncio.get_running_loop(), SYSTEM_CLOCK, errors.append)
        start = time.monotonic_ns() + 20_000_000
        instants = [start + i * 3_000_000 for i in range(10)]

        def ring(due: int) -> None:
            seen.append((due, time.monotonic_ns()))
            if due == instants[4]:
                bell.at(start - 1, lambda: ring(start - 1))  # overdue, and set from inside
            if len(seen) == 11:
                through.set()

        bell.load((instant, lambda due=instant: ring(due)) for instant in reversed(instants[1:]))  # type: ignore[misc]
        bell.at(instants[0], lambda: ring(instants[0]))  # earlier than what it is set to
        await through.wait()
        bell.close()
        assert errors == []
        assert [due for due, _ in seen if due != start - 1] == instants
        return seen

    assert all(fired >= due for due, fired in run(main()))


@pytest.mark.usefixtures("either_waker")
def test_a_closed_alarm_calls_nothing_more() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        bell = Alarm(asyncio.get_running_loop(), SYSTEM_CLOCK, lambda _error: None)
        bell.at(time.monotonic_ns() + 5_000_000, lambda: fired.append(1))
        bell.close()
        bell.close()
        bell.at(time.monotonic_ns(), lambda: fired.append(2))
        await asyncio.sleep(0.03)
        return fired

    assert run(main()) == []


def test_what_a_callback_raises_is_told() -> None:
    async def main() -> BaseException:
        told: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        bell = Alarm(asyncio.get_running_loop(), SYSTEM_CLOCK, told.set_result)

        def fail() -> None:
            raise ValueError("in a callback")

        bell.at(0, fail)
        try:
            return await told
        finally:
            bell.close()

    assert isinstance(run(main()), ValueError)


def test_it_sleeps_on_another_clock_than_the_systems() -> None:
    async def main() -> list[float]:
        clock = SkippingClock(SYSTEM_CLOCK)
        rung = asyncio.Event()
        bell = Alarm(asyncio.get_running_loop(), clock, lambda _error: None)
        bell.at(clock.monotonic_ns() + 3_600_000_000_000, rung.set)
        await rung.wait()
        bell.close()
        return clock.slept

    assert [round(s) for s in run(main())] == [3600]
