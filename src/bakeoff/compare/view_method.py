"""How a report says that its numbers came about, term by term."""

from __future__ import annotations

from collections.abc import Sequence

from ..metrics import METRICS
from ..model import Comparison, Experiment, Result
from ..units import change
from .view_redact import Cleaner
from .view_text import metric_label


def method_items(result: Result, experiment: Experiment, clean: Cleaner) -> tuple[tuple[str, str], ...]:
    """How the numbers came about, term by term."""
    rows = (*result.comparisons, *result.resources)
    gates = ", ".join(dict.fromkeys(clean(metric_label(c.metric, c.statistic), 60) for c in rows if c.gate))
    margin, level = margins_text(experiment), f"{experiment.confidence * 100:g} %"
    items = [
        (
            "Design",
            "Each round visits every variant once, in Williams order, so that slow changes of the machine fall on all "
            "arms alike. A pair is base and candidate in one cell of one round, on the same prompts.",
        ),
        (
            "Replicates",
            "Requests inside a block are correlated and never counted as independent. "
            + _starts_sentence(experiment.start_every),
        ),
        ("Gates", f"{gates or 'none'}. All other rows of cells and of starts are exploration, and are labelled so."),
        (
            "Outcomes",
            f"A row is faster or slower only if its whole {level} interval lies beyond the margin of {margin}; "
            f"equivalent if {_INSIDE[experiment.method]} inside; probably … if it excludes no change but straddles the "
            "margin; else inconclusive.",
        ),
        ("Stopping", clean(result.stop_reason or "") or "The run had not stopped when this report was written."),
    ]
    if experiment.aa_pairs:
        count = f"{experiment.aa_pairs} pair{'' if experiment.aa_pairs == 1 else 's'}"
        items.append(
            ("Bench check", f"{count} of base against base: a difference there is the bench's, not a variant's.")
        )
    for method in dict.fromkeys(c.method for c in rows if c.method):
        names = dict.fromkeys(metric_label(c.metric, c.statistic) for c in rows if c.method == method)
        items.append((", ".join(clean(n, 60) for n in names), clean(method)))
    known = dict.fromkeys(c.metric for c in rows if c.metric in METRICS)
    items.extend((f"{METRICS[name].label} is", METRICS[name].formula) for name in known)
    if shown := _sensitivity(rows, clean):
        items.append(("Sensitivity", f"The smallest change that these pairs could show: {shown}."))
    return tuple(items)


def _sensitivity(rows: Sequence[Comparison], clean: Cleaner) -> str:
    """``TTFT 1.2 to 3.0 %, Start-up 54 %``: by gate, over its cells and candidates."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.gate and row.minimum_detectable is not None:
            label = clean(metric_label(row.metric, row.statistic), 60)
            found.setdefault(label, []).append(row.minimum_detectable)
    told = []
    for label, values in found.items():
        low, high = (change(1 + value, unit=False).lstrip("+") for value in (min(values), max(values)))
        told.append(f"{label} {low} %" if low == high else f"{label} {low} to {high} %")
    return ", ".join(told)


_INSIDE = {"anytime": "it lies", "fixed": "that of two one-sided tests lies"}


def margins_text(experiment: Experiment) -> str:
    """``±3 % (TTFT ±5 %)``."""
    own = [
        f"{METRICS[name].label if name in METRICS else name} ±{margin * 100:g} %"
        for name, margin in experiment.margins.items()
    ]
    return f"±{experiment.margin * 100:g} %" + (f" ({', '.join(own)})" if own else "")


def _starts_sentence(every: int) -> str:
    if every == 0:
        return "The servers are kept from round to round, so the result holds for these starts only."
    if every == 1:
        return "Every variant is started afresh in every round."
    return f"Rounds in groups of {every} share one start per variant, and count as one replicate."
