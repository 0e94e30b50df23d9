"""Was the bench fit? Client, contention, stolen time, warm-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...model import Caution, Health
from ...units import seconds
from ..extract import Requests
from . import limits
from .bench import PREFILL_METRICS, Bench, count_of, percent

_CLIENT_REMEDY = "lower the load, or run the client on an idle machine of its own"


def client_bound(bench: Bench) -> Iterator[Caution]:
    """A client that is late or busy. What it touches follows from how the lateness enters a metric.

    Send delay and the median lag of the event loop add to TTFT and E2E; TPOT holds only their difference over all
    tokens; a rare late timer spoils single gaps and tails but no median.
    """
    for cell, variant, blocks in bench.arms():
        ttft, tpot = _typical(blocks, "ttft_s"), _typical(blocks, "tpot_s")
        delay = _median([_send_delay(r) for r in blocks])
        lag, lag_tail = _health(blocks, lambda h: h.loop_lag_p50_s), _health(blocks, lambda h: h.loop_lag_p99_s)
        cpu = _health(blocks, lambda h: h.client_cpu_share)
        if cpu > limits.CLIENT_CPU.value:
            yield _client(cell.key, variant, f"the client used {percent(cpu)} of a core", "invalid", ())
            continue
        late = max(delay, lag if lag > limits.LOOP_LAG_MEDIAN_S.value else 0.0)
        if late > limits.SEND_DELAY.value * ttft:
            told = f"the client is typically {seconds(late)} late, {percent(late / ttft)} of TTFT"
            yield _client(cell.key, variant, told, "invalid", PREFILL_METRICS)
        steps = bench.experiment.workload(cell.workload).output_tokens - 1
        if steps > 0 and lag > limits.LOOP_LAG_MEDIAN_S.value and 2 * lag / steps > limits.SEND_DELAY.value * tpot:
            told = f"the client is typically {seconds(lag)} late in reading tokens"
            yield _client(cell.key, variant, told, "invalid", ("tpot_s",))
        floor = limits.LOOP_LAG_TPOT.value * tpot if np.isfinite(tpot) else 0.0
        if lag_tail > max(limits.LOOP_LAG_TAIL_S.value, floor):
            told = f"one in a hundred of the client's timers was {seconds(lag_tail)} late or more"
            yield _client(cell.key, variant, f"{told}: gaps between tokens are not reliable", "invalid", ("itl_s",))
            yield _client(cell.key, variant, f"{told}: tails are not reliable, medians are", "warning", ())


def _client(cell: str, variant: str, told: str, severity: str, metrics: tuple[str, ...]) -> Caution:
    return Caution(
        code="client-bound",
        message=f"{told} ({variant})",
        remedy=_CLIENT_REMEDY,
        severity="invalid" if severity == "invalid" else "warning",
        variant=variant,
        cell=cell,
        metrics=metrics,
    )


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


def _health(blocks: Sequence[Requests], field: Callable[[Health], float | None]) -> float:
    """Median over the blocks that tell; 0 where none does."""
    return _median([value for h in _healths(blocks) if (value := field(h)) is not None])


def _send_delay(requests: Requests) -> float:
    sent, scheduled = requests.columns["sent_ns"], requests.columns["scheduled_ns"]
    late = np.asarray(sent, dtype=np.int64) - np.asarray(scheduled, dtype=np.int64)
    late = late[np.asarray(sent, dtype=np.int64) >= 0]
    return float(np.median(late)) / 1e9 if late.size else 0.0


def _typical(blocks: Sequence[Requests], metric: str) -> float:
    """Median over all requests; infinite where none has a value (nothing can then be compared with it)."""
    values = np.concatenate([r.values[metric] for r in blocks])
    values = values[np.isfinite(values)]
    return float(np.median(values)) if values.size else float("inf")


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if len(values) else 0.0
