"""What the first visible output says beside the first token, where an arm thinks before it shows anything."""

from __future__ import annotations

from collections.abc import Sequence

from ..compare.view_first_output import FirstOutput, first_outputs
from ..model import Comparison, Experiment
from .words import number, place

_WORSE = frozenset({"slower", "probably slower"})
_BETTER = frozenset({"faster", "probably faster"})


def output_conditions(experiment: Experiment, candidate: str, comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """What shipping for the sake of TTFT costs: where that gates and is not worse, and what can be seen comes later."""
    late = [
        found
        for found in _told(comparisons, candidate)
        if any(row.outcome not in _WORSE for row in _gates(comparisons, found)) and found.output.outcome in _WORSE
    ]
    if not late:
        return ()
    rows = _rows(experiment, late)
    return (f"if a later first visible output does not matter ({_thinkers(experiment, candidate, late)}: {rows})",)


def output_reasons(experiment: Experiment, candidate: str, comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Where TTFT gates and the first visible output has another outcome."""
    other = [
        found
        for found in _told(comparisons, candidate)
        if any(row.outcome != found.output.outcome for row in _gates(comparisons, found))
    ]
    if not other:
        return ()
    who = _thinkers(experiment, candidate, other)
    return (f"{who}; first visible output of {candidate}: {_rows(experiment, other)}",)


def _told(comparisons: Sequence[Comparison], candidate: str) -> list[FirstOutput]:
    """Of this candidate, where TTFO does not decide by itself."""
    return [f for f in first_outputs(comparisons) if f.output.candidate == candidate and not f.output.gate]


def _gates(comparisons: Sequence[Comparison], found: FirstOutput) -> list[Comparison]:
    """The gates on TTFT in the same cell."""
    at = (found.token.candidate, found.token.metric, found.token.workload, found.token.load)
    return [row for row in comparisons if row.gate and (row.candidate, row.metric, row.workload, row.load) == at]


def _thinkers(experiment: Experiment, candidate: str, found: Sequence[FirstOutput]) -> str:
    """``flash thinks first``."""
    thinking = {
        experiment.base.name: any(f.base_thinks for f in found),
        candidate: any(f.candidate_thinks for f in found),
    }
    names = [name for name, thinks in thinking.items() if thinks]
    return f"{' and '.join(names)} {'thinks' if len(names) == 1 else 'think'} first"


def _rows(experiment: Experiment, found: Sequence[FirstOutput]) -> str:
    """``TTFO +39 % [+35, +43], slower``; with its cell where there are several."""
    several = len(experiment.cells()) > 1
    return "; ".join(
        f"{number(f.output)}, {f.output.outcome}" + (f", in {_where(experiment, f.output)}" if several else "")
        for f in found
    )


def _where(experiment: Experiment, row: Comparison) -> str:
    cells = (c for c in experiment.cells() if (c.workload, c.load) == (row.workload, row.load))
    cell = next(cells, None)
    return place(experiment, cell) if cell is not None else (row.workload or "server starts")
