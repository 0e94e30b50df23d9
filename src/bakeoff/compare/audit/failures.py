"""Requests that failed, servers that ended, and open loops that one arm could not follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from ...model import Caution, Cell
from ..extract import Requests
from . import limits
from .bench import LATENCY_METRICS, Bench, bounded, count_of, percent
from .lengths import PER_ROUND


def errors(bench: Bench) -> Iterator[Caution]:
    """Errors by arm: a finding. Invalid only where all failed, or where one arm alone lost so many that those left
    are a selection."""
    for cell in bench.experiment.cells():
        arms = {name: blocks for c, name, blocks in bench.arms() if c == cell}
        shares = {name: _failed(blocks) / _sent(blocks) for name, blocks in arms.items()}
        for name, blocks in arms.items():
            failed, sent = _failed(blocks), _sent(blocks)
            if failed == sent:
                yield Caution(
                    code="all-failed",
                    message=f"all {count_of(sent, 'request')} of {name} failed: {_kinds(blocks)}",
                    remedy=f"{_log(bench, name)}, then repeat",
                    severity="invalid",
                    variant=name,
                    cell=cell.key,
                )
            elif failed:
                yield Caution(
                    code="errors",
                    message=f"{failed} of {count_of(sent, 'request')} of {name} failed: {_kinds(blocks)}; "
                    "latencies are those of the rest",
                    remedy=_log(bench, name),
                    variant=name,
                    cell=cell.key,
                )
            others = [share for other, share in shares.items() if other != name and bench.base in (other, name)]
            if failed < sent and others and shares[name] > limits.ERRORS_ONE_ARM.value >= min(others):
                yield Caution(
                    code="survivorship",
                    message=f"{percent(shares[name])} of the requests of {name} failed and were spared the other arm: "
                    "latencies of the rest are a selection",
                    remedy="remove the errors (lower the load, raise limits), then repeat",
                    severity="invalid",
                    variant=name,
                    cell=cell.key,
                    metrics=LATENCY_METRICS,
                )


def _log(bench: Bench, variant: str) -> str:
    """Where a server's own words are: only of one that we started are they in the run folder."""
    ours = any(start.variant == variant and start.log is not None for start in bench.starts)
    if ours or bench.experiment.variant(variant).engine != "openai":
        return "see the server's log in the run folder"
    return "see the log of that server, where it runs"


def _failed(blocks: Sequence[Requests]) -> int:
    return sum(int((~r.ok).sum()) for r in blocks)


def _sent(blocks: Sequence[Requests]) -> int:
    return sum(r.ok.size for r in blocks)


def _kinds(blocks: Sequence[Requests]) -> str:
    """``timeout 2, http 1 (last: HTTP 500: …)``; messages are the server's text, so bounded."""
    kinds: Counter[str] = Counter()
    last: str | None = None
    for r in blocks:
        messages = r.texts("error_message")
        for i in np.flatnonzero(~r.ok):
            kinds[str(r.columns["error"][i])] += 1
            last = messages[i] or last
    listed = ", ".join(f"{bounded(kind, 30)} {count}" for kind, count in kinds.most_common(4))
    return f"{listed} ({bounded(last)})" if last else listed


def server_notes(bench: Bench) -> Iterator[Caution]:
    """What was noted while measuring (a server that ended, a restart), and stops that needed force."""
    for variant in bench.experiment.variants:
        notes = Counter(
            bounded(note)
            for _, name, blocks in bench.arms()
            if name == variant.name
            for r in blocks
            for note in r.block.notes
            if note.startswith(_SERVER_NOTE)
        )
        for note, count in notes.most_common(5):
            times = f" ({count} blocks)" if count > 1 else ""
            yield Caution(
                code="block-note",
                message=f"{note}{times}",
                remedy=_log(bench, variant.name),
                severity="note",
                variant=variant.name,
            )
        forced = sum(start.forced_stop for start in bench.starts if start.variant == variant.name)
        if forced:
            yield Caution(
                code="forced-stop",
                message=f"{variant.name} had to be stopped by force {count_of(forced, 'time')}",
                remedy="harmless for the figures; see its log if it should end by itself",
                severity="note",
                variant=variant.name,
            )


def prompt_notes(bench: Bench) -> Iterator[Caution]:
    """What was noted of the prompts. They are made once for all variants, so each note is told once a workload."""
    several = len(bench.experiment.workloads) > 1
    notes = dict.fromkeys(
        (cell.workload, bounded(note))
        for cell, _, blocks in bench.arms()
        for r in blocks
        for note in r.block.notes
        if not note.startswith(_SERVER_NOTE) and PER_ROUND not in note  # those are added up with the lengths
    )
    for workload, note in list(notes)[:_PROMPT_NOTES]:
        yield Caution(
            code="prompt-note",
            message=f"{workload}: {note}" if several else note,
            remedy=next((remedy for word, remedy in _PROMPT_REMEDIES if word in note), _PROMPT_REMEDY),
            severity="note",
        )


_SERVER_NOTE = "the server "
_PROMPT_NOTES = 5
_PROMPT_REMEDY = "all variants get the same prompts; change the workload's `prompts` where it matters"
_PROMPT_REMEDIES = (
    ("they repeat", "add prompts to the file, or ask for fewer rounds or smaller blocks"),
    ("no tokenizer", "all variants get the same prompts; only a server that offers `/tokenize` makes lengths exact"),
    ("tokenizer differs", "compare whole answers (E2E): times per token are of unlike tokens"),
)


def saturation(bench: Bench) -> Iterator[Caution]:
    """An open loop that an arm cannot follow: its waiting grows within the block. A finding about that arm."""
    for cell, variant, blocks in bench.arms():
        growth = [value for r in blocks if (value := _growth(r)) is not None] if cell.kind != "closed" else []
        if growth and float(np.median(growth)) >= limits.SATURATION_GROWTH.value:
            yield Caution(
                code="saturated",
                message=f"{variant} does not keep up with {_offered(cell)}: TTFT grows "
                f"{np.median(growth):.1f}× within a block, so that its level depends on the block's length",
                remedy="compare at a load that both can serve, or read this as the limit of this arm",
                variant=variant,
                cell=cell.key,
            )


def _offered(cell: Cell) -> str:
    return f"{cell.level:g} requests/s" if cell.kind == "open" else f"the trace at {cell.level:g} times its speed"


def _growth(requests: Requests) -> float | None:
    """Median TTFT of the block's last third ÷ that of its first third, by schedule."""
    ttft = requests.values["ttft_s"][np.argsort(requests.columns["scheduled_ns"], kind="stable")]
    ttft = ttft[np.isfinite(ttft)]
    if ttft.size < limits.SATURATION_REQUESTS.value:
        return None
    third = ttft.size // 3
    first = float(np.median(ttft[:third]))
    return float(np.median(ttft[-third:])) / first if first > 0 else None
