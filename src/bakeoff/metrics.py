"""The metric table: name, unit, direction, kind and formula of everything that is compared.

Formulas are those of the load-testing field with two deliberate choices: latency counts from the *scheduled*
time (so that a late client cannot flatter a server), and tokens are the server's `usage`, never chunks.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .model import Better

Kind = Literal["latency", "throughput", "start", "memory", "price"]


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric. `scope`: measured per request, per block, or per server start."""

    name: str
    label: str  # as the terminal shows it
    unit: str
    better: Better
    kind: Kind
    scope: Literal["request", "block", "start"]
    statistics: tuple[str, ...]  # reported statistics; the first is the one that gates
    formula: str
    needs_equal_tokens: bool = False  # unequal output lengths make it incomparable when the length was fixed

    @property
    def time_like(self) -> bool:
        """Time-like metrics are faster/slower; others better/worse."""
        return self.kind in ("latency", "throughput", "start")


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            name="ttft_s",
            label="TTFT",
            unit="s",
            better="lower",
            kind="latency",
            scope="request",
            statistics=("p50", "mean", "p95", "p99"),
            formula="first chunk with generated content − scheduled time",
        ),
        Metric(
            name="ttfo_s",
            label="TTFO",
            unit="s",
            better="lower",
            kind="latency",
            scope="request",
            statistics=("p50",),
            formula="first chunk with non-reasoning content − scheduled time",
        ),
        Metric(
            name="tpot_s",
            label="TPOT",
            unit="s",
            better="lower",
            kind="latency",
            scope="request",
            statistics=("p50", "mean", "p95", "p99"),
            formula="(E2E − TTFT) ÷ (output tokens − 1); undefined for one token",
        ),
        Metric(
            name="itl_s",
            label="ITL",
            unit="s",
            better="lower",
            kind="latency",
            scope="request",
            statistics=("p50", "p95", "p99"),
            formula="gap between consecutive content chunks ÷ tokens of the later chunk; coalesced gaps left out",
        ),
        Metric(
            name="e2e_latency_s",
            label="E2E",
            unit="s",
            better="lower",
            kind="latency",
            scope="request",
            statistics=("p50", "mean", "p95", "p99"),
            formula="last chunk with content − scheduled time",
            needs_equal_tokens=True,
        ),
        Metric(
            name="task_time_s",
            label="Task time",
            unit="s",
            better="lower",
            kind="latency",
            scope="block",
            statistics=("mean",),
            formula="Σ over the calls of a task (last chunk with content − scheduled); a task is a conversation, or a "
            "request; pauses between calls are the user's",
        ),
        Metric(
            name="request_throughput_rps",
            label="Requests/s",
            unit="1/s",
            better="higher",
            kind="throughput",
            scope="block",
            statistics=("total",),
            formula="answers that arrived in the steady window (one in part by its share) ÷ its length",
            needs_equal_tokens=True,
        ),
        Metric(
            name="token_throughput_tps",
            label="Tokens/s",
            unit="token/s",
            better="higher",
            kind="throughput",
            scope="block",
            statistics=("total",),
            formula="output tokens that arrived in the steady window ÷ its length",
            needs_equal_tokens=True,
        ),
        Metric(
            name="goodput_rps",
            label="Goodput",
            unit="1/s",
            better="higher",
            kind="throughput",
            scope="block",
            statistics=("total",),
            formula="answers that met every limit of the workload's `slo`, arrived in the steady window ÷ its length",
        ),
        Metric(
            name="cost_per_request",
            label="Cost/request",
            unit="currency",
            better="lower",
            kind="price",
            scope="block",
            statistics=("mean",),
            formula="Σ (input and output tokens × the declared price) ÷ completed requests, plus the price of an hour "
            "÷ completed requests in an hour",
        ),
        Metric(
            name="energy_per_token_j",
            label="Energy/token",
            unit="J",
            better="lower",
            kind="price",
            scope="block",
            statistics=("mean",),
            formula="∫ power dt over the steady window ÷ output tokens that arrived in it (measured, gross)",
        ),
        Metric(
            name="cold_start_s",
            label="Start-up",
            unit="s",
            better="lower",
            kind="start",
            scope="start",
            statistics=("mean",),
            formula="spawn → ready, plus the time to the first token of a first short request",
        ),
        Metric(
            name="ready_s",
            label="Ready",
            unit="s",
            better="lower",
            kind="start",
            scope="start",
            statistics=("mean",),
            formula="spawn → readiness probe answers (model loaded)",
        ),
        Metric(
            name="peak_memory_bytes",
            label="Private memory",
            unit="B",
            better="lower",
            kind="memory",
            scope="start",
            statistics=("peak",),
            formula="peak over the start of anonymous memory of the whole process tree (mapped model files apart)",
        ),
        Metric(
            name="peak_mapped_bytes",
            label="Mapped files",
            unit="B",
            better="lower",
            kind="memory",
            scope="start",
            statistics=("peak",),
            formula="peak resident file-backed pages of the process tree; shared mappings counted in full",
        ),
        Metric(
            name="peak_gpu_bytes",
            label="GPU memory",
            unit="B",
            better="lower",
            kind="memory",
            scope="start",
            statistics=("peak",),
            formula="peak device memory of the process tree (NVML)",
        ),
    )
}
