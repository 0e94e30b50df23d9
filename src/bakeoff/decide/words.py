"""The sentences of a decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..compare.view_redact import Cleaner
from ..compare.view_text import cell_title, metric_label, more_pairs
from ..model import Cell, Comparison, Experiment
from ..stats.outcome import DECIDED
from ..units import change
from .standing import CellStanding

_PLAIN = Cleaner(redact=False, hosts=())


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


def missing(experiment: Experiment, name: str, cells: Sequence[CellStanding]) -> str:
    """What an undecided candidate still needs."""
    parts = []
    for standing in cells:
        rows = [row for row in standing.gates if row.outcome not in DECIDED]
        lead = ""
        if standing.by_task:
            lead = f"{numbers(standing.gates)} disagree, and the typical task does not decide: "
            rows = [standing.e2e] if standing.e2e is not None else []
        most = max((row for row in rows if row.pairs_needed), key=lambda row: row.pairs_needed or 0, default=None)
        more = f", {more_pairs(most.pairs_needed or 0, most.seconds_needed)}" if most is not None else ""
        told = f"{numbers(rows)} ({_outcomes(rows)}{more})" if rows else "E2E is not known"
        parts.append(f"{lead}{told} in {place(experiment, standing.cell)}")
    return f"{name} is undecided: {'; '.join(parts)}"


def _outcomes(rows: Sequence[Comparison]) -> str:
    return ", ".join(dict.fromkeys(row.outcome for row in rows))
