"""Nsight Systems: the SQLite export (``nsys export --type sqlite``), schemas 2.9.1 to 3.25 and forgiving beyond.

Tables and columns are found by name, in their newest form, and may be absent. A launch and what it launched share
(process, correlation id). The tables with the environment, the command line and the program's output are never read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .assemble import assemble
from .limits import Limits, TraceError
from .nsys_gpu import device_facts, gpu_columns, wait_columns
from .nsys_host import host_columns, threads_of
from .nsys_names import Names
from .nsys_tables import MAGIC, Tables, open_tables

if TYPE_CHECKING:
    from .timeline import Timeline

_EVENTS = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_DRIVER",
    "NVTX_EVENTS",
    "OSRT_API",
)
_SHOWN = 40


class NsysReader:
    """Reads an exported SQLite file; the ``.nsys-rep`` itself is a closed format."""

    name = "nsys"

    def recognises(self, head: bytes, path: Path) -> bool:
        """Every SQLite database comes here: what is no profile is refused with a better reason than "unknown". But for
        those of ROCm's tools, which are profiles of another kind."""
        return head.startswith(MAGIC) and b"rocpd_" not in head

    def read(self, path: Path, limits: Limits) -> Timeline:
        """Raises TraceError when the database is damaged, no profile, or holds more events than the limits allow."""
        with open_tables(path) as tables:
            present = [table for table in _EVENTS if tables.name_of(table)]
            versions = _versions(tables)
            if not present and not versions:
                raise TraceError(
                    "this SQLite database is not a profile: it has none of the tables of Nsight Systems",
                    where=str(path),
                    remedy="export the report: nsys export --type sqlite FILE.nsys-rep",
                )
            _check_size(tables, limits)
            return _timeline(tables, limits, versions)


def _timeline(tables: Tables, limits: Limits, versions: dict[str, str]) -> Timeline:
    names = Names(tables, limits)
    losses: dict[str, int] = {}
    threads = threads_of(tables, names)
    gpu, graph_mode = gpu_columns(tables, names, losses)
    host = host_columns(tables, names, threads, losses)
    waits = wait_columns(tables, names, host, losses)
    notes = list(tables.notes)
    facts = {"schema": versions["schema"]} if "schema" in versions else {}
    if graph_mode:
        facts["graph trace"] = "whole graphs"
        notes.append(
            "CUDA graphs were traced as a whole (mode Graph): their kernels are not visible one by one; "
            "profile again with --cuda-graph-trace=node"
        )
    elif not (gpu["graph"] >= 0).any() and names.any_used("GraphLaunch"):
        notes.append("CUDA graphs were launched, but none of their kernels was recorded: use --cuda-graph-trace=node")
    return assemble(
        format="nsys",
        version=versions.get("product", ""),
        source=tables.path.name,
        base_ns=_session_start(tables),
        names=names.texts(),
        gpu=gpu,
        host=host,
        waits=waits,
        losses=losses,
        threads=tuple(threads.known),
        devices=device_facts(tables),
        notes=tuple(notes),
        facts=facts,
    )


def _versions(tables: Tables) -> dict[str, str]:
    """Product and schema version; no other line of the export's own description is looked at (it holds paths)."""
    found: dict[str, str] = {}
    wanted = {"EXPORT_PRODUCT_VERSION": "product", "EXPORT_SCHEMA_VERSION": "schema"}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        where = "name IN ('EXPORT_PRODUCT_VERSION', 'EXPORT_SCHEMA_VERSION')"
        if {"name", "value"} <= tables.columns(table):
            for batch in tables.rows(table, ("name", "value"), where):
                found |= {wanted[str(n)]: str(v)[:_SHOWN] for n, v in batch if n in wanted and v is not None}
    return found


def _check_size(tables: Tables, limits: Limits) -> None:
    total = sum(tables.count(table) for table in _EVENTS)
    if total > limits.events:
        raise TraceError(
            f"the profile holds {total} events, more than the {limits.events} that are read",
            where=str(tables.path),
            remedy="profile a shorter window (--duration, or a capture range)",
        )


def _session_start(tables: Tables) -> int:
    """Unix time of the session's zero [ns]; 0 when it is not known."""
    starts = tables.integers("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",), 0)["utcEpochNs"]
    return max(0, int(starts[0])) if len(starts) else 0


READER = NsysReader()
