"""CPU time, memory and threads of a server's whole process tree."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .machine import LINUX, ticks_per_second

_RESCAN_EVERY = 5  # samples between two looks for new children: listing processes is the dear part


class TreeReading(NamedTuple):
    """Sums over the tree. `mapped` is file-backed resident memory, shared pages counted in full."""

    cpu_s: float
    anon_bytes: int | None
    mapped_bytes: int | None
    threads: int
    processes: int


@dataclass
class ProcessTree:
    """Reads a tree by its root pid. CPU time of children that have ended stays counted."""

    root: int
    _cpu: dict[int, float] = field(default_factory=dict)
    _pids: list[int] = field(default_factory=list)
    _age: int = 0

    def pids(self) -> list[int]:
        """Pids of the tree, looked up afresh every few calls."""
        if self._age % _RESCAN_EVERY == 0:
            self._pids = [self.root, *_descendants(self.root)]
        self._age += 1
        return self._pids

    def read(self) -> TreeReading | None:
        """One reading, or None when the root is gone."""
        anon = mapped = threads = alive = 0
        known_memory = True
        for pid in self.pids():
            reading = _read_linux(pid) if LINUX else _read_portable(pid)
            if reading is None:
                continue
            cpu, process_anon, process_mapped, process_threads = reading
            self._cpu[pid] = max(cpu, self._cpu.get(pid, 0.0))
            anon += process_anon
            threads += process_threads
            alive += 1
            if process_mapped is None:
                known_memory = False
            else:
                mapped += process_mapped
        if not alive:
            return None
        return TreeReading(sum(self._cpu.values()), anon, mapped if known_memory else None, threads, alive)


def _descendants(root: int) -> list[int]:
    """All processes below the root. On Linux the kernel lists them; a scan of all processes would hold up the client
    for tens of milliseconds on a machine with thousands of them.
    """
    if LINUX and Path(f"/proc/{root}/task/{root}/children").exists():
        found: list[int] = []
        waiting = [root]
        while waiting:
            below = _children(waiting.pop())
            found += below
            waiting += below
        return found
    return _descendants_portable(root)


def _children(pid: int) -> list[int]:
    """Children of one process: each thread lists those that it started."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a thread that ended meanwhile
                found += [int(word) for word in (task / "children").read_bytes().split()]
    return found


def _descendants_portable(root: int) -> list[int]:
    import psutil

    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(root).children(recursive=True)]
    return []


def _read_linux(pid: int) -> tuple[float, int, int | None, int] | None:
    """RssAnon is private memory; RssFile counts mapped model pages in full, also when a peer maps them too.

    PSS would divide shared pages by the number of processes, and so fall when a second server starts.
    """
    folder = Path(f"/proc/{pid}")
    try:
        stat = (folder / "stat").read_bytes()
        status = (folder / "status").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] == b"Z":
        return None
    cpu = (int(fields[11]) + int(fields[12])) / ticks_per_second()
    values = {b"RssAnon": 0, b"RssFile": 0, b"RssShmem": 0}
    threads = 0
    for line in status.splitlines():
        name, _, rest = line.partition(b":")
        if name in values:
            values[name] = int(rest.split()[0]) * 1024
        elif name == b"Threads":
            threads = int(rest)
    return cpu, values[b"RssAnon"] + values[b"RssShmem"], values[b"RssFile"], threads


def _read_portable(pid: int) -> tuple[float, int, int | None, int] | None:
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            return times.user + times.system, process.memory_info().rss, None, process.num_threads()
    except psutil.Error:
        return None
