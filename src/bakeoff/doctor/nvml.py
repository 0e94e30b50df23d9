"""GPUs through NVML. Every question may fail by itself: its answer is then None."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .reading import Gpu, printable

# Reasons that heat or power supply force; the others (idle, a cap that somebody set) are no alarm.
_ALARMS = {
    0x08: "hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}


def read_gpus(root: Path = Path("/")) -> tuple[tuple[Gpu, ...], str | None]:
    """(the GPUs, what is wrong if a driver is here that does not answer)."""
    try:
        import pynvml
    except ImportError:
        return (), None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as problem:
        present = (root / "proc/driver/nvidia/version").exists() or (root / "dev/nvidiactl").exists()
        return (), printable(str(problem), 200) if present else None
    try:
        driver = _ask(pynvml, pynvml.nvmlSystemGetDriverVersion)
        count = _ask(pynvml, pynvml.nvmlDeviceGetCount) or 0
        return tuple(gpu for i in range(count) if (gpu := _read(pynvml, i, _text(driver))) is not None), None
    finally:
        _ask(pynvml, pynvml.nvmlShutdown)


def _ask(nvml: Any, question: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return question(*arguments)
    except (nvml.NVMLError, UnicodeDecodeError):  # not supported by this device, or no permission
        return None


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return printable(value) if isinstance(value, str) else None


def _read(nvml: Any, index: int, driver: str | None) -> Gpu | None:
    handle = _ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return None

    def ask(name: str, *more: Any) -> Any:
        return _ask(nvml, getattr(nvml, name), handle, *more)

    def watts(name: str) -> float | None:
        milliwatts = ask(name)
        return None if milliwatts is None else milliwatts / 1000

    memory, rates, persistence = (
        ask("nvmlDeviceGetMemoryInfo"),
        ask("nvmlDeviceGetUtilizationRates"),
        ask("nvmlDeviceGetPersistenceMode"),
    )
    processes = ask("nvmlDeviceGetComputeRunningProcesses")
    reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
    return Gpu(
        index=index,
        name=_text(ask("nvmlDeviceGetName")) or "unknown",
        driver=driver,
        persistence=None if persistence is None else bool(persistence),
        busy=None if rates is None else rates.gpu / 100,
        other_processes=None if processes is None else sum(process.pid != os.getpid() for process in processes),
        memory_used=None if memory is None else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        temperature_c=ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        power_w=watts("nvmlDeviceGetPowerUsage"),
        power_limit_w=watts("nvmlDeviceGetEnforcedPowerLimit"),
        default_limit_w=watts("nvmlDeviceGetPowerManagementDefaultLimit"),
        clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        max_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        slowed_by=tuple(says for bit, says in _ALARMS.items() if reasons & bit),
    )
