"""What the servers' own counters tell of the blocks: other clients, restarts, queues, a full KV cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...model import Caution
from ..extract import Requests
from . import limits
from .bench import Bench, count_of, percent


def foreign_traffic(bench: Bench) -> Iterator[Caution]:
    """Requests that the server counted and that were not ours. Invalid where a third of the blocks had some."""
    for cell, name, blocks in bench.arms():
        counted = (cell, name) not in bench.miscounts
        excess = [share for r in blocks if (share := _beyond_ours(r, counted)) is not None]
        seen = [share for share in excess if share > limits.FOREIGN.value]
        if not seen:
            continue
        yield Caution(
            code="foreign-traffic",
            message=f"in {len(seen)} of {count_of(len(excess), 'block')} {name} served others too: up to "
            f"{percent(max(seen))} more than what was asked for here",
            remedy="keep other clients, and health checks that generate, away from the server while it is measured",
            severity="invalid" if len(seen) > limits.BAD_BLOCKS.value * len(excess) else "warning",
            variant=name,
            cell=cell.key,
        )


def _beyond_ours(r: Requests, counted: bool) -> float | None:
    """What the server did beyond our requests, as a share of them; None where it cannot be known.

    By requests, else by tokens written: those only of a block without failures, since what a failed request made the
    server write was not seen. Less than two requests, or than 16 tokens, are the seam between two readings. counted:
    whether the tokens of our answers are counted rightly.
    """
    counters = r.block.counters
    if "requests" in counters:
        ours = float(r.ok.size)
        return max(0.0, counters["requests"] - ours) / ours if counters["requests"] - ours >= 2 else 0.0
    written = r.numbers("output_tokens")
    if not counted or "generation_tokens" not in counters or not r.ok.all() or not np.isfinite(written).all():
        return None
    if any(source != "usage" for source in r.texts("tokens_source")) or written.sum() <= 0:
        return None
    beyond = counters["generation_tokens"] - float(written.sum())
    return beyond / float(written.sum()) if beyond > _SEAM_TOKENS else 0.0


_SEAM_TOKENS = 16


def partly_counted(bench: Bench) -> Iterator[Caution]:
    """A metrics page that counts fewer requests than succeeded is that of one server of several behind the URL."""
    for cell, name, blocks in bench.arms():
        told = [(r.block.counters["requests"], r.completed) for r in blocks if "requests" in r.block.counters]
        counted, ours = sum(t[0] for t in told), sum(t[1] for t in told)
        if ours and counted < limits.COUNTED.value * ours:
            yield Caution(
                code="counters-partial",
                message=f"the metrics page of {name} counted {counted:.0f} of {ours} requests: it is that of one "
                "server of several, or counts late",
                remedy="read its figures as those of a part; set `metrics_path` to a page that counts all",
                severity="note",
                variant=name,
                cell=cell.key,
            )


def restarts(bench: Bench) -> Iterator[Caution]:
    """Counters that began anew within a block: the server was restarted, or its counters were reset."""
    for cell, name, blocks in bench.arms():
        count = sum("restarts" in r.block.counters for r in blocks)
        if count:
            yield Caution(
                code="server-restarted",
                message=f"the counters of {name} began anew within {count_of(count, 'block')}: the server restarted",
                remedy="see its log; repeat when it runs through, since a cold server was measured",
                variant=name,
                cell=cell.key,
            )


def queueing(bench: Bench) -> Iterator[Caution]:
    """Time in the server's own queue, against TTFT as it was measured: waiting, not work."""
    for cell, candidate, pairs in bench.pairings():
        arms = {bench.base: [p.base for p in pairs], candidate: [p.other for p in pairs]}
        shares = {name: share for name, blocks in arms.items() if (share := _queue_share(blocks)) is not None}
        if not shares or max(share for share, _ in shares.values()) <= limits.QUEUEING.value:
            continue
        told = ", ".join(
            f"{name} {seconds * 1e3:.0f} ms ({percent(share)})" for name, (share, seconds) in shares.items()
        )
        yield Caution(
            code="queueing",
            message=f"requests wait in the server's queue, a request on average (share of TTFT): {told}",
            remedy="read TTFT here as waiting; a lower load shows the servers' own speed",
            severity="note",
            variant=candidate,
            cell=cell.key,
        )


def _queue_share(blocks: Sequence[Requests]) -> tuple[float, float] | None:
    """(share of the mean TTFT, mean seconds a request) spent in the queue, over blocks whose server tells."""
    told = [r for r in blocks if r.block.counters.get("queue_count", 0.0) > 0]
    if not told:
        return None
    requests = sum(r.block.counters["queue_count"] for r in told)
    waited = sum(r.block.counters.get("queue_s", 0.0) for r in told) / requests
    ttft = np.concatenate([r.values["ttft_s"] for r in told])
    ttft = ttft[np.isfinite(ttft)]
    return (min(1.0, waited / float(ttft.mean())), waited) if ttft.size and ttft.mean() > 0 else None


def kv_cache(bench: Bench) -> Iterator[Caution]:
    """A KV cache that is full, or requests put back because it was: the arm has less room than the load needs."""
    for cell, name, blocks in bench.arms():
        back = sum(r.block.counters.get("preemptions", 0.0) for r in blocks)
        peak = max((r.block.counters.get("kv_use", 0.0) for r in blocks), default=0.0)
        if back > 0:
            sent = sum(r.ok.size for r in blocks)
            yield Caution(
                code="preemptions",
                message=f"{name} put {count_of(round(back), 'request')} of {sent} back to its queue, because its KV "
                "cache was full; what was computed of them was computed again",
                remedy="more memory for the KV cache, a smaller cache type, shorter contexts or a lower load",
                variant=name,
                cell=cell.key,
            )
        elif peak > limits.KV_FULL.value:
            yield Caution(
                code="kv-full",
                message=f"the KV cache of {name} was up to {percent(peak)} full",
                remedy="more load will wait or be put back; give it more memory, or read this as the limit of this arm",
                severity="note",
                variant=name,
                cell=cell.key,
            )
