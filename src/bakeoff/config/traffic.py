"""What ties the keys of a workload together: prompts, load, block and cache. Works on the raw data, as `rules`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model import CachePolicy
from . import values
from .places import Key, Ledger, nearest
from .searching import SEARCHES, check_search, load_kind

#: Sources with arrival times, which a load can replay.
TRACES = ("azure", "mooncake")
#: Sources that know how long each answer was.
RECORDED = ("sharegpt", *TRACES)
#: Kinds of load; a workload has one of them.
LOADS = ("concurrency", "rate", "replay")
#: Answers beyond it are not asked for where the source's own lengths count [tokens].
MAX_RECORDED_TOKENS = 4096

_FILE_KEYS = ("path", "sample", "max_input_tokens", "overlong")
_TALK_KEYS = ("turns", "think", "history")
_SYNTHETIC_KEYS = ("input_tokens", "shared_prefix")
_KEYS = {
    "synthetic": (*_SYNTHETIC_KEYS, *_TALK_KEYS),
    "jsonl": (*_FILE_KEYS, *_TALK_KEYS),
    "sharegpt": (*_FILE_KEYS, *_TALK_KEYS),
    "azure": _FILE_KEYS,
    "mooncake": _FILE_KEYS,
}
_EXAMPLE_PATHS = {"sharegpt": "sharegpt.json", "azure": "trace.csv", "mooncake": "trace.jsonl"}


def prompts_source(prompts: Mapping[str, Any]) -> Any:
    """The source that is meant: a path alone means a file."""
    source = prompts.get("source")
    if source is None:
        return "jsonl" if prompts.get("path") is not None else "synthetic"
    return source


def default_cache(prompts: Mapping[str, Any]) -> CachePolicy:
    """The cache policy where none is given: what prompts are made to share may be reused, and else nothing."""
    return "declared" if _shares(prompts) else "unique"


def takes_recorded_lengths(workload: Mapping[str, Any]) -> bool:
    """Whether answers are as long as the source's: no length is given, and the source knows them."""
    prompts = as_mapping(workload.get("prompts"))
    given = workload.get("output_tokens") is not None or prompts.get("output_tokens") is not None
    return not given and prompts_source(prompts) in RECORDED


def absolute_path(path: str, where: Path) -> Path:
    """The absolute path of a file that an experiment in the folder `where` names."""
    # os.path: resolve() would follow links, and Path.expanduser() raises for an unknown user.
    return Path(os.path.abspath(where / os.path.expanduser(path)))


def exists(path: Path) -> bool:
    """Whether there is such a file or folder (False for a name that none can have)."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def check_workload(key: Key, workload: Mapping[str, Any], where: Path, ledger: Ledger) -> None:
    """Notes every combination in one workload that cannot be measured."""
    prompts = workload.get("prompts")
    inner = as_mapping(prompts)
    if isinstance(prompts, Mapping):
        _check_prompts((*key, "prompts"), prompts, where, ledger)
    given = [place.get("output_tokens") for place in (workload, inner)]
    if None not in given:
        ledger.add((*key, "output_tokens"), "stands in `prompts` as well", "keep one of the two")
    elif given == [None, None] and not takes_recorded_lengths(workload):
        ledger.add((*key, "output_tokens"), "is missing", "output_tokens: 64 (with length: natural it is the limit)")
    load = workload.get("load")
    if isinstance(load, Mapping):
        _check_load((*key, "load"), load, prompts_source(inner), ledger)
    _check_block(key, workload, inner, ledger)
    check_search(key, workload, ledger)
    if workload.get("cache") == "unique" and inner.get("shared_prefix"):
        ledger.add(
            (*key, "cache"),
            "`unique` puts a nonce of its own before every prompt, so that no prefix is shared",
            "leave `cache` out: with shared_prefix it is `declared`, one nonce for all prompts of a block",
        )


def _check_prompts(key: Key, prompts: Mapping[str, Any], where: Path, ledger: Ledger) -> None:
    source, path = prompts_source(prompts), prompts.get("path")
    if not isinstance(source, str) or source not in _KEYS:
        return  # reported by its value
    for name in (*_SYNTHETIC_KEYS, *_TALK_KEYS, *_FILE_KEYS):
        if prompts.get(name) is not None and name not in _KEYS[source]:
            ledger.add((*key, name), _misplaced(name, source), on_key=True)
    if source == "synthetic":
        if prompts.get("input_tokens") is None:
            ledger.add((*key, "input_tokens"), "is missing", "input_tokens: 256")
    elif path is None:
        ledger.add((*key, "path"), "is missing", f"path: {_EXAMPLE_PATHS.get(source, 'prompts.jsonl')}")
    elif isinstance(path, str) and path and "${" not in path and not exists(absolute_path(path, where)):
        remedy = "check the path; a relative one counts from the experiment's folder"
        ledger.add((*key, "path"), f"there is no file {absolute_path(path, where)}", remedy)
    if prompts.get("turns") in (None, 1) and "turns" in _KEYS[source]:
        for name in ("think", "history"):
            if prompts.get(name) is not None:
                ledger.add((*key, name), "is for conversations", "turns: 4 (at most so many)", on_key=True)
    if prompts.get("overlong") is not None and prompts.get("max_input_tokens") is None and source != "synthetic":
        ledger.add((*key, "overlong"), "needs a limit", "max_input_tokens: 4096", on_key=True)


def _misplaced(name: str, source: str) -> str:
    if name in _SYNTHETIC_KEYS:
        return "is for synthetic prompts; those of a file are as long as they are"
    if name in _TALK_KEYS:
        return "is for conversations; a trace holds single requests"
    return f"is for prompts of a file; {source} ones are made"


def _check_load(key: Key, load: Mapping[str, Any], source: Any, ledger: Ledger) -> None:
    ways = (*LOADS, *SEARCHES)
    given = [name for name in ways if load.get(name) is not None]
    misspelt = not given and any(nearest(name, ways) for name in load)
    if len(given) != 1 and not misspelt:
        problem = f"has both {' and '.join(given)}" if given else "needs concurrency or rate"
        ledger.add(key, problem, "write {concurrency: [1, 4]} or {rate: [2, 4]}; use two workloads for both")
    kind = load_kind(load, given[0]) if len(given) == 1 else None
    if kind == "replay" and source not in TRACES:
        remedy = f"set prompts.source to {' or '.join(TRACES)}, or give a rate"
        ledger.add((*key, "replay"), "needs a trace with arrival times", remedy, on_key=True)
    _check_arrivals(key, load, kind, ledger)
    if load.get("ramp") is not None and kind in ("rate", "replay"):
        ledger.add((*key, "ramp"), "is for a closed loop: a schedule has its own start", on_key=True)
    for name in LOADS:
        seen: list[Any] = []
        for level in as_list(load.get(name)):
            if level in seen:
                ledger.add((*key, name), f"names the level {level:g} twice", "name each level once")
            elif isinstance(level, int | float):
                seen.append(level)


def _check_arrivals(key: Key, load: Mapping[str, Any], kind: str | None, ledger: Ledger) -> None:
    arrivals = load.get("arrivals")
    reason = {
        "concurrency": "in a closed loop, answers set the pace",
        "replay": "a replay has the arrivals of its trace",
    }.get(kind or "")
    for name in ("arrivals", "burstiness"):
        if reason and load.get(name) is not None:
            ledger.add((*key, name), f"is for a rate: {reason}", on_key=True)
    if reason:
        return
    if arrivals == "gamma" and load.get("burstiness") is None:
        ledger.add(
            (*key, "arrivals"), "`gamma` needs a burstiness", "burstiness: 0.25 (1 is Poisson, less is burstier)"
        )
    if load.get("burstiness") is not None and arrivals not in (None, "gamma"):
        ledger.add((*key, "burstiness"), "is for arrivals: gamma", "leave one of the two out", on_key=True)


def _check_block(key: Key, workload: Mapping[str, Any], prompts: Mapping[str, Any], ledger: Ledger) -> None:
    load, block = as_mapping(workload.get("load")), workload.get("block")
    if isinstance(block, Mapping) and (block.get("requests") is None) == (block.get("seconds") is None):
        ledger.add((*key, "block"), "needs either requests or seconds", "block: {requests: 16}, or {seconds: 20}")
    inner = as_mapping(block)
    requests: Any = inner.get("requests")
    slots: int = max(filter(is_count, as_list(load.get("concurrency"))), default=0)
    turns: Any = prompts.get("turns")
    each = turns if is_count(turns) and turns > 0 else 1
    if is_count(requests) and requests < slots * each:
        talking = f" with conversations of {each} turns" if each > 1 else ""
        ledger.add(
            (*key, "block", "requests"),
            f"{requests} requests can never keep {slots} at a time busy{talking}",
            f"measure at least {slots * each} requests a block; {4 * slots * each} or more show the steady state",
        )
    ramp, seconds = _duration(load.get("ramp")), _duration(inner.get("seconds"))
    if ramp is not None and seconds is not None and ramp >= seconds:
        ledger.add((*key, "load", "ramp"), "is as long as the block, of which nothing is left", "a longer block")


def _duration(value: Any) -> float | None:
    try:
        return None if value is None else values.duration(value)
    except ValueError:
        return None  # reported with the key itself


def _shares(prompts: Mapping[str, Any]) -> bool:
    return bool(prompts.get("shared_prefix")) or prompts.get("turns", 1) > 1 or prompts.get("source") == "mooncake"


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """The value as a list; empty for nothing."""
    return value if isinstance(value, list) else [] if value is None else [value]


def is_count(value: Any) -> bool:
    """Whether a value is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
