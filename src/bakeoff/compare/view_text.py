"""Sentences of a report that follow from the experiment: title facts, cell titles, outcome words, method."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..metrics import METRICS
from ..model import BlockData, Cell, Comparison, Decision, Experiment, Result, Start, Workload
from ..units import change, quantity
from .replicates import replication
from .view_redact import Cleaner
from .view_types import ArmView, DecisionView, Row, Tone

_TONES: dict[str, tuple[Tone, str]] = {
    "faster": ("good", "✓"),
    "better": ("good", "✓"),
    "slower": ("bad", "✗"),
    "worse": ("bad", "✗"),
    "equivalent": ("equal", "="),
    "probably faster": ("unsure", "~"),
    "probably better": ("unsure", "~"),
    "probably slower": ("unsure", "~"),
    "probably worse": ("unsure", "~"),
    "inconclusive": ("unsure", "?"),
    "invalid": ("invalid", "!"),
}


def tone_and_sign(outcome: str) -> tuple[Tone, str]:
    """How an outcome is coloured, and the sign that says the same without colour."""
    return _TONES[outcome]


def metric_label(metric: str, statistic: str) -> str:
    """``TTFT`` for the statistic that gates, else ``TTFT p95``; an unknown metric keeps its name."""
    known = METRICS.get(metric)
    label = known.label if known else metric
    return label if known is None or statistic == known.statistics[0] else f"{label} {statistic}"


def cell_title(workload: Workload, cell: Cell, clean: Cleaner) -> str:
    """``chat 2048/32, 1 at a time``: input/output tokens, then the load."""
    prompts = workload.prompts
    size = str(prompts.input_tokens) if prompts.input_tokens is not None else clean(file_name(prompts.path or "?"), 30)
    limit = "≤" if workload.length == "natural" else ""
    answers = "recorded" if prompts.recorded_lengths else f"{limit}{workload.output_tokens}"
    load = load_words(*next(iter(cell.load.items())))
    if cell.kind == "open":
        load += f", {workload.load.arrivals} arrivals"
    return f"{clean(workload.name, 40)} {size}/{answers}, {load}"


def file_name(path: str) -> str:
    """The last part: a title says which prompts, not where they lie."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] or path


def load_words(kind: str, level: float) -> str:
    """``4 at a time``, ``2 requests/s``, ``replayed 2 times as fast``. kind: as in a row's `load`."""
    if kind == "concurrency":
        return f"{level:g} at a time"
    if kind == "rate":
        return f"{level:g} requests/s"
    return "replayed as recorded" if level == 1 else f"replayed {level:g} times as fast"


def cell_key(comparison: Comparison) -> str | None:
    """Cell.key of a comparison's workload and load; None for one that is per start."""
    if comparison.workload is None:
        return None
    for name, kind in (("concurrency", "c"), ("rate", "r"), ("replay", "x")):
        if name in comparison.load:
            return f"{comparison.workload}/{kind}{comparison.load[name]:g}"
    return comparison.workload


def row_of(comparison: Comparison, clean: Cleaner, *, primary: bool | None = None) -> Row:
    """A comparison as reports show it. primary: whether it belongs to the short form; None: as its metric does."""
    tone, sign = tone_and_sign(comparison.outcome)
    word: str = comparison.outcome
    if comparison.outcome == "equivalent" and comparison.detectable:
        word = f"equivalent, detectably {_direction(comparison)}"
    return Row(
        candidate=clean(comparison.candidate, 60),
        metric=comparison.metric,
        label=clean(metric_label(comparison.metric, comparison.statistic), 60),
        statistic=comparison.statistic,
        unit=comparison.unit,
        better=comparison.better,
        base=comparison.base,
        value=comparison.value,
        ratio=comparison.ratio,
        outcome=comparison.outcome,
        tone=tone,
        sign=sign,
        word=word,
        gate=comparison.gate,
        primary=_primary(comparison) if primary is None else primary,
        margin=comparison.margin,
        pairs=comparison.pairs,
        note=_note(comparison, clean),
        contradicts=contradicts(comparison) or withdrawn(comparison),
        minimum_detectable=comparison.minimum_detectable,
        method=clean(comparison.method, 300),
    )


def _words(comparison: Comparison) -> tuple[str, str]:
    """(good, bad) of a metric."""
    known = METRICS.get(comparison.metric)
    return ("faster", "slower") if known is None or known.time_like else ("better", "worse")


def _direction(comparison: Comparison) -> str:
    good, bad = _words(comparison)
    above = (comparison.ratio.point or 1.0) > 1
    return bad if above == (comparison.better == "lower") else good


def _primary(comparison: Comparison) -> bool:
    """Gates, the typical E2E, start-up, memory, and throughput only where it is not E2E said twice."""
    if comparison.gate or comparison.workload is None:
        return comparison.gate or comparison.metric != "ready_s"
    if comparison.metric == "e2e_latency_s":
        return comparison.statistic == "p50"
    # At one at a time throughput is 1 ÷ E2E, and below saturation an open loop returns the offered rate.
    return comparison.metric == "token_throughput_tps" and comparison.load.get("concurrency", 1) > 1


def _note(comparison: Comparison, clean: Cleaner) -> str | None:
    parts = []
    if comparison.reason:
        parts.append(clean(comparison.reason).rstrip("."))
    if comparison.outcome not in ("faster", "slower", "better", "worse", "equivalent", "invalid"):
        if not_inferior(comparison):
            parts.append(f"proven: not {_words(comparison)[1]} by more than the margin")
        if comparison.minimum_detectable is not None and not withdrawn(comparison):
            smallest = change(1 + comparison.minimum_detectable).lstrip("+")
            verb = "shows" if comparison.pairs == 1 else "show"
            parts.append(f"{_counted(comparison.pairs, 'pair')} {verb} changes from {smallest} on")
        if comparison.pairs_needed:
            parts.append(more_pairs(comparison.pairs_needed, comparison.seconds_needed))
    if contradicts(comparison):
        parts.append("the change is computed pair by pair, the columns are averages")
    return "; ".join(parts) or None


def not_inferior(row: Comparison) -> bool:
    """Whether the whole interval lies on the good side of the margin: proof that nothing that matters is lost.

    A gate may still be undecided between equivalent and faster; for shipping that makes no difference.
    """
    if row.outcome == "invalid":
        return False
    if row.outcome in ("faster", "better", "equivalent"):
        return True
    edge = 1 + row.margin
    if row.better == "lower":
        return row.ratio.high is not None and row.ratio.high <= edge
    return row.ratio.low is not None and row.ratio.low >= 1 / edge


def withdrawn(comparison: Comparison) -> bool:
    """An explored row whose interval excludes no change, and which yet claims nothing, for the number of such rows."""
    low, high = comparison.ratio.low, comparison.ratio.high
    sure = low is not None and high is not None and (low > 1 or high < 1)
    return not comparison.gate and comparison.outcome == "inconclusive" and sure


def contradicts(comparison: Comparison) -> bool:
    """Whether the two columns, as they are shown, say the other direction than the paired change."""
    base, value, unit = comparison.base.point, comparison.value.point, comparison.unit
    if not base or value is None or comparison.outcome == "invalid" or quantity(base, unit) == quantity(value, unit):
        return False
    return {change(value / base)[0], change(comparison.ratio.point)[0]} == {"+", "−"}


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _counted(count: int, noun: str) -> str:
    return f"{count} {_plural(count, noun)}"


def title_facts(
    result: Result,
    experiment: Experiment,
    arms: Sequence[ArmView],
    starts: Sequence[Start],
    blocks: Sequence[BlockData],
) -> tuple[str, ...]:
    """What all arms share, how many rounds, and what a replicate is."""
    facts = []
    models = {arm.model for arm in arms}
    if len(models) == 1 and (model := next(iter(models))):
        facts.append(model)
    engines = {arm.engine for arm in arms}
    if len(engines) == 1:
        facts.append(_ENGINES.get(arms[0].engine, arms[0].engine))
    if not result.rounds:
        facts.append("no round is complete yet" if result.state == "running" else "no round was completed")
        return tuple(facts)
    rounds = _counted(result.rounds, "round")
    facts.append(f"{rounds}, interleaved" if result.rounds > 1 else rounds)
    facts.append(_starts_fact(experiment, starts, blocks))
    return tuple(facts)


_ENGINES = {"llamacpp": "llama.cpp", "openai": "running servers"}


def _starts_fact(experiment: Experiment, starts: Sequence[Start], blocks: Sequence[BlockData]) -> str:
    if not blocks:
        return _planned(experiment)
    return replication(experiment, (b.block for b in blocks), starts).fact or _planned(experiment)


def _planned(experiment: Experiment) -> str:
    if experiment.start_every == 0:
        return "servers kept from round to round: holds for these starts only"
    if experiment.start_every == 1:
        return "fresh starts"
    return f"fresh starts every {experiment.start_every} rounds"


def decision_of(decision: Decision, clean: Cleaner) -> DecisionView:
    """The recommendation as one sentence."""
    conditions = tuple(clean(c, _SENTENCE).rstrip(".") for c in decision.conditions)
    reasons = tuple(clean(r, _SENTENCE) for r in decision.reasons)
    if decision.ship is None:
        return DecisionView(ship=None, headline="No decision.", conditions=conditions, reasons=reasons)
    headline = f"Ship {clean(decision.ship, 60)}{' ' + '; '.join(conditions) if conditions else ''}."
    return DecisionView(ship=clean(decision.ship, 60), headline=headline, conditions=conditions, reasons=reasons)


def more_pairs(count: int, seconds: float | None = None) -> str:
    """How many pairs are still needed, and the time [s]; beyond some hundreds that is no advice but a no."""
    if count > _REALISTIC:
        return "no realistic number of pairs would decide it"
    time = f" (about {duration(seconds)})" if seconds is not None and seconds >= 1 else ""
    return f"about {count} more {_plural(count, 'pair')} needed{time}"


def duration(seconds: float) -> str:
    """A time for planning: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


_REALISTIC = 500
_SENTENCE = 1500  # characters: a decision is never cut in its middle; names and figures in it are bounded themselves


def state_text(result: Result) -> str | None:
    """One line where a run is not complete."""
    if not result.rounds:
        return {
            "interrupted": "Interrupted before a round was complete.",
            "failed": "Failed before a round was complete.",
            "running": "Still running: no round is complete yet.",
        }.get(result.state)
    rounds = _counted(result.rounds, "round")
    return {
        "interrupted": f"Interrupted: what follows rests on {rounds}.",
        "failed": f"Failed: what follows rests on {rounds}.",
        "running": f"Still running: what follows rests on {rounds} so far.",
    }.get(result.state)
