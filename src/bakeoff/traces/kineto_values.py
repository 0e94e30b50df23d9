"""Lists of JSON values of one field → arrays. The usual case (all whole numbers) costs one call; odd values a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from .kineto_events import Args, Number, integer, nanoseconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_SAFE_US = (1 << 62) // 1000
_SMALL = 1 << 31
_DIMS = 64  # arguments and dimensions kept of one operator


def integers(values: Sequence[Number]) -> Ints:
    """−1 for what is missing or no number."""
    missing = values.count(None)
    if missing == len(values):
        return np.full(missing, -1)
    filled = [-1 if value is None else value for value in values] if missing else values
    try:
        array = np.array(filled)
    except (OverflowError, ValueError):
        array = np.empty(0, object)
    if array.dtype == np.int64 and array.shape == (len(filled),):
        return array
    return np.array([integer(value) for value in filled], np.int64)


def small(values: Ints) -> Ints:
    """Device numbers: what does not fit 31 bits is −1."""
    return np.where((values >= -1) & (values < _SMALL), values, -1)


def externals(args: Sequence[Args]) -> Ints:
    """``External id``, spelled ``external id`` in 2021."""
    today = [a.external for a in args]
    if None not in today:
        return integers(today)
    return integers([a.external_old if a.external is None else a.external for a in args])


def times(values: Sequence[Any]) -> tuple[Ints, NDArray[np.bool_]]:
    """µs → (ns, which of them are times at all)."""
    try:
        array = np.array(values)
    except (OverflowError, ValueError):
        array = np.empty(0, object)
    if array.shape == (len(values),) and array.dtype in (np.int64, np.float64):
        good = np.abs(array) < _SAFE_US  # also False for NaN
        safe = np.where(good, array, 0)
        return (safe * 1000 if array.dtype == np.int64 else np.rint(safe * 1000).astype(np.int64)), good
    found = [nanoseconds(value) for value in values]
    good = np.array([value is not None for value in found], bool)
    return np.array([value or 0 for value in found], np.int64), good


def dims(text: bytes) -> tuple[tuple[int, ...], ...]:
    """``[[16, 559], []]`` → ((16, 559), ()). What is no list of whole numbers is ()."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ()
    if not isinstance(value, list):
        return ()
    return tuple(
        tuple(size for size in shape[:_DIMS] if isinstance(size, int)) if isinstance(shape, list) else ()
        for shape in value[:_DIMS]
    )


def types(text: bytes) -> tuple[str, ...]:
    """``["float", ""]`` → ("float", "")."""
    try:
        value = msgspec.json.decode(text) if text else []
    except (msgspec.DecodeError, RecursionError):
        return ()
    if not isinstance(value, list):
        return ()
    return tuple(kind[:40] if isinstance(kind, str) else "" for kind in value[:_DIMS])
