"""The plan as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..compare.view_method import margins_text
from ..measure.pilot import searches
from ..metrics import METRICS
from ..model import Cell, Experiment
from ..units import change
from .foretell import Forecast
from .quality_size import quality_lines
from .searching import search_lines
from .sensitivity import Sensitivity


def plan_text(experiment: Experiment, forecast: Forecast) -> str:
    """Lines with a key of ten columns each."""
    starts = {0: "once", 1: "every round"}.get(experiment.start_every, f"every {experiment.start_every} rounds")
    lines = [
        f"{experiment.name}: {experiment.base.name} → {', '.join(v.name for v in experiment.candidates)}",
        f"rounds    {_rounds(experiment, forecast)}",
        f"starts    {starts}; {'all servers' if experiment.resident == 'all' else 'one server'} up at a time",
        f"cells     {', '.join(map(_cell, experiment.cells())) or 'found by the run itself'}",
        *search_lines(experiment),
        f"gates     {', '.join(experiment.gates)}; margin {margins_text(experiment)}",
        f"requests  {_requests(experiment, forecast)}; warm-up apart",
        "order     " + "\n          ".join(f"round {i + 1}: {row}" for i, row in enumerate(forecast.order)),
        f"time      {forecast.sentence}",
        *_sensitivity_lines(forecast.sensitivity),
        *quality_lines(experiment),
        *(f"! {warning}" for warning in forecast.warnings),
    ]
    return "\n".join(lines)


def _rounds(experiment: Experiment, forecast: Forecast) -> str:
    """How many, and what ends them."""
    (low, high), most = forecast.rounds, forecast.allowed
    asked = f"{low} to {high}" if low < high else f"{high}"
    span = f"{low} to {most}" if low < most else f"{most}"
    until = ", until every gate is decided" if low < most else ""
    if experiment.method == "fixed":
        until = ", one look at the end"
    if forecast.limited_by is None:
        return span + until
    return f"{span}, as many as {forecast.limited_by} allows (budget.pairs: {asked}){until}"


def _requests(experiment: Experiment, forecast: Forecast) -> str:
    if forecast.requests_per_round is not None:
        return f"{forecast.requests_per_round} a round"
    return "as many as the levels found ask for" if searches(experiment) else "as many as fit the time of a block"


def _cell(cell: Cell) -> str:
    """The cell's key, with a large level written out: ``chat/r1000000``."""
    return f"{cell.key.removesuffix(f'{cell.level:g}')}{cell.level:.10g}"


def _sensitivity_lines(found: Sequence[Sensitivity]) -> Iterator[str]:
    """A table: each gate's noise, and the changes that its pairs can show."""
    if not found:
        return
    rows = [("", "noise a pair", "tells from no change", "proves beyond margin", "proves equivalent", "noise from")]
    for one in found:
        label = METRICS[one.metric].label + (
            "" if one.statistic == METRICS[one.metric].statistics[0] else f" {one.statistic}"
        )
        needed = one.pairs_to_equivalence
        pairs = "not at all" if needed is None else f"from {needed} pair{'s' if needed != 1 else ''}"
        effects = [_effect(value) for value in (one.detectable, one.beyond_margin)]
        name = f"{one.cell} {label}" if one.cell else label
        rows.append((name, f"{one.noise * 100:.2g} %", *effects, pairs, one.source))  # type: ignore[arg-type]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    count = found[0].pairs
    yield f"shows     with {count} pair{'s' if count != 1 else ''}, 4 times in 5:"
    for row in rows:
        yield "          " + "   ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()


def _effect(value: float | None) -> str:
    return "not at all" if value is None else f"from {change(1 + value).lstrip('+')}"
