"""NVIDIA telemetry through NVML, when there is a GPU and a driver; otherwise every reading is None."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any, NamedTuple


class GpuReading(NamedTuple):
    """Over the devices that the tree uses (all devices, as long as none is known to be used)."""

    busy: float | None
    memory_bytes: int | None
    power_w: float | None
    clock_mhz: float | None
    temperature_c: float | None


class Nvml:
    """A thin reader. `available` is False without a driver; then nothing else is ever called."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._devices: list[Any] = []
        with contextlib.suppress(Exception):  # no library, no driver, no permission: all mean "not told"
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
            self._devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]

    @property
    def available(self) -> bool:
        return bool(self._devices)

    def names(self) -> list[str]:
        """Device names with driver version, for the environment fingerprint."""
        if not self.available:
            return []
        driver = self._text(self._nvml.nvmlSystemGetDriverVersion())
        return [f"{self._text(self._nvml.nvmlDeviceGetName(d))} (driver {driver})" for d in self._devices]

    def read(self, pids: Collection[int]) -> GpuReading | None:
        """One reading; memory is that of the given processes."""
        if not self.available:
            return None
        memory = 0
        used = []
        for device in self._devices:
            own = 0
            for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
                with contextlib.suppress(Exception):
                    own += sum(p.usedGpuMemory or 0 for p in getattr(self._nvml, name)(device) if p.pid in pids)
            memory += own
            if own:
                used.append(device)
        devices = used or self._devices
        return GpuReading(
            busy=_mean([self._ask("nvmlDeviceGetUtilizationRates", d, lambda u: u.gpu / 100) for d in devices]),
            memory_bytes=memory if used else None,
            power_w=_sum([self._ask("nvmlDeviceGetPowerUsage", d, lambda milliwatt: milliwatt / 1e3) for d in devices]),
            clock_mhz=_mean([self._ask("nvmlDeviceGetClockInfo", d, float, 1) for d in devices]),  # 1 = SM clock
            temperature_c=_mean([self._ask("nvmlDeviceGetTemperature", d, float, 0) for d in devices]),  # 0 = die
        )

    def _ask(self, function: str, device: Any, convert: Any, *arguments: int) -> float | None:
        try:
            return float(convert(getattr(self._nvml, function)(device, *arguments)))
        except Exception:  # a device that does not support one reading still gives the others
            return None

    @staticmethod
    def _text(value: str | bytes) -> str:
        return value.decode() if isinstance(value, bytes) else value


def _known(values: list[float | None]) -> list[float]:
    return [v for v in values if v is not None]


def _mean(values: list[float | None]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None


def _sum(values: list[float | None]) -> float | None:
    known = _known(values)
    return sum(known) if known else None
