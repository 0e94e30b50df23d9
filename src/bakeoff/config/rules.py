"""What ties keys together. Works on the raw data, so that a wrong type in one place hides nothing in another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..metrics import METRICS
from . import values
from .places import Key, Ledger, nearest

# Servers of this engine run already: Bakeoff neither starts nor stops them.
RUNNING_ENGINE = "openai"
DEFAULT_GATES = ("ttft_s", "tpot_s")


def check_rules(data: Mapping[str, Any], where: Path, ledger: Ledger) -> None:
    """Notes every combination that cannot be measured or would not answer the question."""
    workloads = _mapping(data.get("workloads"))
    for name, workload in workloads.items():
        if isinstance(workload, Mapping):
            _check_workload(("workloads", name), workload, where, ledger)
        if name in METRICS:
            ledger.add(("workloads", name), "is the name of a metric, so gates could mean either", on_key=True)
    _check_starts(data, ledger)
    _check_gates(data, workloads, ledger)
    warmup = _mapping(data.get("warmup"))
    fewest, most = warmup.get("min_requests", 2), warmup.get("max_requests", 12)
    if _is_count(fewest) and _is_count(most) and fewest > most:
        ledger.add(("warmup",), f"min_requests ({fewest}) is above max_requests ({most})")


def all_running(data: Mapping[str, Any]) -> bool:
    """Whether every variant is a server that runs already."""
    variants = _mapping(data.get("variants"))
    return bool(variants) and all(_mapping(v).get("engine") == RUNNING_ENGINE for v in variants.values())


def prompts_source(prompts: Mapping[str, Any]) -> Any:
    """The source that is meant: a path alone means a file."""
    source = prompts.get("source")
    if source is None:
        return "jsonl" if prompts.get("path") is not None else "synthetic"
    return source


def absolute_path(path: str, where: Path) -> Path:
    """The absolute path of a file that an experiment in the folder `where` names."""
    # os.path: resolve() would follow links, and Path.expanduser() raises for an unknown user.
    return Path(os.path.abspath(where / os.path.expanduser(path)))


def _check_workload(key: Key, workload: Mapping[str, Any], where: Path, ledger: Ledger) -> None:
    prompts = workload.get("prompts")
    inner = _mapping(prompts)
    if isinstance(prompts, Mapping):
        _check_prompts((*key, "prompts"), prompts, where, ledger)
    if workload.get("output_tokens") is not None and inner.get("output_tokens") is not None:
        ledger.add((*key, "output_tokens"), "stands in `prompts` as well", "keep one of the two")
    elif workload.get("output_tokens") is None and inner.get("output_tokens") is None:
        ledger.add((*key, "output_tokens"), "is missing", "output_tokens: 64 (with length: natural it is the limit)")
    load, block = workload.get("load"), workload.get("block")
    if isinstance(load, Mapping):
        _check_load((*key, "load"), load, ledger)
    if isinstance(block, Mapping) and (block.get("requests") is None) == (block.get("seconds") is None):
        ledger.add((*key, "block"), "needs either requests or seconds", "block: {requests: 16}, or {seconds: 20}")
    requests: Any = _mapping(block).get("requests")
    slots: int = max(filter(_is_count, _as_list(_mapping(load).get("concurrency"))), default=0)
    if _is_count(requests) and requests < slots:
        ledger.add(
            (*key, "block", "requests"),
            f"{requests} requests can never keep {slots} at a time busy",
            f"measure at least {slots} requests a block; {4 * slots} or more show the steady state",
        )


def _check_prompts(key: Key, prompts: Mapping[str, Any], where: Path, ledger: Ledger) -> None:
    source, path = prompts_source(prompts), prompts.get("path")
    if source == "synthetic":
        if prompts.get("input_tokens") is None:
            ledger.add((*key, "input_tokens"), "is missing", "input_tokens: 256")
        if path is not None:
            ledger.add((*key, "path"), "is for source: jsonl; synthetic prompts are made", on_key=True)
    elif source == "jsonl":
        if prompts.get("input_tokens") is not None:
            ledger.add(
                (*key, "input_tokens"), "is for synthetic prompts; those of a file are as long as they are", on_key=True
            )
        if path is None:
            ledger.add((*key, "path"), "is missing", "path: prompts.jsonl")
        elif isinstance(path, str) and path and "${" not in path and not exists(absolute_path(path, where)):
            remedy = "check the path; a relative one counts from the experiment's folder"
            ledger.add((*key, "path"), f"there is no file {absolute_path(path, where)}", remedy)


def exists(path: Path) -> bool:
    """Whether there is such a file or folder (False for a name that none can have)."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _check_load(key: Key, load: Mapping[str, Any], ledger: Ledger) -> None:
    closed, open_ = load.get("concurrency"), load.get("rate")
    misspelt = closed is None and open_ is None and any(nearest(name, ("concurrency", "rate")) for name in load)
    if (closed is None) == (open_ is None) and not misspelt:
        problem = "needs concurrency or rate" if closed is None else "has both concurrency and rate"
        ledger.add(key, problem, "write {concurrency: [1, 4]} or {rate: [2, 4]}; use two workloads for both")
    if closed is not None and open_ is None and load.get("arrivals") is not None:
        ledger.add((*key, "arrivals"), "is for a rate: in a closed loop, answers set the pace", on_key=True)
    for name, levels in (("concurrency", closed), ("rate", open_)):
        seen: list[Any] = []
        for level in _as_list(levels):
            if level in seen:
                ledger.add((*key, name), f"names the level {level:g} twice", "name each level once")
            elif isinstance(level, int | float):
                seen.append(level)


def _check_starts(data: Mapping[str, Any], ledger: Ledger) -> None:
    try:
        rounds = values.starts(data["starts"]) if "starts" in data else None
    except ValueError:
        return  # reported with the key itself
    resident = data.get("resident")
    if all_running(data):
        reason = "every variant is a server that runs already (engine openai): Bakeoff does not start or stop it"
        if rounds:
            ledger.add(("starts",), reason, "leave `starts` out, or use engine `command` so that Bakeoff starts them")
        if resident == "one":
            ledger.add(("resident",), reason, "leave `resident` out: such servers are all up at the same time")
    elif rounds == 0 and resident in (None, "one") and len(_mapping(data.get("variants"))) > 1:
        ledger.add(
            ("starts",),
            "`once` cannot be with one resident variant at a time: taking turns needs a start for each round",
            "write resident: all (if memory and cores suffice for all at once), or starts: every round",
        )


def _check_gates(data: Mapping[str, Any], workloads: Mapping[str, Any], ledger: Ledger) -> None:
    given = data.get("gates")
    gates = given if isinstance(given, list) else [] if given is not None else list(DEFAULT_GATES)
    seen: list[values.Gate] = []
    for place, text in enumerate(gates):
        key = ("gates", str(place)) if given is not None else ("gates",)
        if not isinstance(text, str):
            continue  # reported by its type
        try:
            gate = values.gate(text, list(workloads))
        except ValueError as error:
            ledger.add(key, str(error), f"metrics: {', '.join(METRICS)}" if "no metric" in str(error) else "")
            continue
        gate = gate._replace(statistic=gate.statistic or METRICS[gate.metric].statistics[0])
        if any(_overlap(gate, other) for other in seen):
            ledger.add(key, "asks again what a gate before it asks", "each gate costs width: name it once")
        seen.append(gate)
        _check_gate(key, gate, data, workloads, ledger)


def _overlap(one: values.Gate, other: values.Gate) -> bool:
    same = one.metric == other.metric and one.statistic == other.statistic
    return same and (one.workload == other.workload or None in (one.workload, other.workload))


def _check_throughput(key: Key, metric: str, workloads: Mapping[str, Mapping[str, Any]], ledger: Ledger) -> None:
    for name, workload in workloads.items():
        if metric == "goodput_rps":
            if not workload.get("slo"):
                ledger.add(key, f"goodput of {name} needs limits", f"set workloads.{name}.slo: {{ttft_s: 0.5}}")
        elif _mapping(workload.get("load")).get("rate") is not None:
            ledger.add(
                key,
                f"{metric} of {name} says nothing about the variants: below saturation an open loop returns the rate "
                "that was offered",
                "gate on ttft_s, tpot_s or e2e_latency_s, or use a closed loop (concurrency)",
            )


def _check_gate(
    key: Key, gate: values.Gate, data: Mapping[str, Any], workloads: Mapping[str, Any], ledger: Ledger
) -> None:
    metric = METRICS[gate.metric]
    touched = [name for name in workloads if gate.workload in (None, name)]
    if metric.scope == "start":
        if gate.workload is not None:
            ledger.add(key, f"{metric.name} belongs to a start, not to a workload", f"write {metric.name} alone")
        if all_running(data) or data.get("starts") == "once":
            ledger.add(
                key, f"{metric.name} needs a fresh start in each round, and there is none", "starts: every round"
            )
    if metric.kind == "throughput":
        _check_throughput(key, metric.name, {name: _mapping(workloads[name]) for name in touched}, ledger)
    if metric.name in ("tpot_s", "itl_s"):
        for name in touched:
            if _output_tokens(_mapping(workloads[name])) == 1:
                ledger.add(
                    key,
                    f"{metric.name} of {name} is undefined: its answers are one token long",
                    "gates: [ttft_s], or more output_tokens",
                )


def _output_tokens(workload: Mapping[str, Any]) -> Any:
    own = workload.get("output_tokens")
    return own if own is not None else _mapping(workload.get("prompts")).get("output_tokens")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
