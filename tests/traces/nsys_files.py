"""Writes small Nsight Systems exports: the tables and columns of a given schema, with rows of the test's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PID, TID = 4242, 4243
GLOBAL_PID = PID << 24
GLOBAL_TID = GLOBAL_PID | TID
SECRET = "hf_planted_secret_0123456789"


@dataclass(kw_only=True)
class NsysFile:
    """Rows as (start, end, …) in ns."""

    kernels: Sequence[tuple[int, int, str, int]] = ()  # start, end, name, correlation
    copies: Sequence[tuple[int, int, int, int, int]] = ()  # start, end, kind, bytes, correlation
    memsets: Sequence[tuple[int, int, int]] = ()
    calls: Sequence[tuple[int, int, str, int]] = ()
    ranges: Sequence[tuple[int, int | None, str, int]] = ()  # start, end, text, event type
    waits: Sequence[tuple[int, int, int, int]] = ()  # start, end, sync type, correlation
    graphs: Sequence[tuple[int, int, int, int]] = ()  # start, end, graph, correlation
    graph_nodes: dict[int, int] = field(default_factory=dict)  # index of a kernel → its graph node
    suffix: str = ""  # "_V2": versioned table names
    old: bool = False  # schema 2.9.1: other metadata table, fewer columns
    device: int = 0


def write_nsys(path: Path, content: NsysFile) -> Path:
    """Writes the file and returns its path."""
    db = sqlite3.connect(path)
    strings: dict[str, int] = {}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings) + 1)

    meta = "EXPORT_META_DATA" if content.old else "META_DATA_EXPORT"
    db.execute(f"CREATE TABLE {meta} (name TEXT, value TEXT)")
    version = "2.9.1" if content.old else "3.25.0"
    rows = [("EXPORT_PRODUCT_VERSION", "2026.2.1"), ("EXPORT_SCHEMA_VERSION", version), ("EXPORT_USER", SECRET)]
    db.executemany(f"INSERT INTO {meta} VALUES (?, ?)", rows)  # noqa: S608 - a name of this file
    for table in ("TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE", "ProcessStreams"):
        db.execute(f"CREATE TABLE {table} (name TEXT, value TEXT)")
        db.execute(f"INSERT INTO {table} VALUES ('HF_TOKEN', ?)", (SECRET,))  # noqa: S608 - a name of this file
    db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    db.execute("CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER)")
    db.execute("INSERT INTO ThreadNames VALUES (?, 0, ?)", (text("main"), GLOBAL_TID))
    db.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT)")
    db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, 'x')")
    db.execute(
        "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, cuDevice INT, totalMemory INT, memoryBandwidth INT, "
        "smCount INT, clockRate INT, computeMajor INT, computeMinor INT)"
    )
    gpu = (0, "Test GPU", content.device, 80 << 30, 3_350_000_000_000, 132, 1_980_000_000, 9, 0)
    db.execute("INSERT INTO TARGET_INFO_GPU VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", gpu)
    _kernels(db, content, text)
    _others(db, content, text)
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, s) for s, i in strings.items()])
    db.commit()
    db.close()
    return path


_PLACE = "deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT"


def _kernels(db: sqlite3.Connection, content: NsysFile, text) -> None:  # type: ignore[no-untyped-def]  # a closure
    # A column in the middle that other versions lack: columns must be found by name.
    inserted = "" if content.old else "greenContextId INT, "
    graph = "" if content.old else ", graphId INT"
    name = f"CUPTI_ACTIVITY_KIND_KERNEL{content.suffix}"
    db.execute(
        f"CREATE TABLE {name} (start INT, end INT, {inserted}{_PLACE}, demangledName INT, shortName INT, "
        f"graphNodeId INT{graph})"
    )
    for index, (start, end, kernel, correlation) in enumerate(content.kernels):
        middle = () if content.old else (0,)
        place = (content.device, 1, 7, correlation, GLOBAL_PID)
        row = (start, end, *middle, *place, text(kernel), text(kernel.split("<")[0]), content.graph_nodes.get(index))
        row = row if content.old else (*row, 5 if index in content.graph_nodes else None)
        db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - names of this file


def _others(db: sqlite3.Connection, content: NsysFile, text) -> None:  # type: ignore[no-untyped-def]  # a closure
    db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, {_PLACE}, bytes INT, copyKind INT)")
    place = (content.device, 1, 7)
    for start, end, kind, size, correlation in content.copies:
        row = (start, end, *place, correlation, GLOBAL_PID, size, kind)
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT, end INT, {_PLACE}, bytes INT)")
    for start, end, size in content.memsets:
        zeros = (start, end, *place, 0, GLOBAL_PID, size)
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?, ?, ?, ?, ?, ?, ?, ?)", zeros)
    db.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, eventClass INT, globalTid INT, "
        "correlationId INT, nameId INT)"
    )
    for start, end, call, correlation in content.calls:
        made = (start, end, 0, GLOBAL_TID, correlation, text(call))
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?)", made)
    db.execute("CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT)")
    for number, (begin, until, label, kind) in enumerate(content.ranges):
        in_row = number % 2 == 0  # both ways of naming a range
        marked = (begin, until, kind, label if in_row else None, GLOBAL_TID, None if in_row else text(label))
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?)", marked)
    db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INT, end INT, {_PLACE}, syncType INT)")
    for start, end, kind, correlation in content.waits:
        waited = (start, end, *place, correlation, GLOBAL_PID, kind)
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (?, ?, ?, ?, ?, ?, ?, ?)", waited)
    if content.graphs:
        db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, {_PLACE}, graphId INT)")
        for start, end, number, correlation in content.graphs:
            whole = (start, end, *place, correlation, GLOBAL_PID, number)
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?, ?, ?, ?, ?, ?, ?, ?)", whole)
