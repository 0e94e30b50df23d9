"""What surrounds the events of a Kineto file: time base, devices, rank, versions. Nothing else is taken out of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from .kineto_events import integer
from .timeline import Device

_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})')
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]{0,4096}?"rank"\s*:\s*(\d{1,9})')
_WORLD = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]{0,4096}?"world_size"\s*:\s*(\d{1,9})')
_FACTS = (
    "schemaVersion",
    "cupti_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "roctracer_version",
    "hip_runtime_version",
    "hip_driver_version",
    "record_shapes",
    "with_stack",
    "profile_memory",
)


def _value(metadata: Mapping[str, Any], key: str) -> Any:
    try:
        return msgspec.json.decode(metadata[key])
    except (KeyError, msgspec.DecodeError, RecursionError):
        return None


def _number_in(texts: Sequence[bytes], pattern: re.Pattern[bytes]) -> int | None:
    """For metadata whose JSON is broken (log lines are written into it): the number, if its text is whole."""
    for text in texts:
        if match := pattern.search(text):
            return int(match[1])
    return None


def base_ns(metadata: Mapping[str, Any], texts: Sequence[bytes]) -> int:
    """``baseTimeNanoseconds``, or 0: the times are then Unix times, or relative to an unknown start."""
    value = _value(metadata, "baseTimeNanoseconds")
    if isinstance(value, int) and 0 <= value < 1 << 62:
        return value
    return _number_in(texts, _BASE) or 0


def distributed(metadata: Mapping[str, Any], texts: Sequence[bytes]) -> tuple[int | None, int | None]:
    """(rank, world size) of a distributed job."""
    info = _value(metadata, "distributedInfo")
    if isinstance(info, dict):
        rank, world = integer(info.get("rank")), integer(info.get("world_size"))
        return (rank if rank >= 0 else None), (world if world > 0 else None)
    return _number_in(texts, _RANK), _number_in(texts, _WORLD)


def device_facts(metadata: Mapping[str, Any]) -> tuple[Device, ...]:
    """``deviceProperties``; entries of another shape are left out."""
    found = _value(metadata, "deviceProperties")
    devices = []
    for entry in found if isinstance(found, list) else []:
        if not isinstance(entry, dict) or integer(entry.get("id")) < 0:
            continue
        major, minor = integer(entry.get("computeMajor")), integer(entry.get("computeMinor"))
        memory, units = integer(entry.get("totalGlobalMem")), integer(entry.get("numSms"))
        name = entry.get("name")
        devices.append(
            Device(
                id=integer(entry.get("id")),
                name=name[:200] if isinstance(name, str) else "",
                memory_bytes=memory if memory > 0 else None,
                compute_capability=(major, minor) if major >= 0 and minor >= 0 else None,
                multiprocessors=units if units > 0 else None,
            )
        )
    return tuple(devices)


def facts(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Versions and recording options, as short texts."""
    found = {}
    for key in _FACTS:
        value = _value(metadata, key)
        if isinstance(value, int | float | str):
            found[key] = str(value)[:80]
    return found
