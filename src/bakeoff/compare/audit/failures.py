"""Requests that failed, servers that ended, and open loops that one arm could not follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from ...metrics import METRICS
from ...model import Caution, Cell
from ..extract import Requests
from . import limits
from .bench import Bench, bounded, count_of, percent
from .lengths import PER_ROUND


def errors(bench: Bench) -> Iterator[Caution]:
    """Errors by arm: a finding. Invalid only where all failed."""
    for cell in bench.experiment.cells():
        arms = {name: blocks for c, name, blocks in bench.arms() if c == cell}
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


def survivorship(bench: Bench) -> Iterator[Caution]:
    """One arm of a comparison lost so many more requests than the other that those left are a selection.

    Rates suffer as latencies do: in a closed loop a failure makes room for the next request, in an open one it spares
    the server work; and what a request or a token costs is that of those left. Goodput alone counts a failure as a
    miss, where every request is due whatever became of the one before: not in a closed loop.
    """
    for cell in bench.experiment.cells():
        shares = {n: _failed(blocks) / _sent(blocks) for c, n, blocks in bench.arms() if c == cell}
        base = shares.pop(bench.base, None)
        if base is None:
            continue
        unequal = {name: share for name, share in shares.items() if share < 1 and base < 1 and _unlike(base, share)}
        by_base = [name for name, share in unequal.items() if base > share]
        told = {name: (name, share) for name, share in unequal.items() if name not in by_base}
        # A fault of the base is told once, unless some candidates share it.
        whole = bool(by_base) and len(by_base) == len(shares)
        told |= {bench.base: (bench.base, base)} if whole else dict.fromkeys(by_base, (bench.base, base))
        for variant, (failing, share) in told.items():
            yield Caution(
                code="survivorship",
                message=f"{percent(share)} of the requests of {failing} failed, and fewer of the other arm's: times, "
                "rates and costs of the rest are those of a selection",
                remedy="remove the errors (lower the load, raise limits), then repeat",
                severity="invalid",
                variant=variant,
                cell=cell.key,
                metrics=_SELECTED if cell.kind == "closed" else tuple(m for m in _SELECTED if m != "goodput_rps"),
            )


_SELECTED = tuple(m.name for m in METRICS.values() if m.scope != "start")


def _unlike(one: float, other: float) -> bool:
    """Whether two arms lost so unlike shares of their requests that what is left of them differs in kind."""
    low, high = min(one, other), max(one, other)
    limit = limits.ERRORS_ONE_ARM.value
    return high > limit and (low <= limit or high - low > limit)


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
