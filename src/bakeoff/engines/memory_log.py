"""How a server's memory splits, as its own log tells it while it loads: weights, KV cache, compute buffers.

llama.cpp: ``load_tensors: CPU_Mapped model buffer size = 271.81 MiB``, ``llama_kv_cache: CPU KV buffer size = …``,
``sched_reserve: CUDA0 compute buffer size = …``. vLLM: ``Model loading took 14.99 GiB``, ``Available KV cache memory:
55.2 GiB`` (on CPU ``Explicitly set (2.0/11.71) GiB for KV cache``), ``Graph capturing finished in 20 secs, took 0.5
GiB``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

#: The lines come while the model loads; a log may go on for gigabytes.
_READ_BYTES = 4 * 1024 * 1024
_MIB, _GIB = 2.0**20, 2.0**30
_BUFFER = re.compile(
    r"^[^\n]{0,200}?: +([A-Za-z0-9_.]{1,40}) +(model|output|KV|RS|compute) buffer size += +(\d{1,9}(?:\.\d{1,6})?) MiB",
    re.MULTILINE,
)
_NAMES = {"model": "weights", "output": "compute", "KV": "kv cache", "RS": "kv cache", "compute": "compute"}
_VLLM = (
    ("weights", re.compile(r"[Mm]odel (?:loading|weights) took (\d{1,6}(?:\.\d{1,6})?) ?(GiB|GB)\b")),
    ("kv cache", re.compile(r"Available KV cache memory: (\d{1,6}(?:\.\d{1,6})?) ?(GiB|GB)\b")),
    ("kv cache", re.compile(r"Explicitly set \((\d{1,6}(?:\.\d{1,6})?)/[\d.]{1,12}\) ?(GiB|GB) for KV cache")),
    ("compute", re.compile(r"Graph capturing finished in [\d.]{1,9} secs?, took (\d{1,6}(?:\.\d{1,6})?) ?(GiB|GB)\b")),
)
#: Devices of llama.cpp whose memory is the process's own.
_HOST = re.compile(r"CPU|BLAS|Host|AMX|REPACK", re.IGNORECASE)


class MemoryParts(NamedTuple):
    """Bytes by part; `on_device`: they lie in a device's memory (what a GPU server keeps on the host is left out)."""

    parts: dict[str, float]
    on_device: bool


def read_memory_log(path: Path) -> MemoryParts:
    """Nothing where the log cannot be read, or tells nothing."""
    try:
        with path.open("rb") as file:
            text = file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return MemoryParts({}, False)
    return parse_memory_log(text)


def parse_memory_log(text: str) -> MemoryParts:
    """As `read_memory_log`, of a log's text. Of a number that is told again (several workers), the sum counts."""
    host: dict[str, float] = {}
    device: dict[str, float] = {}
    for name, kind, size in _BUFFER.findall(text):
        into = host if _HOST.search(name) else device
        into[_NAMES[kind]] = into.get(_NAMES[kind], 0.0) + float(size) * _MIB
    if host or device:
        return MemoryParts(device or host, bool(device))
    found: dict[str, float] = {}
    for part, pattern in _VLLM:
        told = [float(size) * (_GIB if unit == "GiB" else 1e9) for size, unit in pattern.findall(text)]
        if told and part not in found:
            found[part] = sum(told)
    return MemoryParts(found, bool(found) and "for KV cache on node" not in text)
