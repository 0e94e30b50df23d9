"""Readings of the machine: busy and stolen CPU time, run queue, frequency, memory. None where it is not told."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

LINUX = sys.platform.startswith("linux")


class MachineReading(NamedTuple):
    """Cumulative CPU seconds over all cores, and momentary values."""

    busy_s: float | None
    steal_s: float | None
    runnable: int | None
    load1: float | None
    frequency_mhz: float | None
    available_bytes: int | None
    temperature_c: float | None


@lru_cache(maxsize=1)
def ticks_per_second() -> int:
    return os.sysconf("SC_CLK_TCK")


def usable_cores() -> int:
    """Cores this process may run on (affinity), which is what a server that we start inherits."""
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_machine() -> MachineReading:
    """One reading; about 0.2 ms on Linux."""
    return _read_linux() if LINUX else _read_portable()


def _read_linux() -> MachineReading:
    busy = steal = None
    runnable: int | None = None
    with open("/proc/stat", "rb") as file:  # a few KB: cheaper than psutil, and it has procs_running
        for line in file:
            if line.startswith(b"cpu "):
                # user nice system idle iowait irq softirq steal guest guest_nice (guest is already in user)
                fields = [int(x) for x in line.split()[1:9]]
                busy = (fields[0] + fields[1] + fields[2] + fields[5] + fields[6]) / ticks_per_second()
                steal = fields[7] / ticks_per_second()
            elif line.startswith(b"procs_running"):
                runnable = int(line.split()[1])
                break
    available = None
    with open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                available = int(line.split()[1]) * 1024
                break
    return MachineReading(busy, steal, runnable, _load1(), _frequency(), available, _temperature())


def _read_portable() -> MachineReading:
    import psutil

    times = psutil.cpu_times()
    busy = times.user + times.system + getattr(times, "nice", 0.0)
    frequency = None
    with contextlib.suppress(Exception):  # absent on some platforms, and None on others
        frequency = float(psutil.cpu_freq().current)
    return MachineReading(busy, None, None, _load1(), frequency, psutil.virtual_memory().available, None)


def _load1() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _existing(pattern_root: str, pattern: str) -> tuple[Path, ...]:
    root = Path(pattern_root)
    return tuple(sorted(root.glob(pattern))) if root.exists() else ()


@lru_cache(maxsize=1)
def _frequency_files() -> tuple[Path, ...]:
    return _existing("/sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_cur_freq")


@lru_cache(maxsize=1)
def _temperature_files() -> tuple[Path, ...]:
    return _existing("/sys/class/thermal", "thermal_zone*/temp")


def _read_numbers(files: tuple[Path, ...]) -> list[float]:
    values = []
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            values.append(float(file.read_text()))
    return values


def _frequency() -> float | None:
    values = _read_numbers(_frequency_files())
    return sum(values) / len(values) / 1e3 if values else None  # kHz → MHz


def _temperature() -> float | None:
    values = _read_numbers(_temperature_files())
    return max(values) / 1e3 if values else None  # millidegrees → °C


Reader = Callable[[], MachineReading]
