"""The environment fingerprint: what could make a result different on another day or machine."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from pathlib import Path

from ..units import size
from .gpu import Nvml
from .machine import usable_cores

# Settings from outside that change how fast numerical code runs. Values are counts or mode names, never secrets.
_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PROC_BIND", "KMP_AFFINITY", "GOMP_SPINCOUNT",
    "CUDA_VISIBLE_DEVICES", "OPENBLAS_CORETYPE",
)  # fmt: skip


def machine_fingerprint(version: str) -> dict[str, str]:
    """Flat text keys. Never host names, users or paths."""
    import psutil

    found = {
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores usable": str(usable_cores()),
        "cores logical": str(os.cpu_count() or "unknown"),
        "memory": size(psutil.virtual_memory().total),
        "python": sys.version.split()[0],
        "bakeoff": version,
    }
    governor = _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor:
        found["governor"] = governor
    for i, name in enumerate(Nvml().names()):
        found[f"gpu {i}"] = name
    for name in _VARIABLES:
        if name in os.environ:
            found[name] = os.environ[name][:80]
    return found


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
