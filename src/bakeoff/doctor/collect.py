"""Collects a reading of this machine: Linux files where there are any, psutil elsewhere."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from time import monotonic_ns

from .linux import CpuTimes, Linux
from .nvml import read_gpus
from .reading import Activity, Clock, Cpu, Limits, Memory, Place, Power, Reading
from .watch import ProcessWatch, watch_loop

_SHORTEST_S = 0.2
# They change how many threads a numeric library, and so a server that inherits them, uses.
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "OMP_PROC_BIND",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
    "GGML_NUM_THREADS",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
)


def collect(seconds: float = 2.0) -> Reading:
    """Watches for `seconds` (0.2 at the least), then reads everything. Starts no process and needs no rights."""
    linux = Linux() if sys.platform == "linux" else None
    before = _Counters(linux)
    processes = ProcessWatch()

    def runnable() -> int | None:
        times = linux.cpu_times() if linux else None
        # The one that reads is running: it is not counted.
        return max(0, times.runnable - 1) if times and times.runnable is not None else None

    lag, queue = watch_loop(max(_SHORTEST_S, seconds), runnable)
    other_cores, hot = processes.finish()
    after = _Counters(linux)
    logical = os.cpu_count()
    activity = Activity(
        interval_s=after.elapsed(before),
        busy_cores=after.busy_cores(before),
        other_cores=other_cores,
        steal_share=after.steal_share(before),
        load1=_load1(),
        runnable=queue,
        hot=hot,
    )
    gpus, gpu_problem = read_gpus()
    return Reading(
        cpu=_cpu(linux, logical, after.throttled_since(before)),
        activity=activity,
        memory=_memory(linux, after.swapped_since(before)),
        clock=_clock(linux),
        power=_power(before, after),
        place=_place(linux),
        limits=_limits(os.environ),
        lag=lag,
        gpus=gpus,
        gpu_problem=gpu_problem,
    )


class _Counters:
    """Counters at one moment; differences of two moments are what the interval held."""

    def __init__(self, linux: Linux | None) -> None:
        import psutil

        self.t_ns = monotonic_ns()
        self._ticks: CpuTimes | None = linux.cpu_times() if linux else None
        times = psutil.cpu_times()
        self._busy_s = float(times.user + times.system + getattr(times, "nice", 0.0))
        self._throttled = linux.throttled_periods() if linux else None
        self._swapped = linux.swapped_pages() if linux else self._portable_swap()
        self.heat = linux.throttle_events() if linux else None

    @staticmethod
    def _portable_swap() -> tuple[int, int] | None:
        import psutil

        with contextlib.suppress(OSError, RuntimeError):
            swap = psutil.swap_memory()
            return swap.sin // 4096, swap.sout // 4096
        return None

    def elapsed(self, before: _Counters) -> float:
        return (self.t_ns - before.t_ns) / 1e9

    def busy_cores(self, before: _Counters) -> float:
        return max(0.0, self._busy_s - before._busy_s) / self.elapsed(before)

    def steal_share(self, before: _Counters) -> float | None:
        if self._ticks is None or before._ticks is None:
            return None
        total = self._ticks.total - before._ticks.total
        return max(0, self._ticks.steal - before._ticks.steal) / total if total > 0 else None

    def throttled_since(self, before: _Counters) -> int | None:
        return None if self._throttled is None or before._throttled is None else self._throttled - before._throttled

    def swapped_since(self, before: _Counters) -> tuple[float, float] | None:
        if self._swapped is None or before._swapped is None:
            return None
        elapsed = self.elapsed(before)
        pages_in, pages_out = (max(0, new - old) for new, old in zip(self._swapped, before._swapped, strict=True))
        return pages_in / elapsed, pages_out / elapsed


def _cpu(linux: Linux | None, logical: int | None, throttled: int | None) -> Cpu:
    import psutil

    affinity = len(os.sched_getaffinity(0)) if sys.platform == "linux" else None
    frequency = None
    with contextlib.suppress(OSError, RuntimeError, NotImplementedError, AttributeError):
        frequency = psutil.cpu_freq()
    cpu = Cpu(
        model=platform.processor() or None,
        logical=logical,
        physical=psutil.cpu_count(logical=False),
        affinity=affinity,
        throttled_periods=throttled,
        frequency_mhz=frequency.current if frequency and frequency.current else None,
        max_frequency_mhz=frequency.max if frequency and frequency.max else None,
    )
    return linux.cpu(cpu) if linux else cpu


def _load1() -> float | None:
    with contextlib.suppress(OSError, AttributeError):
        return os.getloadavg()[0]
    return None


def _memory(linux: Linux | None, swapped: tuple[float, float] | None) -> Memory:
    import psutil

    sizes = psutil.virtual_memory()
    swap_total = swap_used = None
    with contextlib.suppress(OSError, RuntimeError):
        swap = psutil.swap_memory()
        swap_total, swap_used = swap.total, swap.used
    memory = Memory(
        total=sizes.total,
        available=sizes.available,
        swap_total=swap_total,
        swap_used=swap_used,
        swapped_in=swapped[0] if swapped else None,
        swapped_out=swapped[1] if swapped else None,
    )
    return linux.memory(memory) if linux else memory


def _clock(linux: Linux | None) -> Clock:
    """The smallest step of a thousand readings in a row: a coarse clock repeats itself."""
    stamps = [monotonic_ns() for _ in range(1000)]
    steps = [b - a for a, b in pairwise(stamps) if b > a]
    clock = Clock(
        resolution_s=time.get_clock_info("monotonic").resolution,
        step_s=min(steps) / 1e9 if steps else None,
    )
    return linux.clock(clock) if linux else clock


def _power(before: _Counters, after: _Counters) -> Power:
    import psutil

    battery, hottest = None, None
    with contextlib.suppress(OSError, RuntimeError, AttributeError, NotImplementedError, ValueError):
        battery = psutil.sensors_battery()
    with contextlib.suppress(OSError, RuntimeError, AttributeError, NotImplementedError, ValueError):
        # Only sensors of processors: a disk or a battery has its own limits.
        names = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal")
        sensors = psutil.sensors_temperatures()
        values = [sensor.current for name in names for sensor in sensors.get(name, ()) if 0 < sensor.current < 150]
        hottest = max(values, default=None)
    heat = None if after.heat is None or before.heat is None else after.heat - before.heat
    return Power(
        on_battery=None if battery is None or battery.power_plugged is None else not battery.power_plugged,
        battery_percent=None if battery is None else float(battery.percent),
        temperature_c=hottest,
        throttle_events=heat,
        throttle_events_ever=after.heat,
    )


def _place(linux: Linux | None) -> Place:
    place = Place(system=f"{platform.system()} {platform.release()} {platform.machine()}")
    return linux.place(place) if linux else place


def _limits(environ: Mapping[str, str]) -> Limits:
    soft = hard = None
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        unlimited = resource.RLIM_INFINITY
        soft, hard = (None if value == unlimited else value for value in (soft, hard))
    # Values are shown, so only those that look like what such a variable holds.
    told = {name: environ[name] for name in _THREAD_VARIABLES if name in environ}
    clean = {name: value if re.fullmatch(r"[\w ,:=-]{0,40}", value) else "(set)" for name, value in told.items()}
    return Limits(open_files=soft, open_files_hard=hard, thread_variables=clean)
