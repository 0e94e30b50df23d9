"""Was the machine fit? Contention, stolen time, warm-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model import Caution, Health
from ..extract import Requests
from . import limits
from .bench import Bench, count_of, percent


def contention(bench: Bench) -> Iterator[Caution]:
    """CPU time taken by others, or by the hypervisor, while blocks ran."""
    for cell in bench.experiment.cells():
        blocks = [r for c, _, arm in bench.arms() if c == cell for r in arm]
        if not blocks:
            continue
        others = [h.other_cpu_share / h.cores for h in _healths(blocks) if h.other_cpu_share is not None and h.cores]
        steal = [h.steal_share for h in _healths(blocks) if h.steal_share is not None]
        for code, shares, limit, told, remedy in (
            ("contention", others, limits.OTHER_CPU.value, "other processes took", "stop them (see `bakeoff doctor`)"),
            ("steal", steal, limits.STEAL.value, "the hypervisor took", "use a machine that is not shared"),
        ):
            bad = [share for share in shares if share > limit]
            if bad:
                yield Caution(
                    code=code,
                    message=f"in {len(bad)} of {count_of(len(shares), 'block')} {told} more than {percent(limit)} "
                    f"of the machine (at worst {percent(max(bad))})",
                    remedy=f"{remedy}, then repeat",
                    severity="invalid" if len(bad) > limits.BAD_BLOCKS.value * len(shares) else "warning",
                    cell=cell.key,
                )


def repeats(bench: Bench) -> Iterator[Caution]:
    """Blocks that were measured again because the machine was not quiet (they stay in the run folder)."""
    for cell in bench.experiment.cells():
        count = bench.grid.repeated.get(cell.key, 0)
        if count:
            yield Caution(
                code="repeated",
                message=f"{count_of(count, 'block')} met a busy machine and {'was' if count == 1 else 'were'} measured "
                "again; the last try counts",
                remedy="a quiet machine saves the time (see `bakeoff doctor`)",
                severity="note",
                cell=cell.key,
            )


def warm_up(bench: Bench) -> Iterator[Caution]:
    """Warm-ups that ended at their budget, not because latencies agreed."""
    for cell, variant, blocks in bench.arms():
        told = [r.block.warmup_stable for r in blocks if r.block.warmup_stable is not None]
        unstable = sum(not stable for stable in told)
        if unstable:
            yield Caution(
                code="warm-up",
                message=f"the warm-up of {variant} had not settled before {unstable} of {count_of(len(told), 'block')}",
                remedy="raise the warm-up's limits (`warmup: {max_requests: …}`)",
                severity="note",
                variant=variant,
                cell=cell.key,
            )


def _healths(blocks: Sequence[Requests]) -> list[Health]:
    return [r.block.health for r in blocks]
