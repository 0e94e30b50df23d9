"""Loads whose levels the run finds itself: ``{sweep: concurrency}``, ``{sweep: rate}``, ``{find: goodput, slo: …}``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..model import Load, LoadKind, Search
from .places import Key, Ledger

#: Ways of searching; they stand in place of a load's levels.
SEARCHES = ("sweep", "find")
_KEYS = ("low", "high", "attainment", "slo")
# Where a search of rates begins depends on how long one request takes, so a wide range costs nothing.
_RANGES: Mapping[LoadKind, tuple[float, float]] = {"closed": (1.0, 256.0), "open": (0.0625, 1024.0)}
_ATTAINMENT = 0.99


def searched_kind(load: Mapping[str, Any]) -> LoadKind:
    """What the levels are: requests at a time, or requests per second."""
    return "closed" if load.get("sweep") == "concurrency" else "open"


def load_kind(load: Mapping[str, Any], given: str) -> str | None:
    """The kind of load that a key asks for, whether its levels are given or searched."""
    named = {"sweep": load.get("sweep"), "find": "rate"}.get(given, given)
    return named if isinstance(named, str) else None


def build_search(load: Mapping[str, Any]) -> Search:
    """The search of a checked load."""
    low, high = _RANGES[searched_kind(load)]
    return Search(
        kind="find" if load.get("find") else "sweep",
        low=float(load.get("low") or low),
        high=float(load.get("high") or high),
        attainment=float(load.get("attainment") or _ATTAINMENT),
    )


def limits_of(workload: Mapping[str, Any]) -> dict[str, float]:
    """The limits of a request, which may stand in the load that they steer."""
    load = workload.get("load")
    own = load.get("slo") if isinstance(load, Mapping) else None
    given = own or workload.get("slo") or {}
    return {str(name): float(limit) for name, limit in given.items()}


def has_limits(workload: Mapping[str, Any]) -> bool:
    """Whether the raw data of a workload sets limits of a request."""
    load = workload.get("load")
    return bool(workload.get("slo") or (isinstance(load, Mapping) and load.get("slo")))


def is_open_search(load: Any) -> bool:
    """Whether raw data of a load ask for a search of rates."""
    return isinstance(load, Mapping) and (load.get("sweep") == "rate" or load.get("find") is not None)


def fewest_of(load: Load) -> int:
    """Requests of a block that can tell the attainment wanted: with fewer, one miss is already too many."""
    if load.search is None or load.search.kind != "find":
        return 0
    return math.ceil(1 / (1 - load.search.attainment) - 1e-9)


def check_search(key: Key, workload: Mapping[str, Any], ledger: Ledger) -> None:
    """Notes what a searched load cannot do; `key` is the workload's."""
    load = workload.get("load")
    if not isinstance(load, Mapping):
        return
    place = (*key, "load")
    finding, sweeping = load.get("find") is not None, load.get("sweep") is not None
    for name in _KEYS:
        wanted = finding if name in ("attainment", "slo") else finding or sweeping
        if load.get(name) is not None and not wanted:
            ledger.add((*place, name), "is for a search of load levels", "find: goodput, or sweep: rate", on_key=True)
    if not (finding or sweeping):
        return
    low, high = load.get("low"), load.get("high")
    if isinstance(low, int | float) and isinstance(high, int | float) and low >= high:
        ledger.add((*place, "high"), f"is not above low ({low:g})", "high: 64")
    if load.get("sweep") == "concurrency":
        for name, value in (("low", low), ("high", high)):
            if isinstance(value, float) and not value.is_integer():
                ledger.add((*place, name), "must be a whole number: so many requests at a time")
    if finding:
        _check_find(key, workload, load, ledger)


def _check_find(key: Key, workload: Mapping[str, Any], load: Mapping[str, Any], ledger: Ledger) -> None:
    place = (*key, "load")
    if not has_limits(workload):
        ledger.add((*place, "slo"), "is missing: goodput counts who meets limits", "slo: {ttft_s: 0.5, tpot_s: 50ms}")
    elif load.get("slo") and workload.get("slo"):
        ledger.add((*place, "slo"), "stands beside the load as well", "keep one of the two", on_key=True)
    share, block = load.get("attainment"), workload.get("block")
    requests = block.get("requests") if isinstance(block, Mapping) else None
    wanted = _percentage(share) if share is not None else _ATTAINMENT
    if wanted is None:
        return  # reported by its value
    if not 0.5 <= wanted < 1:
        ledger.add((*place, "attainment"), "must be at least 50% and below 100%", "attainment: 99%")
    elif isinstance(requests, int) and requests < 1 / (1 - wanted) - 1e-9:
        fewest = math.ceil(1 / (1 - wanted) - 1e-9)
        ledger.add(
            (*key, "block", "requests"),
            f"{requests} requests cannot tell whether {wanted * 100:.4g} % of them meet the limits",
            f"measure at least {fewest} requests a block, or lower load.attainment",
        )


def _percentage(value: Any) -> float | None:
    from . import values

    try:
        return values.share(value)
    except ValueError:
        return None
