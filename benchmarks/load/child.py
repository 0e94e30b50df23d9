"""Processes of the benchmark: the mock and the tools, each on its core, with their CPU time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

_LOOK_S = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """What a tool's processes took: its start on the monotonic clock [s], peak memory [bytes], and CPU time so far [s]
    at several instants."""

    started_s: float
    memory: int
    cpu: list[tuple[float, float]]

    def cpu_between(self, start_s: float, end_s: float) -> float:
        """CPU time within a span [s], by linear interpolation."""
        return self._cpu_at(end_s) - self._cpu_at(start_s)

    def _cpu_at(self, at_s: float) -> float:
        before = (self.started_s, 0.0)
        for moment in self.cpu:
            if moment[0] >= at_s:
                share = (at_s - before[0]) / (moment[0] - before[0])
                return before[1] + share * (moment[1] - before[1])
            before = moment
        return before[1]


@contextmanager
def mock(flags: Sequence[str], log: Path, core: int | None) -> Iterator[tuple[str, psutil.Process]]:
    """(URL of a mock server with a send log, its process)."""
    command = [sys.executable, "-m", "bakeoff.mock", "--send-log", str(log), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), line
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        yield line.split()[-1], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def run(command: Sequence[str], environment: dict[str, str], core: int | None, timeout_s: float) -> Usage:
    """Runs a tool to its end; what it says is shown only if it fails."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            list(command),
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            process_group=0,
        )
        if core is not None:
            os.sched_setaffinity(process.pid, {core})  # before it has started anything that would not inherit it
        watch = _Watch(process.pid)
        try:
            code = process.wait(timeout_s)
        except BaseException:
            os.killpg(process.pid, 9)
            process.wait()
            raise
        finally:
            watch.stop()
        if code:
            out.seek(0)
            said = out.read().decode("utf-8", "replace")[-3000:]
            raise RuntimeError(f"{command[0]} ended with {code}:\n{said}")
    return Usage(started, watch.memory, watch.cpu)


class _Watch:
    """Looks at a process tree five times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.memory = 0
        self.cpu: list[tuple[float, float]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._end.wait(_LOOK_S):
            cpu, memory = 0.0, 0
            waiting = [self._pid]
            while waiting:
                pid = waiting.pop()
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    tasks = list(Path(f"/proc/{pid}/task").iterdir())
                    waiting += [int(c) for task in tasks for c in (task / "children").read_text().split()]
                except (OSError, ValueError):
                    continue
                # utime, stime, and those of children that have ended (proc(5))
                cpu += sum(int(field) for field in fields[11:15]) / _TICKS
                memory += int(fields[21]) * _PAGE
            self.memory = max(self.memory, memory)
            if not self.cpu or cpu >= self.cpu[-1][1]:
                self.cpu.append((time.monotonic(), cpu))
