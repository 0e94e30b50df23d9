"""How often each server was started: what the luck of a start can average out over.

A server that somebody else runs is one start however often it is reached: a resumed run, or a second run, meets the
same process, as far as anybody can tell from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..model import Block, Experiment, Start


@dataclass(frozen=True, kw_only=True)
class Replication:
    """starts: of each arm that was measured, in the order of the variants. reached: arms that we did not start. kept:
    the rounds share one start by plan, so that even several starts (of a resumed run) are no replicates. missing: arms
    that were not measured. compared: the base and a candidate were."""

    starts: dict[str, int]
    reached: tuple[str, ...]
    kept: bool
    missing: tuple[str, ...] = ()
    compared: bool = True

    @property
    def once(self) -> bool:
        """Every server was started once."""
        return bool(self.starts) and max(self.starts.values()) <= 1

    @property
    def never(self) -> bool:
        """No arm has starts that a comparison could average over."""
        return self.compared and bool(self.starts) and (self.once or self.kept)

    @property
    def fact(self) -> str | None:
        """What the title says where the result holds for some starts only; None also where there is no result."""
        if not self.compared:
            return None
        if len(self.reached) == len(self.starts):
            return "servers not restarted: holds for these starts only"
        if self.once:
            arms = f"each of {' and '.join(self.starts)}" if self.missing else "per arm"
            return f"one start {arms}: holds for these starts only"
        if self.kept:
            return "servers kept from round to round: holds for these starts only"
        if self.reached:
            return f"{', '.join(self.reached)} not restarted: holds for that start only"
        return None


def replication(experiment: Experiment, blocks: Iterable[Block], starts: Sequence[Start]) -> Replication:
    """Counts the starts behind the measured blocks (A/A visits and probes are no part of any pair)."""
    spawned = {start.id: start.spawn_ns is not None for start in starts}
    ours: dict[str, set[int]] = {}
    reached = set()
    engines = {variant.name: variant.engine for variant in experiment.variants}
    for block in blocks:
        if block.kind != "measure" or block.variant not in engines:
            continue
        arm = ours.setdefault(block.variant, set())
        # Without its record (starts.parquet is lost) the engine tells whether it starts servers at all.
        if block.start_id >= 0 and spawned.get(block.start_id, engines[block.variant] != "openai"):
            arm.add(block.start_id)
        else:
            reached.add(block.variant)
    counts = {name: len(ours[name]) + (name in reached) for name in engines if name in ours}
    return Replication(
        starts=counts,
        reached=tuple(name for name in counts if name in reached),
        kept=experiment.start_every == 0,
        missing=tuple(name for name in engines if name not in counts),
        compared=experiment.base.name in counts and len(counts) > 1,
    )
