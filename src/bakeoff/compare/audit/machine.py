"""Was the machine fit? Contention, stolen time, warm-up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from ...metrics import METRICS
from ...model import Caution, Cell, Health
from ..extract import Requests
from . import limits
from .bench import Bench, count_of, percent


class _Taken(NamedTuple):
    """What somebody else may take of the machine during a block."""

    code: str
    share: Callable[[Health], float | None]
    limit: float
    told: str
    remedy: str


_TAKEN = (
    _Taken(
        "contention",
        lambda h: h.other_cpu_share / h.cores if h.other_cpu_share is not None and h.cores else None,
        limits.OTHER_CPU.value,
        "other processes took",
        "stop them (see `bakeoff doctor`), then repeat",
    ),
    _Taken(
        "steal",
        lambda h: h.steal_share,
        limits.STEAL.value,
        "the hypervisor took",
        "use a machine that is not shared, then repeat",
    ),
)


class _Met(NamedTuple):
    """How many of some blocks met a busy machine, of those that tell; and the largest share of it."""

    bad: int
    known: int
    worst: float

    @property
    def severity(self) -> Literal["invalid", "warning"] | None:
        if not self.bad:
            return None
        return "invalid" if self.bad > limits.BAD_BLOCKS.value * self.known else "warning"


def _met(kind: _Taken, blocks: Iterable[Requests]) -> _Met:
    shares = [share for r in blocks if (share := kind.share(r.block.health)) is not None]
    return _Met(sum(share > kind.limit for share in shares), len(shares), max(shares, default=0.0))


def contention(bench: Bench) -> Iterator[Caution]:
    """CPU time taken by others, or by the hypervisor, while blocks ran.

    A candidate's rows are judged by the blocks that they are computed from, its own and the base's. What an arm met
    that has no pair is told and turns nothing invalid.
    """
    for cell in bench.experiment.cells():
        compared = {
            name: [r for p in pairs for r in (p.base, p.other)] for c, name, pairs in bench.pairings() if c == cell
        }
        used = {id(r): r for blocks in compared.values() for r in blocks}
        alone = {
            name: arm
            for c, name, arm in bench.arms()
            if c == cell and name not in compared and not (compared and name == bench.base)
        }
        for kind in _TAKEN:
            met = {name: _met(kind, blocks) for name, blocks in compared.items()}
            severities = {found.severity for found in met.values()}
            if len(met) == len(bench.experiment.candidates) and len(severities) == 1:
                yield from _contended(kind, _met(kind, used.values()), cell, None, severities.pop())
            else:
                for name, found in met.items():
                    yield from _contended(kind, found, cell, name, found.severity, f" of {bench.base} and {name}")
            for name, blocks in alone.items():
                found = _met(kind, blocks)
                yield from _contended(kind, found, cell, name, "warning" if found.bad else None, f" of {name}")


def _contended(
    kind: _Taken,
    found: _Met,
    cell: Cell,
    variant: str | None,
    severity: Literal["invalid", "warning"] | None,
    whose: str = "",
) -> Iterator[Caution]:
    code = kind.code
    if severity is not None:
        yield Caution(
            code=code,
            message=f"in {found.bad} of {count_of(found.known, 'block')}{whose} {kind.told} more than "
            f"{percent(kind.limit)} of the machine (at worst {percent(found.worst)})",
            remedy=kind.remedy,
            severity=severity,
            variant=variant,
            cell=cell.key,
        )


def busy_starts(bench: Bench) -> Iterator[Caution]:
    """Start-up on a busy machine. The machine is not watched during a start: the first block after it stands for it."""
    firsts: dict[int, Requests] = {}
    for _, _, blocks in bench.arms():
        for r in blocks:
            known = firsts.get(r.block.start_id)
            if known is None or r.block.started_ns < known.block.started_ns:
                firsts[r.block.start_id] = r
    for candidate in bench.experiment.candidates:
        groups = {
            key
            for draft in bench.drafts
            if draft.target.candidate == candidate.name and draft.target.metric.name in _START_UP
            for key in draft.series.keys
        }
        arms = (bench.base, candidate.name)
        starts = [s for s in bench.starts if s.variant in arms and s.kind == "measure" and s.group in groups]
        after = [firsts[s.id] for s in starts if s.id in firsts]
        for kind in _TAKEN:
            code, found = kind.code, _met(kind, after)
            if found.severity == "invalid":
                yield Caution(
                    code=code,
                    message=f"{found.bad} of {count_of(found.known, 'start')} of {bench.base} and {candidate.name} met "
                    f"a busy machine: in the block after, {kind.told} more than {percent(kind.limit)} of it (at worst "
                    f"{percent(found.worst)})",
                    remedy=kind.remedy,
                    severity="invalid",
                    variant=candidate.name,
                    metrics=_START_UP,
                )


_START_UP = tuple(m.name for m in METRICS.values() if m.kind == "start")


def repeats(bench: Bench) -> Iterator[Caution]:
    """Blocks that were measured again because the machine was not quiet (they stay in the run folder)."""
    for cell in bench.experiment.cells():
        count = bench.grid.repeated.get(cell.key, 0)
        if count:
            tries = "1 try at a block" if count == 1 else f"{count} tries at blocks"
            yield Caution(
                code="repeated",
                message=f"{tries} met a busy machine and {'was' if count == 1 else 'were'} made again; the last try of "
                "each block counts",
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
