"""An end that is asked for at any moment is met in order: the loop is left whole, what must end does, nothing leaks."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from bakeoff.client import asked, held, listening, loop_runner, loose

SIGNALS = [signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    assert {number: signal.getsignal(number) for number in SIGNALS} == before
    assert not asked()


def tell(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_loop_at_work_is_cancelled_and_its_last_words_are_said_inside_of_it(number: int) -> None:
    """What `finally` blocks await needs the loop: a coroutine that is closed from outside breaks in them."""
    said = []

    async def work() -> None:
        try:
            tell(number)
            await asyncio.sleep(60)
        finally:
            async with asyncio.timeout(5):
                await asyncio.sleep(0)
            said.append("closed")

    with pytest.raises(KeyboardInterrupt), listening(), loop_runner() as runner:
        runner.run(work())
    assert said == ["closed"]


def test_a_second_interrupt_leaves_the_rest_to_the_end_of_the_loop() -> None:
    said = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
            raise KeyboardInterrupt  # as Ctrl-C pressed twice: it leaves the loop from the middle of a task
        finally:
            async with asyncio.timeout(5):
                await asyncio.sleep(0)
            said.append("closed")

    async def beside() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            async with asyncio.timeout(5):
                await asyncio.sleep(0)
            said.append("beside")

    async def both() -> None:
        await asyncio.gather(beside(), work())

    with pytest.raises(KeyboardInterrupt), loop_runner() as runner:
        runner.run(both())
    assert sorted(said) == ["beside", "closed"]


def test_outside_of_a_loop_it_is_raised_where_the_program_stands_and_only_once() -> None:
    cleaned = []

    def scene() -> None:
        with listening():
            try:
                tell(signal.SIGTERM)
                time.sleep(5)
            finally:
                tell(signal.SIGHUP)  # a service manager sends both at once
                time.sleep(0.01)
                cleaned.append(1)

    with pytest.raises(KeyboardInterrupt):
        scene()
    assert cleaned == [1]


def test_what_is_held_is_not_cut_short() -> None:
    done = []

    def scene() -> None:
        with listening():
            with held():
                with held():
                    tell(signal.SIGTERM)
                    time.sleep(0.01)
                    done.append("inner")
                done.append("outer")
            done.append("never")

    with pytest.raises(KeyboardInterrupt):
        scene()
    assert done == ["inner", "outer"]


def test_loose_inside_of_held() -> None:
    done = []

    def scene() -> None:
        with listening(), held():
            try:
                with loose():
                    tell(signal.SIGTERM)
                    time.sleep(5)
            except KeyboardInterrupt:
                done.append("ended")
            tell(signal.SIGTERM)
            time.sleep(0.01)
            done.append("saved")

    with pytest.raises(KeyboardInterrupt):
        scene()
    assert done == ["ended", "saved"]


def test_after_a_wish_no_loop_begins_new_work() -> None:
    async def work() -> None:
        raise AssertionError("begun")

    def scene() -> None:
        with listening(), loop_runner() as runner:
            try:
                tell(signal.SIGTERM)
                time.sleep(5)
            except KeyboardInterrupt:  # swallowed somewhere, as what is raised in a finaliser is
                runner.run(work())

    with pytest.raises(KeyboardInterrupt):
        scene()


def test_an_ignored_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening():
            tell(signal.SIGHUP)
            time.sleep(0.01)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_inside_of_another_and_in_another_thread_nothing_changes() -> None:
    found = []
    with listening():
        handler = signal.getsignal(signal.SIGTERM)
        with listening():
            assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGTERM) is handler

    def elsewhere() -> None:
        with listening(), held(), loose(), loop_runner() as runner:
            found.append(runner.run(asyncio.sleep(0, 7)))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [7]


@pytest.mark.parametrize("delay_s", [n * 0.0007 for n in range(30)])
def test_at_any_moment_of_short_tasks(delay_s: float) -> None:
    """The signal comes before, in or between the tasks, or while the loop closes: always the one exception."""
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(0.001)
        finally:
            async with asyncio.timeout(5):
                await asyncio.sleep(0)
            ended.append(1)

    timer = threading.Timer(delay_s, tell, (signal.SIGTERM,))

    def scene() -> None:
        with listening():
            with loop_runner() as runner:
                timer.start()
                for _ in range(5):
                    runner.run(work())
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        scene()
    timer.join()
