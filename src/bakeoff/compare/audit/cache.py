"""Prompts served from the prefix cache, where every prompt was to be new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...model import Caution
from ..extract import Requests
from . import limits
from .bench import PREFILL_METRICS, Bench, percent


class Hits(NamedTuple):
    """Share of prompt tokens taken from the cache, and tokens per request (both 0 where nothing is told)."""

    share: float
    tokens: float


def cache_hits(bench: Bench) -> Iterator[Caution]:
    """Invalid where either arm reuses more than the head of a template that both share."""
    for cell, candidate, pairs in bench.pairings():
        if bench.experiment.workload(cell.workload).cache != "unique":
            continue
        arms = {bench.base: _hits([p.base for p in pairs]), candidate: _hits([p.other for p in pairs])}
        a, b = arms.values()
        worst = max(arms, key=lambda name: arms[name].share)
        if arms[worst].share <= limits.CACHE_HITS.value:
            continue
        told = f"{worst} took {percent(arms[worst].share)} of its prompt tokens from the prefix cache"
        if max(a.tokens, b.tokens) <= limits.CACHE_HEAD_TOKENS.value and abs(a.tokens - b.tokens) <= 1:
            yield Caution(
                code="cache-head",
                message=f"both arms reuse the same {a.tokens:.0f} tokens of every prompt (the head of the template)",
                remedy="nothing to do: it is the same in both",
                severity="note",
                variant=candidate,
                cell=cell.key,
            )
            continue
        yield Caution(
            code="cache-hits",
            message=f"{told}, though every prompt was to be new",
            remedy="switch prefix caching off in both, or set `cache: shared` if reuse is what you measure",
            severity="invalid",
            variant=candidate,
            cell=cell.key,
            metrics=PREFILL_METRICS,
        )


def _hits(blocks: Sequence[Requests]) -> Hits:
    """By the larger of two witnesses: `usage` of each request, and the server's counters over the block."""
    cached = np.concatenate([r.numbers("cached_tokens") for r in blocks])
    prompt = np.concatenate([r.numbers("input_tokens") for r in blocks])
    told = np.isfinite(cached) & np.isfinite(prompt)
    by_usage = Hits(0.0, 0.0)
    if told.any() and prompt[told].sum() > 0:
        by_usage = Hits(float(cached[told].sum() / prompt[told].sum()), float(cached[told].mean()))
    hits = queries = requests = 0.0
    for r in blocks:
        seen = r.block.cache_query_tokens or np.nansum(r.numbers("input_tokens"))
        if r.block.cache_hit_tokens is not None and seen > 0:
            hits, queries, requests = hits + r.block.cache_hit_tokens, queries + float(seen), requests + r.ok.size
    by_counter = Hits(hits / queries, hits / requests) if queries and requests else Hits(0.0, 0.0)
    return max(by_usage, by_counter)
