"""Peaks of devices: what the trace says, else the vendors' data sheets (dense, without sparsity)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .timeline import Device


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Theoretical peaks; None: unknown. flops_per_s: dense FP16/BF16 matrix arithmetic. source: where they are from."""

    bytes_per_s: float | None = None
    flops_per_s: float | None = None
    source: str = ""


# (pattern on the device's name, TB/s, dense FP16/BF16 TFLOP/s), the specific before the general.
_SHEET: tuple[tuple[str, float, float], ...] = (
    (r"B200", 8.0, 2250.0),
    (r"H200", 4.8, 989.0),
    (r"H100 PCIe", 2.0, 756.0),
    (r"H100 NVL", 3.9, 835.0),
    (r"GH200", 4.0, 989.0),
    (r"H100|H800", 3.35, 989.0),
    (r"H20\b", 4.0, 148.0),
    (r"A100.*(?:80GB PCIe|PCIE-80GB)", 1.935, 312.0),
    (r"A100.*80GB", 2.039, 312.0),
    (r"A100|A800", 1.555, 312.0),
    (r"L40S", 0.864, 362.0),
    (r"L40\b", 0.864, 181.0),
    (r"L4\b", 0.300, 121.0),
    (r"A40\b", 0.696, 150.0),
    (r"A10G", 0.600, 70.0),
    (r"A10\b", 0.600, 125.0),
    (r"A30\b", 0.933, 165.0),
    (r"\bT4\b", 0.320, 65.0),
    (r"V100S", 1.134, 130.0),
    (r"V100", 0.900, 125.0),
    (r"RTX 5090", 1.792, 209.5),
    (r"RTX 4090", 1.008, 165.2),
    (r"RTX 3090", 0.936, 71.0),
    (r"MI355X", 8.0, 2500.0),
    (r"MI325X", 6.0, 1307.0),
    (r"MI300X", 5.3, 1307.0),
    (r"MI300A", 5.3, 981.0),
    (r"MI250X?", 1.638, 191.5),  # of one of its two dies, which is what a device is
    (r"MI210", 1.638, 181.0),
    (r"MI100", 1.229, 184.6),
)


def peaks_of(device: Device) -> Peaks:
    """The device's peaks: memory bandwidth from the trace's own device table where it is there."""
    for pattern, terabytes, teraflops in _SHEET:
        if re.search(pattern, device.name):
            return Peaks(
                bytes_per_s=device.memory_bandwidth or terabytes * 1e12,
                flops_per_s=teraflops * 1e12,
                source="trace and data sheet" if device.memory_bandwidth else "data sheet",
            )
    return Peaks(bytes_per_s=device.memory_bandwidth, source="trace" if device.memory_bandwidth else "")
