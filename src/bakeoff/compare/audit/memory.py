"""Does a server's memory grow while it works; and did starts find the page cache as they were meant to?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model import Caution, Start
from ...units import size
from ..memory import growth
from .bench import Bench, count_of, percent


def memory_growth(bench: Bench) -> Iterator[Caution]:
    """Private memory that rises beyond the noise of the blocks, each start from a level of its own: a leak, perhaps."""
    for variant in bench.experiment.variants:
        blocks = [b.block for c in bench.experiment.cells() for b in bench.grid.arm(variant.name, c.key)]
        found = growth(blocks)
        if found is None or not found.leak:
            continue
        low, high = found.per_hour.low or 0.0, found.per_hour.high or 0.0
        yield Caution(
            code="memory-growth",
            message=f"{variant.name} takes {size(found.per_hour.point)} more an hour while it works "
            f"[{size(low)}, {size(high)}]: {percent(found.share)} within {found.watched_s:.0f} s",
            remedy="a leak, or a cache without a limit: watch one start over hours (`starts: once`), and look for a "
            "prompt cache that grows with every request",
            variant=variant.name,
        )


def page_cache(bench: Bench) -> Iterator[Caution]:
    """Starts that were to be cold (or warm) and were not: no cold start was measured then."""
    wanted = bench.experiment.page_cache
    if wanted == "as found":
        return
    for variant in bench.experiment.variants:
        starts = [s for s in bench.starts if s.variant == variant.name and s.spawn_ns is not None]
        missed = [s for s in starts if s.page_cache != _meant(wanted, s.group)]
        if missed:
            yield Caution(
                code="page-cache",
                message=f"{count_of(len(missed), 'start')} of {len(starts)} of {variant.name} did not find the page "
                f"cache as asked (`page_cache: {wanted}`): its state was {', '.join(_states(missed))}",
                remedy="another process may hold the model file mapped, it may lie on a file system in memory, or the "
                "engine does not tell its model file: their start-up times stand under the state that was found",
                variant=variant.name,
            )


def _meant(wanted: str, group: int) -> str:
    return wanted if wanted != "alternate" else ("cold" if group % 2 == 0 else "warm")


def _states(starts: Sequence[Start]) -> list[str]:
    return sorted({start.page_cache for start in starts})
