"""The sentences of a decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..compare.view_redact import Cleaner
from ..compare.view_text import cell_title, metric_label, more_pairs
from ..model import Cell, Comparison, Experiment
from ..stats.outcome import DECIDED
from ..units import change
from .standing import CellStanding

_PLAIN = Cleaner(redact=False)


def place(experiment: Experiment, cell: Cell | None) -> str:
    """``chat 128/32, 1 at a time``, as the tables call it; or ``server starts``."""
    return "server starts" if cell is None else cell_title(experiment.workload(cell.workload), cell, _PLAIN)


def numbers(rows: Iterable[Comparison]) -> str:
    """``TTFT −21 % [−24, −18], TPOT −34 %``."""
    return ", ".join(number(row) for row in rows)


def number(row: Comparison) -> str:
    """``TTFT −21 % [−24, −18]``."""
    bounds = ""
    if row.ratio.low is not None and row.ratio.high is not None:
        bounds = f" [{change(row.ratio.low, unit=False)}, {change(row.ratio.high, unit=False)}]"
    return f"{metric_label(row.metric, row.statistic)} {change(row.ratio.point)}{bounds}"


def in_cell(experiment: Experiment, name: str, standing: CellStanding) -> str:
    """One cell's result as a sentence."""
    where = place(experiment, standing.cell)
    gates = numbers(standing.gates)
    if not standing.by_task:
        return f"{name} in {where}: {gates}"
    if standing.e2e is None:
        return f"{name} in {where}: {gates}; they disagree, and E2E is not known"
    word = {"candidate": "faster", "base": "slower", "same": "equivalent"}.get(standing.side, "not decided yet")
    return f"{name} in {where}: {gates}; they disagree, so the typical task decides: {number(standing.e2e)}, {word}"


def missing(experiment: Experiment, name: str, cells: Sequence[CellStanding]) -> tuple[str, ...]:
    """What an undecided candidate still needs: a sentence a cell, each gate with its own pairs."""
    told = []
    for standing in cells:
        rows = [row for row in standing.gates if row.outcome not in DECIDED]
        lead = ""
        if standing.by_task:
            lead = f"{numbers(standing.gates)} disagree, and the typical task does not decide: "
            rows = [standing.e2e] if standing.e2e is not None else []
        open_rows = "; ".join(map(_open, rows)) or "E2E is not known"
        told.append(f"{name} is undecided in {place(experiment, standing.cell)}: {lead}{open_rows}")
    return tuple(told)


def _open(row: Comparison) -> str:
    if row.ratio.point is None:
        return f"{metric_label(row.metric, row.statistic)} {row.outcome}{f', {row.reason}' if row.reason else ''}"
    more = f", {more_pairs(row.pairs_needed, row.seconds_needed)}" if row.pairs_needed else ""
    return f"{number(row)} {row.outcome}{more}"
