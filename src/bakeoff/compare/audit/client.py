"""Was the client fit? Its CPU time, and how late it sends and reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...model import Caution, Cell, Health
from ...units import seconds
from ..extract import Requests
from . import limits
from .bench import PREFILL_METRICS, Bench, percent

_REMEDY = "lower the load, or run the client on an idle machine of its own"


def client_bound(bench: Bench) -> Iterator[Caution]:
    """A client that is busy, or typically late in reading tokens.

    TPOT holds only the difference of two lags over all tokens.
    """
    for cell, variant, blocks in bench.arms():
        tpot = _typical(blocks, "tpot_s")
        lag = _health(blocks, lambda h: h.loop_lag_p50_s)
        cpu = _health(blocks, _busy)
        if cpu > limits.CLIENT_CPU.value:
            each = " in each of its processes" if any(r.block.health.client_processes > 1 for r in blocks) else ""
            yield _client(cell, variant, f"the client used {percent(cpu)} of a core{each} ({variant})", ())
            continue
        steps = _tokens(blocks) - 1
        if steps > 0 and lag > limits.LOOP_LAG_MEDIAN_S.value and 2 * lag / steps > limits.SEND_DELAY.value * tpot:
            told = f"the client is typically {seconds(lag)} late in reading tokens ({variant})"
            yield _client(cell, variant, told, ("tpot_s",))


class _Tail(NamedTuple):
    """One arm of a cell in which one in a hundred of the client's reads came late: by its timers, or unparsed [s]."""

    variant: str
    timer: float
    backlog: float

    @property
    def late(self) -> float:
        return max(self.timer, self.backlog)


def late_reads(bench: Bench) -> Iterator[Caution]:
    """A client that is late now and then: single gaps and tails suffer, no median does. One fact, told once.

    A late base touches every candidate, a late candidate only itself; so of several candidates each is told apart
    unless the base is late too.
    """
    found: dict[Cell, list[_Tail]] = {}
    for cell, variant, blocks in bench.arms():
        if _health(blocks, _busy) <= limits.CLIENT_CPU.value and (tail := _tail(variant, blocks)) is not None:
            found.setdefault(cell, []).append(tail)
    by_arms: dict[tuple[str, ...], dict[Cell, _Tail]] = {}
    for cell, tails in found.items():
        names = tuple(tail.variant for tail in tails)
        together = bench.base in names or len(bench.experiment.candidates) == 1
        for arms in [names] if together else [(name,) for name in names]:
            by_arms.setdefault(arms, {})[cell] = max((t for t in tails if t.variant in arms), key=lambda t: t.late)
    for arms, cells in by_arms.items():
        worst = max(cells.values(), key=lambda tail: tail.late)
        what = "timers was" if worst.timer >= worst.backlog else "reads waited"
        how = "late or more" if worst.timer >= worst.backlog else "or more to be parsed"
        everywhere = len(cells) == len({cell for cell, _, _ in bench.arms()})
        places: list[str | None] = [None] if everywhere else [cell.key for cell in cells]
        for place in places:
            yield Caution(
                code="client-bound",
                message=f"one in a hundred of the client's {what} {seconds(worst.late)} {how} ({', '.join(arms)}): "
                "gaps between tokens and tails are not reliable, medians are",
                remedy=_REMEDY,
                severity="invalid",
                variant=None if bench.base in arms or len(bench.experiment.candidates) == 1 else arms[0],
                cell=place,
                metrics=("itl_s",),
            )


def _tail(variant: str, blocks: Sequence[Requests]) -> _Tail | None:
    """None where the client was in time, by the limits."""
    tpot = _typical(blocks, "tpot_s")
    floor = limits.LOOP_LAG_TPOT.value * tpot if np.isfinite(tpot) else 0.0
    tail = _Tail(
        variant,
        _health(blocks, lambda h: h.loop_lag_p99_s),
        _health(blocks, lambda h: h.parse_backlog_p99_s),
    )
    return tail if tail.late > max(limits.LOOP_LAG_TAIL_S.value, floor) else None


class _Delay(NamedTuple):
    """How late the client typically was for one arm, and what that enters [s]."""

    late: float
    ttft: float
    e2e: float

    @property
    def marked(self) -> bool:
        return self.late > limits.SEND_DELAY.value * self.ttft

    def severe(self, margin: float) -> bool:
        """Whether it spoils TTFT although both arms may share it.

        A delay d in both arms makes (t₂ + d) ÷ (t₁ + d) of t₂ ÷ t₁: the log ratio shrinks by about d ÷ TTFT of itself.
        A healthy client's d invalidates only where that could hide a change of the margin's size.
        """
        shared = margin * limits.SEND_DELAY_SHARED.value * self.ttft
        return self.marked and self.late > min(limits.SEND_DELAY_HEALTHY_S.value, shared)


def _delay(blocks: Sequence[Requests]) -> _Delay:
    delay, lag = _median([_send_delay(r) for r in blocks]), _health(blocks, lambda h: h.loop_lag_p50_s)
    late = max(delay, lag if lag > limits.LOOP_LAG_MEDIAN_S.value else 0.0)
    return _Delay(late, _typical(blocks, "ttft_s"), _typical(blocks, "e2e_latency_s"))


def send_delay(bench: Bench) -> Iterator[Caution]:
    """The client's own delay against TTFT, cell by cell."""
    margin = bench.experiment.margin
    for cell in bench.experiment.cells():
        arms = {name: _delay(blocks) for c, name, blocks in bench.arms() if c == cell}
        for name, delay in arms.items():
            if delay.severe(margin):
                told = f"the client is typically {seconds(delay.late)} late, {percent(delay.late / delay.ttft)} of TTFT"
                yield _client(cell, name, f"{told} ({name})", PREFILL_METRICS)
        small = {name: delay for name, delay in arms.items() if delay.marked and not delay.severe(margin)}
        if small:
            worst = max(small.values(), key=lambda d: d.late / d.ttft)
            yield Caution(
                code="client-bound",
                message=f"the client's own {seconds(worst.late)} are {percent(worst.late / worst.ttft)} of this TTFT "
                f"({', '.join(small)}) and dilute its ratio by that much",
                remedy="a TTFT this short is at the edge of what a client can measure; TPOT is not touched, E2E by "
                f"{percent(worst.late / worst.e2e)}",
                cell=cell.key,
                metrics=("ttft_s", "ttfo_s"),
            )
            yield from _unequal(bench, cell, arms)


def _unequal(bench: Bench, cell: Cell, arms: Mapping[str, _Delay]) -> Iterator[Caution]:
    """A delay that the arms do not share does not cancel in the ratio."""
    margin, base = bench.experiment.margin, arms.get(bench.base)
    for candidate in bench.experiment.candidates:
        other = arms.get(candidate.name)
        if base is None or other is None or base.severe(margin) or other.severe(margin):
            continue
        ttft = min(base.ttft, other.ttft)
        allowed = margin * limits.SEND_DELAY_BETWEEN.value * ttft
        if (base.marked or other.marked) and abs(other.late - base.late) > allowed:
            told = f"the client is typically {seconds(base.late)} late for {bench.base} and {seconds(other.late)} for "
            yield _client(
                cell, candidate.name, f"{told}{candidate.name}, on a TTFT of {seconds(ttft)}", PREFILL_METRICS
            )


def _client(cell: Cell, variant: str, told: str, metrics: tuple[str, ...]) -> Caution:
    return Caution(
        code="client-bound",
        message=told,
        remedy=_REMEDY,
        severity="invalid",
        variant=variant,
        cell=cell.key,
        metrics=metrics,
    )


def _send_delay(requests: Requests) -> float:
    sent, scheduled = requests.columns["sent_ns"], requests.columns["scheduled_ns"]
    late = np.asarray(sent, dtype=np.int64) - np.asarray(scheduled, dtype=np.int64)
    late = late[np.asarray(sent, dtype=np.int64) >= 0]
    return float(np.median(late)) / 1e9 if late.size else 0.0


def _busy(health: Health) -> float | None:
    """CPU time of one process of the client ÷ wall time: each has an event loop, and so a core, of its own."""
    return None if health.client_cpu_share is None else health.client_cpu_share / max(health.client_processes, 1)


def _tokens(blocks: Sequence[Requests]) -> float:
    """Tokens of a typical answer; 0 where no server tells. What was asked for may be only a limit."""
    told = np.concatenate([r.numbers("output_tokens") for r in blocks])
    told = told[np.isfinite(told)]
    return float(np.median(told)) if told.size else 0.0


def _health(blocks: Sequence[Requests], field: Callable[[Health], float | None]) -> float:
    """Median over the blocks that tell; 0 where none does."""
    return _median([value for r in blocks if (value := field(r.block.health)) is not None])


def _typical(blocks: Sequence[Requests], metric: str) -> float:
    """Median over all requests; infinite where none has a value (nothing can then be compared with it)."""
    values = np.concatenate([r.values[metric] for r in blocks])
    values = values[np.isfinite(values)]
    return float(np.median(values)) if values.size else float("inf")


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if len(values) else 0.0
