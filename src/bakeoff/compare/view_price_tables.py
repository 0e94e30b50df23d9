"""Memory, start-up and energy as tables, break-evens as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import BreakEven, EnergyUse, Experiment, Interval, MemoryUse, StartUp
from ..units import quantity, seconds, size
from .task_words import signed_seconds
from .view_price_types import TableView
from .view_redact import Cleaner
from .view_text import cell_title, load_words


def memory_table(rows: Sequence[MemoryUse], clean: Cleaner) -> TableView | None:
    """None where nothing is known."""
    if not rows:
        return None
    names = list(dict.fromkeys(name for row in rows for name in row.parts))
    gpu = any(row.peak_gpu.point is not None for row in rows)
    heads = [
        "",
        "private, peak",
        "working",
        "mapped files",
        *(["GPU, peak", "working"] if gpu else []),
        *names,
        "growth",
    ]
    body = []
    notes = []
    for row in rows:
        device = [_size(row.peak_gpu), _size(row.steady_gpu)] if gpu else []
        parts = [size(row.parts[name]) if name in row.parts else "–" for name in names]
        grows = (
            "–" if row.growth_per_hour.point is None else ("! " if row.leak else "") + _per_hour(row.growth_per_hour)
        )
        body.append(
            (
                clean(row.variant, 60),
                _size(row.peak_private),
                _size(row.steady_private),
                _size(row.peak_mapped),
                *device,
                *parts,
                grows,
            )
        )
    if names:
        of = {"device": "the device's memory", "process": "private and mapped memory"}
        kinds = dict.fromkeys(of.get(row.parts_of or "", "") for row in rows if row.parts_of)
        notes.append(f"{', '.join(names)}: as the server's log tells them, of {' and '.join(kinds)}")
    return TableView(heads=tuple(heads), rows=tuple(body), notes=tuple(notes))


def _size(interval: Interval) -> str:
    return size(interval.point)


def _per_hour(interval: Interval) -> str:
    text = f"{'−' if (interval.point or 0) < 0 else '+'}{size(abs(interval.point or 0.0))}/h"
    beyond = interval.low is not None and interval.high is not None and not interval.low <= 0 <= interval.high
    return text if beyond else f"{text}, within noise"


def startup_table(rows: Sequence[StartUp], clean: Cleaner) -> TableView | None:
    """None for servers that nobody started."""
    if not rows:
        return None
    phases = list(dict.fromkeys(name for row in rows for name in row.phases))
    heads = ("", "page cache", "starts", *phases, "in all", "usual request", "first one pays")
    body = tuple(
        (
            clean(row.variant, 60),
            row.page_cache,
            str(row.starts),
            *(seconds(row.phases[name].point) if name in row.phases else "–" for name in phases),
            _with_bounds(row.total),
            seconds(row.typical_request.point),
            "–" if row.penalty.point is None else signed_seconds(row.penalty.point),
        )
        for row in rows
    )
    note = "the first request is a short one: what it pays is at least what a request of the workload would"
    return TableView(heads=heads, rows=body, notes=(note,))


def _with_bounds(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return seconds(interval.point)
    return f"{seconds(interval.point)} [{seconds(interval.low)}, {seconds(interval.high)}]"


def energy_table(rows: Sequence[EnergyUse], experiment: Experiment, clean: Cleaner) -> TableView | None:
    """Nothing where nothing is known: then there is no price to show."""
    if all(row.source == "unknown" for row in rows):
        return None
    cells = {(c.workload, tuple(c.load.items())): c for c in experiment.cells()}
    body = []
    for row in rows:
        cell = cells.get((row.workload, tuple(row.load.items())))
        where = cell_title(experiment.workload(cell.workload), cell, clean) if cell else clean(row.workload, 40)
        body.append(
            (
                clean(row.variant, 60),
                where,
                row.source,
                quantity(row.watts.point, "W"),
                quantity(row.idle_watts, "W"),
                quantity(row.gross_j.point, "J"),
                quantity(row.net_j.point, "J"),
                quantity(row.per_token_j.point, "J"),
            )
        )
    heads = ("", "where", "", "power", "idle", "a request", "above idle", "a token")
    notes = [f"{clean(r.variant, 60)}: {clean(r.reason, 200)}" for r in rows if r.source == "unknown" and r.reason]
    if any(row.source == "modelled" for row in rows):
        notes.append("modelled: declared watts, idle to busy by utilisation; no sensor was read")
    devices = dict.fromkeys(name for row in rows for name in row.devices)
    if devices:
        notes.append(f"measured: {', '.join(devices)} of the whole machine")
    return TableView(heads=heads, rows=tuple(body), notes=tuple(dict.fromkeys(notes)))


# ── break-evens ──────────────────────────────────────────────────────────────────────────────────────────────────────


def break_even_text(row: BreakEven, base: str, experiment: Experiment, clean: Cleaner) -> str:
    """``start-up: flash is ahead from 32 [28, 37] requests on``."""
    candidate, base = clean(row.candidate, 60), clean(base, 60)
    many = len(experiment.cells()) > 1
    load = ", ".join(load_words(kind, level) for kind, level in row.load.items())
    where = f" ({clean(row.workload or '', 40)}, {load})" if many else ""
    what = "start-up" if row.kind == "start-up" else "cost"
    if row.page_cache in ("cold", "warm"):
        what += f" from a {row.page_cache} page cache"
    who = f"{candidate} against {base}, " if len(experiment.candidates) > 1 else ""
    head = f"{who}{what}{where}: "
    unit = "requests" if row.kind == "start-up" else "requests an hour"
    if row.status == "at":
        ahead = candidate if row.candidate_after else base
        text = f"{ahead} is ahead from {_count(row.at)} {unit} on"
    elif row.status == "never":
        text = f"{candidate} is behind at any number of {unit}"
    elif row.status == "at once":
        text = f"{candidate} is ahead from the first request on"
    else:
        text = "not resolved"
    return head + text + (f"; {clean(row.reason, 200)}" if row.reason else "")


def _count(at: Interval) -> str:
    point = f"{at.point or 0:,.0f}"
    if at.low is None or at.high is None:
        return f"about {point}"
    if f"{at.low:,.0f}" == f"{at.high:,.0f}":
        return point
    return f"{point} [{at.low:,.0f}, {at.high:,.0f}]"
