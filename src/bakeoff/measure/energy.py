"""Energy as the hardware counts it, through the library zeus (RAPL, NVML, AMD SMI, Apple and Jetson SoCs), and over a
window of a block. Where neither zeus nor NVML's power tells anything, the energy is not known: no number is made up.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ..model import Sample

#: Time for which the devices are watched before the first server starts [s].
IDLE_S = 3.0
_IDLE_STEP_S = 0.2
DEVICES = ("cpu", "dram", "gpu", "soc")


class EnergyReading(NamedTuple):
    """Energy since some moment [J], of the whole machine; None: no such counter here."""

    cpu: float | None = None
    dram: float | None = None
    gpu: float | None = None
    soc: float | None = None


class EnergyCounters:
    """Reads zeus's devices. `available` is False where it is not installed, or finds no counter that may be read."""

    def __init__(self) -> None:
        self._cpus: Any = _opened("zeus.device.cpu", "get_cpus")
        self._gpus: Any = _opened("zeus.device.gpu", "get_gpus")
        self._soc: Any = _opened("zeus.device.soc", "get_soc")
        if self.available and self.read() == EnergyReading():
            self._cpus = self._gpus = self._soc = None  # they are there, and may not be read (RAPL needs root)

    @property
    def available(self) -> bool:
        return any(bool(device) for device in (self._cpus, self._gpus)) or self._soc is not None

    def read(self) -> EnergyReading:
        """One reading. A device that fails once does not hide the others."""
        cpu = dram = gpu = soc = None
        with contextlib.suppress(Exception):
            for index in range(len(self._cpus or ())):
                told = self._cpus.get_total_energy_consumption(index)
                cpu = (cpu or 0.0) + told.cpu_mj / 1e3
                dram = dram if told.dram_mj is None else (dram or 0.0) + told.dram_mj / 1e3
        with contextlib.suppress(Exception):
            for index in range(len(self._gpus or ())):
                gpu = (gpu or 0.0) + _gpu_millijoule(self._gpus, index) / 1e3
        with contextlib.suppress(Exception):
            if self._soc is not None:
                soc = _soc_joule(self._soc.get_total_energy_consumption())
        return EnergyReading(cpu, dram, gpu, soc)


def _opened(module: str, function: str) -> Any:
    """What zeus finds; None without zeus, without such hardware, or without the right to use it."""
    from importlib import import_module

    try:
        found = getattr(import_module(module), function)()
    except Exception:  # zeus has an exception for each way in which there is nothing to read
        return None
    return None if type(found).__name__.startswith("Empty") else found


def _gpu_millijoule(gpus: Any, index: int) -> float:
    """zeus 0.13 renamed the getters; both are the same counter [mJ]."""
    name = "get_total_energy_consumption"
    return float((getattr(gpus, name, None) or getattr(gpus, f"{name[:3]}{name[3].upper()}{name[4:]}"))(index))


def _soc_joule(told: Any) -> float | None:
    """Sum of a SoC's counters, which zeus gives in mJ, one a field."""
    values = [float(v) for name, v in vars(told).items() if name.endswith("_mj") and isinstance(v, int | float)]
    return sum(values) / 1e3 if values else None


def idle_power(counters: EnergyCounters, seconds: float = IDLE_S) -> float | None:
    """Mean power of all counted devices over the next seconds [W]; None where nothing is counted."""
    if not counters.available:
        return None
    first, began = counters.read(), time.monotonic()
    while (left := began + seconds - time.monotonic()) > 0:
        time.sleep(min(left, _IDLE_STEP_S))
    last, took = counters.read(), time.monotonic() - began
    gained = [b - a for a, b in zip(first, last, strict=True) if a is not None and b is not None]
    return sum(gained) / took if gained and took > 0 else None


class WindowEnergy(NamedTuple):
    """Gross energy over a window [J], in all and by device."""

    joules: float | None
    by_device: dict[str, float]


def window_energy(samples: Sequence[Sample], window_ns: tuple[int, int]) -> WindowEnergy:
    """Between two moments, from the counters; of GPUs without a counter ∫P dt of NVML's power. `joules` None: unknown.

    Counters are taken as rising evenly between two samples; beyond the first and the last one nothing is assumed, so a
    window that reaches further than the samples, or has none inside, is not known.
    """
    found: dict[str, float] = {}
    for name in DEVICES:
        counted = [(s.t_ns, v) for s in samples if (v := getattr(s, f"energy_{name}_j")) is not None]
        joules = _risen(counted, window_ns)
        if joules is not None and joules >= 0:  # a counter that began anew tells nothing
            found[name] = joules
    if "gpu" not in found:
        watts = [(s.t_ns, s.gpu_power_w) for s in samples if s.gpu_power_w is not None]
        joules = _integrated(watts, window_ns)
        if joules is not None:
            found["gpu"] = joules
    return WindowEnergy(sum(found.values()) if found else None, found)


def _risen(points: Sequence[tuple[int, float]], window_ns: tuple[int, int]) -> float | None:
    first, last = (_at(points, moment) for moment in window_ns)
    return None if first is None or last is None or window_ns[1] <= window_ns[0] else last - first


def _at(points: Sequence[tuple[int, float]], moment: int) -> float | None:
    """The value at a moment, by linear interpolation; None beyond the points."""
    for (t0, a), (t1, b) in pairwise(points):
        if t0 <= moment <= t1:
            return a if t1 == t0 else a + (b - a) * (moment - t0) / (t1 - t0)
    return None


def _integrated(points: Sequence[tuple[int, float]], window_ns: tuple[int, int]) -> float | None:
    """∫P dt by the trapezoidal rule [J]; None unless power was read before, or at, both ends."""
    ends = [_at(points, moment) for moment in window_ns]
    if ends[0] is None or ends[1] is None or window_ns[1] <= window_ns[0]:
        return None
    inside = [(t, p) for t, p in points if window_ns[0] < t < window_ns[1]]
    whole = [(window_ns[0], ends[0]), *inside, (window_ns[1], ends[1])]
    return sum((t1 - t0) / 1e9 * (a + b) / 2 for (t0, a), (t1, b) in pairwise(whole))
