"""What the checks look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...metrics import METRICS
from ...model import Cell, Experiment, Start
from ..extract import Requests
from ..pairs import Grid, Pair
from ..rows import Draft
from .counts import Miscount, miscount

#: Metrics that contain the whole prefill, and so suffer from unequal prompts, cache hits or a late client.
PREFILL_METRICS = (
    "ttft_s",
    "ttfo_s",
    "e2e_latency_s",
    "task_time_s",
    "request_throughput_rps",
    "token_throughput_tps",
    "goodput_rps",
)
LENGTH_METRICS = tuple(m.name for m in METRICS.values() if m.needs_equal_tokens)
#: Metrics that are divided by the server's own count of tokens.
COUNT_METRICS = ("tpot_s", "itl_s", "token_throughput_tps", "energy_per_token_j")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One run as the audit sees it."""

    experiment: Experiment
    grid: Grid
    starts: tuple[Start, ...]
    drafts: tuple[Draft, ...]
    complete: bool = False  # the run has ended by itself, so that it cannot be gone on with

    @property
    def base(self) -> str:
        return self.experiment.base.name

    def arms(self) -> Iterator[tuple[Cell, str, list[Requests]]]:
        """Every cell and variant that has measured blocks."""
        for cell in self.experiment.cells():
            for variant in self.experiment.variants:
                blocks = self.grid.arm(variant.name, cell.key)
                if blocks:
                    yield cell, variant.name, blocks

    @cached_property
    def miscounts(self) -> Mapping[tuple[Cell, str], Miscount]:
        """Cells and variants whose token counts cannot be right: no other check may conclude anything from them."""
        found = {
            (cell, name): miscount(self.experiment.workload(cell.workload), blocks)
            for cell, name, blocks in self.arms()
        }
        return {place: wrong for place, wrong in found.items() if wrong is not None}

    def pairings(self) -> Iterator[tuple[Cell, str, list[Pair]]]:
        """Every cell and candidate that has pairs with the base."""
        for cell in self.experiment.cells():
            for candidate in self.experiment.candidates:
                pairs = self.grid.pairs(self.base, candidate.name, cell.key)
                if pairs:
                    yield cell, candidate.name, pairs


def percent(share: float) -> str:
    """0.034 → ``3.4 %``; whole numbers from 10 % on."""
    value = share * 100
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"


def bounded(text: str, limit: int = 160) -> str:
    """Untrusted text on one line, printable and of bounded length."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def count_of(count: int, noun: str) -> str:
    """1 → ``1 request``; 3 → ``3 requests``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
