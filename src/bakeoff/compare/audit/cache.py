"""Prompts served from the prefix cache: none where every prompt was to be new, else what the workload itself shares.

Two witnesses are asked, and the one that tells of more is believed: `usage` of each request, and the server's own
counters over the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...model import Caution
from ..extract import Requests
from . import limits
from .bench import PREFILL_METRICS, Bench, percent
from .sharing import shareable_tokens

_BLOCKS_READ = 4  # the last ones of an arm: comparing long prompts character by character has its price


class Hits(NamedTuple):
    """Share of prompt tokens taken from the cache, and tokens per request (both 0 where nothing is told)."""

    share: float
    tokens: float
    told: bool = True


def cache_hits(bench: Bench) -> Iterator[Caution]:
    """`unique`: invalid where either arm reuses more than the head of a template that both share."""
    for cell, candidate, pairs in bench.pairings():
        if bench.experiment.workload(cell.workload).cache != "unique":
            continue
        arms = {bench.base: _hits([p.base for p in pairs]), candidate: _hits([p.other for p in pairs])}
        a, b = arms.values()
        worst = max(arms, key=lambda name: arms[name].share)
        if arms[worst].share <= limits.CACHE_HITS.value:
            continue
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
        (other,) = [name for name in arms if name != worst] or [worst]
        yield Caution(
            code="cache-hits",
            message=f"{worst} took {percent(arms[worst].share)} of its prompt tokens from the prefix cache "
            f"({other} {_share(arms[other])}), though every prompt was to be new",
            remedy="switch prefix caching off in both, or set `cache: shared` if reuse is what you measure",
            severity="invalid",
            variant=candidate,
            cell=cell.key,
            metrics=PREFILL_METRICS,
        )


def cache_use(bench: Bench) -> Iterator[Caution]:
    """`declared` and `shared`: how much each arm reuses. Unequal reuse of what both were offered is a finding."""
    for cell, candidate, pairs in bench.pairings():
        policy = bench.experiment.workload(cell.workload).cache
        if policy == "unique":
            continue
        base, other = _hits([p.base for p in pairs]), _hits([p.other for p in pairs])
        if not (base.told or other.told):
            continue
        shares = f"prompt tokens from the prefix cache: {bench.base} {_share(base)}, {candidate} {_share(other)}"
        apart = base.told and other.told and abs(base.share - other.share) > limits.CACHE_UNEQUAL.value
        if policy == "declared" and apart:
            yield Caution(
                code="cache-unequal",
                message=f"{shares}: they were offered the same, so times to the first token differ by that too",
                remedy="a finding about the arms; make their settings of the cache equal to compare the rest",
                variant=candidate,
                cell=cell.key,
            )
        else:
            yield Caution(
                code="cache-use",
                message=shares,
                remedy="nothing to do: reuse is part of what is measured",
                severity="note",
                variant=candidate,
                cell=cell.key,
            )


def contamination(bench: Bench) -> Iterator[Caution]:
    """`declared`: more reuse than the prompts of a block share is left over from earlier blocks."""
    for cell, name, blocks in bench.arms():
        if bench.experiment.workload(cell.workload).cache != "declared":
            continue
        hits = prompt = possible = 0.0
        for r in blocks[-_BLOCKS_READ:]:
            found, bound = _hits([r]), shareable_tokens(r)
            tokens = float(np.nansum(r.numbers("input_tokens")))
            if found.told and bound is not None and tokens > 0:
                hits, prompt, possible = hits + found.share * tokens, prompt + tokens, possible + bound
        if not prompt or hits <= possible + limits.CACHE_BEYOND.value * prompt:
            continue
        yield Caution(
            code="cache-contamination",
            message=f"{name} took {percent(hits / prompt)} of its prompt tokens from the prefix cache, but the prompts "
            f"of a block share at most {percent(possible / prompt)}: the rest is left over from earlier blocks",
            remedy="let Bakeoff start the servers afresh each round, or clear their caches between blocks; with "
            "`cache: shared` reuse over blocks is meant",
            severity="invalid",
            variant=name,
            cell=cell.key,
            metrics=PREFILL_METRICS,
        )


def _share(hits: Hits) -> str:
    return percent(hits.share) if hits.told else "not told"


def _hits(blocks: Sequence[Requests]) -> Hits:
    """By the larger of the two witnesses."""
    cached = np.concatenate([r.numbers("cached_tokens") for r in blocks])
    prompt = np.concatenate([r.numbers("input_tokens") for r in blocks])
    told = np.isfinite(cached) & np.isfinite(prompt)
    silent = Hits(0.0, 0.0, told=False)
    by_usage = silent
    if told.any() and prompt[told].sum() > 0:
        by_usage = Hits(float(cached[told].sum() / prompt[told].sum()), float(cached[told].mean()))
    hits = queries = requests = 0.0
    for r in blocks:
        seen = r.block.cache_query_tokens or np.nansum(r.numbers("input_tokens"))
        if r.block.cache_hit_tokens is not None and seen > 0:
            hits, queries, requests = hits + r.block.cache_hit_tokens, queries + float(seen), requests + r.ok.size
    by_counter = Hits(hits / queries, hits / requests) if queries and requests else silent
    return max(by_usage, by_counter)
