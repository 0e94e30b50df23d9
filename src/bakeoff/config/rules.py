"""What ties keys together. Works on the raw data, so that a wrong type in one place hides nothing in another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..metrics import METRICS
from . import values
from .places import Key, Ledger, did_you_mean
from .quality import check_quality
from .searching import has_limits, is_open_search
from .traffic import as_mapping, check_workload, is_count

# Servers of this engine run already: Bakeoff neither starts nor stops them.
RUNNING_ENGINE = "openai"
DEFAULT_GATES = ("ttft_s", "tpot_s")


def check_rules(data: Mapping[str, Any], where: Path, ledger: Ledger) -> None:
    """Notes every combination that cannot be measured or would not answer the question."""
    workloads = as_mapping(data.get("workloads"))
    for name, workload in workloads.items():
        if isinstance(workload, Mapping):
            check_workload(("workloads", name), workload, where, ledger)
        if name in METRICS:
            ledger.add(("workloads", name), "is the name of a metric, so gates could mean either", on_key=True)
    check_quality(data, where, ledger)
    _check_starts(data, ledger)
    _check_page_cache(data, ledger)
    _check_gates(data, workloads, ledger)
    for name in as_mapping(data.get("margins")):
        if name not in METRICS:
            message = f"is no metric{did_you_mean(str(name), METRICS)}"
            ledger.add(("margins", str(name)), message, f"metrics: {', '.join(METRICS)}", on_key=True)
    warmup = as_mapping(data.get("warmup"))
    fewest, most = warmup.get("min_requests", 2), warmup.get("max_requests", 12)
    if is_count(fewest) and is_count(most) and fewest > most:
        ledger.add(("warmup",), f"min_requests ({fewest}) is above max_requests ({most})")


def all_running(data: Mapping[str, Any]) -> bool:
    """Whether every variant is a server that runs already."""
    variants = as_mapping(data.get("variants"))
    return bool(variants) and all(as_mapping(v).get("engine") == RUNNING_ENGINE for v in variants.values())


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
    elif rounds == 0 and resident in (None, "one") and len(as_mapping(data.get("variants"))) > 1:
        ledger.add(
            ("starts",),
            "`once` cannot be with one resident variant at a time: taking turns needs a start for each round",
            "write resident: all (if memory and cores suffice for all at once), or starts: every round",
        )


def _check_page_cache(data: Mapping[str, Any], ledger: Ledger) -> None:
    """Only an engine that knows its model file can settle it in the page cache before a start."""
    wanted = data.get("page_cache", "as found")
    if wanted not in ("warm", "cold", "alternate"):
        return
    engines = {as_mapping(v).get("engine") for v in as_mapping(data.get("variants")).values()}
    if "llamacpp" not in engines:
        ledger.add(("page_cache",), "no variant's model files are known here", "leave it out, or use engine llamacpp")
    if wanted == "alternate" and data.get("starts") == "once":
        ledger.add(("page_cache",), "one start cannot alternate", "starts: every round, or page_cache: cold")


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
            if not has_limits(workload):
                ledger.add(key, f"goodput of {name} needs limits", f"set workloads.{name}.slo: {{ttft_s: 0.5}}")
        elif is_open_search(workload.get("load")) or any(
            as_mapping(workload.get("load")).get(name) is not None for name in ("rate", "replay")
        ):
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
        _check_throughput(key, metric.name, {name: as_mapping(workloads[name]) for name in touched}, ledger)
    if metric.name == "task_time_s":
        for name in touched:
            if as_mapping(workloads[name]).get("length", "fixed") == "fixed":
                message = f"answers of {name} are as long as they are told, so that its requests are no tasks"
                ledger.add(key, message, "set `length: natural`, or gate on e2e_latency_s")
    if metric.name in ("tpot_s", "itl_s"):
        for name in touched:
            if _output_tokens(as_mapping(workloads[name])) == 1:
                ledger.add(
                    key,
                    f"{metric.name} of {name} is undefined: its answers are one token long",
                    "gates: [ttft_s], or more output_tokens",
                )


def _output_tokens(workload: Mapping[str, Any]) -> Any:
    own = workload.get("output_tokens")
    return own if own is not None else as_mapping(workload.get("prompts")).get("output_tokens")
