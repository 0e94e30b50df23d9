"""Which rows a result has: every candidate × cell × metric × statistic, and which of them gate."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import UsageError
from ..metrics import METRICS, Metric
from ..model import Cell, Experiment


class Target(NamedTuple):
    """One row to estimate. `cell` is None for what is measured per server start."""

    candidate: str
    cell: Cell | None
    metric: Metric
    statistic: str
    gate: bool


class Gate(NamedTuple):
    """A gate as the experiment names it: ``ttft_s``, ``ttft_s.p99``, ``chat.ttft_s`` or ``chat.ttft_s.p99``."""

    workload: str | None
    metric: Metric
    statistic: str


def parse_gate(text: str) -> Gate:
    """Raises UsageError for an unknown metric or statistic. A workload's name may contain dots."""
    parts = text.strip().split(".")
    place = next((i for i in (len(parts) - 1, len(parts) - 2) if i >= 0 and parts[i] in METRICS), None)
    if place is None:
        raise UsageError(f"gate {text!r} names no known metric", remedy="one of: " + ", ".join(METRICS))
    metric = METRICS[parts[place]]
    statistic = parts[place + 1] if place + 1 < len(parts) else metric.statistics[0]
    if statistic not in metric.statistics:
        raise UsageError(
            f"{metric.name} has no statistic {statistic!r}", remedy="one of: " + ", ".join(metric.statistics)
        )
    return Gate(".".join(parts[:place]) or None, metric, statistic)


def all_targets(experiment: Experiment) -> tuple[Target, ...]:
    """Every row in the order of a report: by candidate and cell, gates first; then what is per start."""
    gates = [parse_gate(text) for text in experiment.gates]
    found: list[Target] = []
    for candidate in experiment.candidates:
        for cell in experiment.cells():
            rows = [
                Target(candidate.name, cell, metric, statistic, _is_gate(gates, cell.workload, metric, statistic))
                for metric in METRICS.values()
                if metric.scope != "start" and _defined(experiment, cell, metric)
                for statistic in metric.statistics
            ]
            found += sorted(rows, key=lambda row: not row.gate)
    for candidate in experiment.candidates:
        found += [
            Target(candidate.name, None, metric, statistic, _is_gate(gates, None, metric, statistic))
            for metric in METRICS.values()
            if metric.scope == "start"
            for statistic in metric.statistics
        ]
    return tuple(found)


def _is_gate(gates: list[Gate], workload: str | None, metric: Metric, statistic: str) -> bool:
    return any(
        g.metric.name == metric.name and g.statistic == statistic and g.workload in (None, workload) for g in gates
    )


def _defined(experiment: Experiment, cell: Cell, metric: Metric) -> bool:
    """With one output token there is no time per token: such a gate could never be decided.

    Goodput needs limits, and a cost needs a price that both arms declare.
    """
    if metric.name == "task_time_s":  # a fixed length is no task: both arms write what they are told
        return experiment.workload(cell.workload).length == "natural"
    if metric.name == "goodput_rps":
        return bool(experiment.workload(cell.workload).slo)
    if metric.name == "cost_per_request":
        prices = [variant.price for variant in experiment.variants]
        return all(p is not None and not p.free for p in prices) and len({p.currency for p in prices if p}) == 1
    return metric.name not in ("tpot_s", "itl_s") or experiment.workload(cell.workload).output_tokens > 1
