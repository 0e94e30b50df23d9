"""What a difference says in words: the cause in one sentence, and what a reader must know beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .diff_types import Band, Pieces, Row, Unit
from .words import ENDS_EARLY, counted

if TYPE_CHECKING:
    from .diff_align import Plan
    from .timeline import Timeline

HOST = "host: "
NO_CAUSE = "none can be named: the windows are not aligned, and may hold different work"
_PER: dict[Unit, str] = {"trace": "", "step": " per step", "token": " per token"}


def amount(ms: float, unit: Unit = "trace") -> str:
    """``−207.7 ms``, ``+3.4 µs per token``: signed, three to four digits."""
    size = abs(ms)
    value, name = (ms, "ms") if size >= 0.1 or size == 0 else (ms * 1e3, "µs")
    digits = 1 if abs(value) >= 10 else 2
    return f"{value:+,.{digits}f} {name}".replace("-", "−") + _PER[unit]


def cause_of(gap: float, rows: Sequence[Row], sums: dict[str, float], band: Band | None, unit: Unit) -> str:
    """The largest single contribution in the gap's direction (the host's idle time counts as one, with its activity),
    and a word of caution where repeats scatter by as much as the gap."""
    if gap == 0 or not rows:
        return "there is no gap"
    told = _largest(gap, rows, sums, unit)
    if band is not None and band.holds_zero:
        return f"the gap of {amount(gap, unit)} is within the noise ({band.basis}); its largest part is {told}"
    return told


def _largest(gap: float, rows: Sequence[Row], sums: dict[str, float], unit: Unit) -> str:
    sign = 1 if gap > 0 else -1
    rest = [row for row in rows if not row.name.startswith(HOST) and row.ms * sign > 0]
    host = sums.get("host idle", 0.0)
    best = max(rest, key=lambda row: abs(row.ms), default=None)
    if host * sign > 0 and (best is None or abs(host) >= abs(best.ms)):
        return _host_cause(gap, host, rows, sign, unit)
    if best is None:
        return "the traces do not tell: it lies in the residual"
    alone = ""
    if not best.base.events or not best.candidate.events:
        alone = f"; none of it in {'base' if not best.base.events else 'candidate'}"
    return (
        f"{best.name if best.kind == 'busy' else best.label}{_example(best, sign)}: {amount(best.ms, unit)}, "
        f"{percent(best.ms / gap)} of the gap{alone}"
    )


def percent(share: float) -> str:
    """``107 %``."""
    return f"{share * 100:.0f} %".replace("-", "−")


def _host_cause(gap: float, host: float, rows: Sequence[Row], sign: int, unit: Unit) -> str:
    parts = [row for row in rows if row.name.startswith(HOST) and row.ms * sign > 0]
    top = max(parts, key=lambda row: abs(row.ms))
    what = top.name.removeprefix(HOST)
    return (
        f"the host: {amount(host, unit)} of the GPU waiting for it, {percent(host / gap)} of the gap; "
        f"{amount(top.ms, unit)} of that {'while it did' if what != 'unknown' else 'doing what is'} {what}"
        f"{_example(top, sign)}"
    )


def _example(row: Row, sign: int) -> str:
    """The name that most of the difference went to, from the side that has more."""
    examples = [e for e in (row.candidate if sign > 0 else row.base).examples if e.name != row.name]
    return f" ({examples[0].name[:90]})" if examples else ""


def notes_of(
    sides: tuple[list[Timeline], list[Timeline]], laid: Plan, pieces: tuple[list[list[Pieces]], ...]
) -> tuple[str, ...]:
    """What a reader must know to trust the numbers."""
    notes = []
    formats = {t.format for side in sides for t in side}
    if len(formats) > 1:
        notes.append(f"the traces come from different tools ({', '.join(sorted(formats))}): small gaps between their "
                     "clocks and overheads are theirs")  # fmt: skip
    if laid.mode == "gpu" and not laid.causes:
        silent = sorted({t.source for side in sides for t in side if not (t.gpu.launch >= 0).any()})
        notes.append(f"idle time is not split by cause: {', '.join(silent)} records no launch calls")
    devices = [sorted({len(trace) for trace in side}) for side in pieces]
    if laid.mode == "gpu" and (devices[0] != devices[1] or max(map(max, devices)) > 1):
        notes.append(f"devices: {_several(devices[0])} in base, {_several(devices[1])} in candidate; "
                     "times are means over the devices of a trace")  # fmt: skip
    if laid.ranks:
        notes.append("the traces of a side are ranks of one job: means over ranks, and no noise band (ranks are not "
                     "repeats)")  # fmt: skip
    ranks = [{t.rank for t in side if t.rank is not None} for side in sides]
    if ranks[0] and ranks[1] and ranks[0] != ranks[1]:
        notes.append("the two sides hold different ranks: what they differ in may be an imbalance between ranks")
    if not laid.aligned and laid.mode == "gpu":
        counts = [sum(len(t.gpu) for t in side) / len(side) for side in sides]
        if max(counts) > 1.1 * min(counts):
            notes.append(f"the windows may hold different work: {counts[0]:,.0f} GPU events against {counts[1]:,.0f}")
    if laid.mode == "compile":
        breaks = [sum(c.kind == "graph break" for t in side for c in t.compiles) for side in sides]
        again = [sum(c.kind == "recompile" for t in side for c in t.compiles) for side in sides]
        notes.append(f"recompilations {again[0]} → {again[1]}, graph breaks {breaks[0]} → {breaks[1]}")
    for name, side in zip(("base", "candidate"), sides, strict=True):
        lost = sum(t.lost_events for t in side)
        if lost:
            notes.append(f"{name}: {counted(lost, 'event')} could not be read, missing here")
        if any(ENDS_EARLY in t.notes for t in side):
            notes.append(f"{name}: {ENDS_EARLY}")
    return tuple(notes)


def _several(counts: list[int]) -> str:
    return " or ".join(str(count) for count in counts)
