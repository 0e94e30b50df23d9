"""How many cores a computation may really use here."""

from __future__ import annotations

import os
from pathlib import Path


def available_cores() -> int:
    """Physical cores that this process may use: affinity, SMT siblings and the cgroup's CPU quota considered."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # macOS
        import psutil

        return psutil.cpu_count(logical=False) or os.cpu_count() or 1
    siblings = set()
    for cpu in allowed:
        try:
            siblings.add(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip())
        except OSError:
            siblings.add(str(cpu))
    return max(1, min(len(siblings), _quota(len(allowed))))


def _quota(otherwise: int) -> int:
    """Whole cores of the cgroup's CPU quota (cgroup 2), rounded up."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return otherwise if quota == "max" else max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        return otherwise
