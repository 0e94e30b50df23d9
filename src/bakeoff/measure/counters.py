"""The server's own counters (Prometheus text), read before and after each block.

They are evidence, never input: a server that does not tell, or tells nonsense, costs no measurement.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..client import HttpClient
from ..errors import BakeoffError
from .counter_names import ADDED, BUSY, COUNTERS, HISTOGRAMS, PREFIXES, PROCESS_START, ServerKind

MAX_TEXT = 4 * 1024 * 1024  # characters; the page of a server with many engines has about 1 MB
_LINE = re.compile(
    r'^([a-zA-Z_:][\w:]{0,200})(?:\{([^"}\n]*(?:"(?:[^"\\\n]|\\.)*"[^"}\n]*)*)\})?[ \t]+([0-9.eE+\-]{1,40})(?=\s|$)',
    re.MULTILINE,
)
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_UNDERSCORED = re.compile(r"^(vllm|sglang|llamacpp)_")


class Counts(NamedTuple):
    """Counters since the server started, by canonical name; `started` [s since the epoch] where the server tells."""

    server: ServerKind
    values: Mapping[str, float]
    started: float | None = None


def read_counts(text: str) -> Counts | None:
    """Reads Prometheus text; label sets of one name are summed. None where no known server speaks."""
    sums = _sums(text[:MAX_TEXT])
    server = next((kind for name in sums for prefix, kind in PREFIXES.items() if name.startswith(prefix)), None)
    if server is None:
        return None
    values: dict[str, float] = {}
    for canonical, names in COUNTERS.items():
        _put(values, canonical, [n for name in names.get(server, ()) for n in (f"{name}_total", name)], sums)
    for canonical, names in HISTOGRAMS.items():
        for suffix, ending in (("s", "sum"), ("count", "count")):
            _put(values, f"{canonical}_{suffix}", [_part(name, ending) for name in names.get(server, ())], sums)
    if server == "llamacpp":
        _complete(values, sums)
    return Counts(server, values, sums.get(PROCESS_START))


def _sums(text: str) -> dict[str, float]:
    """name → sum over its label sets, and for each label of a name that a table selects by, name{label=value}."""
    sums: dict[str, float] = {}
    for written, labels, number in _LINE.findall(text):
        name = _UNDERSCORED.sub(r"\1:", written)  # some exporters have no colon in names
        if name not in _WANTED:
            continue
        try:
            value = float(number)
        except ValueError:
            continue
        if not math.isfinite(value):
            continue
        keys = [name]
        if labels and name in _SELECTED:
            keys += [f"{name}{{{label}={found}}}" for label, found in _LABEL.findall(labels)]
        for key in keys:
            sums[key] = sums.get(key, 0.0) + value
    return sums


def _part(name: str, ending: str) -> str:
    """``x{a=b}``, ``sum`` → ``x_sum{a=b}``."""
    head, brace, selector = name.partition("{")
    return f"{head}_{ending}{brace}{selector}"


def _put(values: dict[str, float], canonical: str, names: list[str], sums: Mapping[str, float]) -> None:
    found = next((sums[name] for name in names if name in sums), None)
    if found is not None:
        values[canonical] = found


def _complete(values: dict[str, float], sums: Mapping[str, float]) -> None:
    """What llama.cpp counts another way than the others."""
    for name, addend in ADDED.items():
        if name in values and addend in values:
            values[name] += values[addend]
    if "cache_hit_tokens" not in values:
        values.pop("cache_query_tokens", None)  # an old version: processed tokens alone tell nothing of the cache
    if BUSY in sums and "decode_calls" in values:
        values["busy_slots"] = sums[BUSY] * values["decode_calls"]


_WANTED = {PROCESS_START, BUSY} | {
    form
    for names in COUNTERS.values()
    for several in names.values()
    for name in several
    for form in (name.partition("{")[0], name.partition("{")[0] + "_total")
} | {
    _part(name, ending).partition("{")[0]
    for names in HISTOGRAMS.values()
    for several in names.values()
    for name in several
    for ending in ("sum", "count")
}  # fmt: skip
_SELECTED = {
    (_part(name, ending) if table is HISTOGRAMS else name).partition("{")[0]
    for table in (COUNTERS, HISTOGRAMS)
    for names in table.values()
    for several in names.values()
    for name in several
    if "{" in name
    for ending in ("sum", "count")
}


async def fetch_counts(client: HttpClient, path: str | None) -> Counts | None:
    """Current counters, or None where the server does not tell; never an error."""
    if path is None:
        return None
    try:
        return read_counts(await client.get_text(path))
    except BakeoffError:
        return None


def difference(before: Counts | None, after: Counts | None) -> dict[str, float]:
    """What happened between two readings, by canonical name; ``{"restarts": 1}`` alone where counters began anew.

    A counter that only the later reading has was created by its first event, so it began at 0. `running` is the mean
    number of busy slots over the decode calls, where a server counts them.
    """
    if before is None or after is None or before.server != after.server:
        return {}
    begun = (before.started, after.started)
    anew = None not in begun and begun[0] != begun[1]
    found = {name: value - before.values.get(name, 0.0) for name, value in after.values.items()}
    if anew or any(found[name] < 0 and name not in _ROUNDED for name in found):
        return {"restarts": 1.0}
    slots, calls = found.pop("busy_slots", None), found.get("decode_calls")
    if slots is not None and calls:
        found["running"] = max(0.0, slots / calls)
    return found


_ROUNDED = ("busy_slots",)  # made of a mean with six digits, so that it may go back a little
