"""Where one candidate stands against the base, cell by cell, by its gates alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..compare.view_text import not_inferior
from ..metrics import METRICS
from ..model import Cell, Comparison, Experiment
from ..stats.outcome import DECIDED

Side = Literal["candidate", "base", "same", "open", "invalid"]
_GOOD, _BAD = ("faster", "better"), ("slower", "worse")


@dataclass(frozen=True, kw_only=True)
class CellStanding:
    """Who wins a cell. `by_task`: gates disagree, and the typical task (E2E) decided."""

    cell: Cell | None  # None: gates per server start
    side: Side
    gates: tuple[Comparison, ...]
    e2e: Comparison | None = None
    by_task: bool = False


@dataclass(frozen=True, kw_only=True)
class Standing:
    """All cells of one candidate."""

    candidate: str
    cells: tuple[CellStanding, ...]
    refused: str | None = None  # why it is never shipped

    @property
    def gates(self) -> tuple[Comparison, ...]:
        return tuple(row for cell in self.cells for row in cell.gates)

    def has(self, side: Side) -> bool:
        return any(cell.side == side for cell in self.cells)

    @property
    def acceptable(self) -> bool:
        """Proven somewhere faster and nowhere slower by more than the margin, and not refused."""
        gates = self.gates
        return self.refused is None and all(map(not_inferior, gates)) and any(row.outcome in _GOOD for row in gates)

    @property
    def task_ratio(self) -> float:
        """Geometric mean over cells of the E2E ratio (of the gates' times where E2E is not there or invalid)."""
        logs = []
        for cell in self.cells:
            rows = [cell.e2e] if cell.e2e is not None and cell.e2e.outcome != "invalid" else list(cell.gates)
            known = [_cost(row) for row in rows if cell.cell is not None and row.ratio.point]
            logs += [sum(known) / len(known)] if known else []
        return math.exp(sum(logs) / len(logs)) if logs else 1.0


def standing_of(
    experiment: Experiment, comparisons: Sequence[Comparison], candidate: str, refused: str | None
) -> Standing:
    """A candidate's standing in every cell that has gates."""
    rows = [row for row in comparisons if row.candidate == candidate]
    cells = []
    for cell in (*experiment.cells(), None):
        mine = [row for row in rows if _in(row, cell)]
        gates = tuple(row for row in mine if row.gate)
        if gates:
            e2e = next((row for row in mine if (row.metric, row.statistic) == ("e2e_latency_s", "p50")), None)
            side, by_task = _side(gates, e2e)
            cells.append(CellStanding(cell=cell, side=side, gates=gates, e2e=e2e, by_task=by_task))
    return Standing(candidate=candidate, cells=tuple(cells), refused=refused)


def _side(gates: Sequence[Comparison], e2e: Comparison | None) -> tuple[Side, bool]:
    outcomes = {row.outcome for row in gates}
    if "invalid" in outcomes:
        return "invalid", False
    if bool(outcomes & set(_GOOD)) and all(map(not_inferior, gates)):
        return "candidate", False
    if not outcomes <= DECIDED:
        return "open", False
    good, bad = bool(outcomes & set(_GOOD)), bool(outcomes & set(_BAD))
    if good and bad:
        # One metric against another: the whole typical task holds both, each with its weight.
        if e2e is None or e2e.outcome not in DECIDED:
            return "open", True
        return ("candidate" if e2e.outcome in _GOOD else "base" if e2e.outcome in _BAD else "same"), True
    return ("candidate" if good else "base" if bad else "same"), False


def _in(row: Comparison, cell: Cell | None) -> bool:
    if cell is None:
        return row.workload is None
    return row.workload == cell.workload and row.load == cell.load


def _cost(row: Comparison) -> float:
    """Log ratio, turned so that less is better."""
    logs = math.log(row.ratio.point or 1.0)
    return logs if METRICS[row.metric].better == "lower" else -logs
