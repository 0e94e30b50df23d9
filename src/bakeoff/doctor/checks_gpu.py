"""Checks of the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ..units import size
from .diagnosis import Finding
from .reading import Gpu, Reading


def check_gpus(reading: Reading) -> Iterator[Finding]:
    """Each GPU: idle, cool, unhindered and ours alone."""
    if reading.gpu_problem:
        yield Finding(
            code="gpu-driver",
            severity="warning",
            message=f"a GPU seems to be here, but it cannot be asked: {reading.gpu_problem}",
            remedy="see whether nvidia-smi works; a reboot after a driver update often helps",
        )
    for gpu in reading.gpus:
        yield _identity(gpu)
        yield from _sharing(gpu)
        yield from _restraint(gpu)


def _identity(gpu: Gpu) -> Finding:
    parts = [f"GPU {gpu.index}: {gpu.name}"]
    if gpu.driver:
        parts.append(f"driver {gpu.driver}")
    if gpu.memory_used is not None and gpu.memory_total:
        parts.append(f"{size(gpu.memory_used)} of {size(gpu.memory_total)} in use")
    if gpu.clock_mhz is not None:
        parts.append(f"{gpu.clock_mhz:.0f} MHz" + (f" of {gpu.max_clock_mhz:.0f}" if gpu.max_clock_mhz else ""))
    if gpu.power_w is not None:
        parts.append(f"{gpu.power_w:.0f} W" + (f" of {gpu.power_limit_w:.0f}" if gpu.power_limit_w else ""))
    return Finding(code="gpu", severity="ok", message=", ".join(parts))


def _sharing(gpu: Gpu) -> Iterator[Finding]:
    remedy = "stop them, or choose another GPU (CUDA_VISIBLE_DEVICES)"
    if gpu.busy is not None and gpu.busy >= 0.05:
        yield Finding(
            code="gpu-busy",
            severity="bad" if gpu.busy >= 0.5 else "warning",
            message=f"GPU {gpu.index} is {100 * gpu.busy:.0f} % busy before anything is measured",
            remedy=remedy,
        )
    if gpu.other_processes:
        # A process that merely holds memory takes no time, but it takes cache and room.
        yield Finding(
            code="gpu-shared",
            severity="warning",
            message=f"GPU {gpu.index}: other processes that compute on it: {gpu.other_processes}",
            remedy=remedy,
        )
    if gpu.persistence is False:
        yield Finding(
            code="gpu-persistence",
            severity="note",
            message=f"GPU {gpu.index}: persistence mode is off, so the driver unloads between servers",
            remedy="sudo nvidia-smi -pm 1, else each cold start pays for it",
        )


def _restraint(gpu: Gpu) -> Iterator[Finding]:
    if gpu.slowed_by:
        yield Finding(
            code="gpu-throttling",
            severity="bad",
            message=f"GPU {gpu.index} is slowed down: {', '.join(gpu.slowed_by)}",
            remedy="cool it, or see to its power supply; then examine again",
        )
    if gpu.temperature_c is not None and gpu.temperature_c >= 80:
        yield Finding(
            code="gpu-temperature",
            severity="bad" if gpu.temperature_c >= 90 else "warning",
            message=f"GPU {gpu.index} at {gpu.temperature_c:.0f} °C",
            remedy="let it cool: clocks fall with heat, and that shows as drift",
        )
    if gpu.power_limit_w and gpu.default_limit_w and gpu.power_limit_w < 0.98 * gpu.default_limit_w:
        yield Finding(
            code="gpu-power-limit",
            severity="note",
            message=f"GPU {gpu.index}: limited to {gpu.power_limit_w:.0f} W of its usual {gpu.default_limit_w:.0f} W",
            remedy="results hold for this limit; sudo nvidia-smi -pl sets it",
        )
