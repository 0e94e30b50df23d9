from __future__ import annotations

import asyncio
import subprocess
import sys

from bakeoff.client import loop_runner

# As a notebook's kernel does it: the main thread runs a loop, and an interrupt is raised in the middle of a cell.
_CELL = """
import asyncio, os, signal, threading
from bakeoff.client import loop_runner

async def long():
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("cancelled", flush=True)
        raise

async def cell():
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with loop_runner() as runner:
        try:
            runner.run(long())
        except KeyboardInterrupt:
            print("interrupted", flush=True)

asyncio.new_event_loop().run_until_complete(cell())
"""


async def _answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


def test_one_loop_serves_all_calls() -> None:
    with loop_runner() as runner:
        assert [runner.run(_answer(n)) for n in range(3)] == [0, 1, 2]


def test_it_works_where_a_loop_runs_already() -> None:
    async def cell() -> int:
        with loop_runner() as runner:
            return runner.run(_answer(7)) + runner.run(_answer(8))

    assert asyncio.run(cell()) == 15


def test_an_error_of_the_coroutine_comes_out_where_a_loop_runs() -> None:
    async def wrong() -> None:
        raise ValueError("as it is")

    async def cell() -> str:
        with loop_runner() as runner:
            try:
                runner.run(wrong())
            except ValueError as error:
                return str(error)
        return "nothing"

    assert asyncio.run(cell()) == "as it is"


def test_an_interrupt_in_a_cell_cancels_the_coroutine_and_comes_out() -> None:
    done = subprocess.run([sys.executable, "-c", _CELL], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["cancelled", "interrupted"], done.stderr
