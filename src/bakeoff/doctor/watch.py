"""Watching the machine for some seconds: how late timers run, what is runnable, who uses the CPU."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic, monotonic_ns
from typing import Any

from .reading import HotProcess, Lag, printable

_TICK_S = 0.01
_GLANCE_EVERY = 10  # ticks between two looks at the run queue
_WORTH_NAMING = 0.02  # cores


def watch_loop(seconds: float, glance: Callable[[], int | None]) -> tuple[Lag, float | None]:
    """Ticks on the client's kind of event loop → (how late the ticks were, mean of what `glance` saw).

    Ticks have absolute times, so a late one does not excuse the next.
    """
    factory, name = _loop_factory()
    late: list[float] = []
    seen: list[int] = []

    async def ticking() -> None:
        ticks = max(1, round(seconds / _TICK_S))
        start = monotonic()
        for tick in range(1, ticks + 1):
            due = start + tick * _TICK_S
            now = monotonic()
            if due < now:  # so late that whole ticks are gone: they count as late by as much
                late.append(now - due)
                continue
            await asyncio.sleep(due - now)
            late.append(max(0.0, monotonic() - due))
            # Read in this thread: a second thread of ours would count as a runnable task itself.
            if tick % _GLANCE_EVERY == 0 and (value := glance()) is not None:
                seen.append(value)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(ticking())
    late.sort()
    lag = Lag(
        loop=name,
        ticks=len(late),
        p50_s=late[len(late) // 2],
        p99_s=late[min(len(late) - 1, int(0.99 * len(late)))],
        max_s=late[-1],
    )
    return lag, sum(seen) / len(seen) if seen else None


def _loop_factory() -> tuple[Callable[[], Any] | None, str]:
    try:
        import uvloop
    except ImportError:
        return None, "asyncio"
    return uvloop.new_event_loop, "uvloop"


class ProcessWatch:
    """CPU time of all other processes between two looks. Reads names and times, never command lines."""

    def __init__(self) -> None:
        self._start_ns = monotonic_ns()
        self._before, _ = _process_times()

    def finish(self, keep: int = 5) -> tuple[float, tuple[HotProcess, ...]]:
        """(cores used by other processes, the `keep` hottest of them)."""
        import os

        elapsed = (monotonic_ns() - self._start_ns) / 1e9
        after, names = _process_times()
        used: list[HotProcess] = []
        for key, cpu_s in after.items():
            if key[0] == os.getpid():
                continue
            # One that was not there before has used all of its time since.
            cores = max(0.0, cpu_s - self._before.get(key, 0.0)) / elapsed
            used.append(HotProcess(pid=key[0], name=names[key], cores=cores))
        used.sort(key=lambda process: -process.cores)
        return sum(p.cores for p in used), tuple(p for p in used[:keep] if p.cores >= _WORTH_NAMING)


_Key = tuple[int, float]  # pid and creation time: a pid alone may be used again


def _process_times() -> tuple[dict[_Key, float], dict[_Key, str]]:
    import psutil

    times: dict[_Key, float] = {}
    names: dict[_Key, str] = {}
    for process in psutil.process_iter(["pid", "name", "create_time", "cpu_times"]):
        info = process.info
        if info["cpu_times"] is None or info["create_time"] is None:  # not ours to see
            continue
        key = (info["pid"], info["create_time"])
        times[key] = info["cpu_times"].user + info["cpu_times"].system
        names[key] = printable(info["name"] or "?")
    return times, names
