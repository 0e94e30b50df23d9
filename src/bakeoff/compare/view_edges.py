"""How much load each arm bears, as reports say it: one sentence a candidate and workload."""

from __future__ import annotations

from ..metrics import METRICS
from ..model import Edge, Experiment, Interval, Ratio, Result
from ..units import change, rounded, seconds
from .view_redact import Cleaner
from .view_text import tone_and_sign
from .view_types import EdgeView


def edge_views(result: Result, experiment: Experiment, clean: Cleaner) -> tuple[EdgeView, ...]:
    """Every workload whose levels were searched."""
    return tuple(_view(result, experiment, edge, clean) for edge in result.edges)


def _view(result: Result, experiment: Experiment, edge: Edge, clean: Cleaner) -> EdgeView:
    tone, sign = tone_and_sign(edge.outcome)
    base, candidate = clean(result.base, 60), clean(edge.candidate, 60)
    verb = "holds" if edge.kind == "rate held" else "reaches"
    limits = _limits(experiment, edge)
    compared = f"{change(edge.ratio.point)} {_bounds(edge.ratio)}".rstrip()
    return EdgeView(
        title=f"{candidate} in {clean(edge.workload, 40)}",
        text=f"{clean(edge.workload, 40)}: {base} {verb} {_rate(edge.base)}, {candidate} {_rate(edge.value)} requests/s"
        f"{limits}: {compared} {sign} {edge.outcome}",
        reason=clean(edge.reason) if edge.reason else None,
        tone=tone,
    )


def _rate(value: Interval) -> str:
    """``8.1 [7.7, 8.5]``; a bound that is open is ``…``."""
    if value.point is None:
        return "–"
    if value.low is None and value.high is None:
        return rounded(value.point, 3)
    low, high = ("…" if bound is None else rounded(bound, 3) for bound in (value.low, value.high))
    return f"{rounded(value.point, 3)} [{low}, {high}]"


def _bounds(ratio: Ratio) -> str:
    if ratio.low is None and ratio.high is None:
        return ""
    low, high = ("…" if bound is None else change(bound, unit=False) for bound in (ratio.low, ratio.high))
    return f"[{low}, {high}]"


def _limits(experiment: Experiment, edge: Edge) -> str:
    if edge.attainment is None:
        return ""
    slo = experiment.workload(edge.workload).slo
    told = ", ".join(f"{METRICS[name].label} ≤ {seconds(limit)}" for name, limit in slo.items() if name in METRICS)
    return f" with {edge.attainment * 100:.4g} % of them within {told}"
