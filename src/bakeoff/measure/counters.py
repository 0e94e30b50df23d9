"""Prefix-cache counters of the server, read before and after each block."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..client import HttpClient
from ..errors import BakeoffError

# (hits, queries) by engine; a counter that a version does not have is simply absent.
_HITS = ("llamacpp:prompt_tokens_cached_total", "vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits")
_QUERIES = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries")
_PROCESSED = ("llamacpp:prompt_tokens_total",)  # llama.cpp counts what it did process, cached tokens left out
_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{[^}]*\})?\s+([0-9.eE+\-]+)", re.MULTILINE)


class CacheCount(NamedTuple):
    """Prompt tokens served from the prefix cache, and looked up, since the server started."""

    hits: float
    queries: float


def parse_cache_counters(text: str) -> CacheCount | None:
    """Reads Prometheus text (several label sets of one name are summed). None without cache counters."""
    sums: dict[str, float] = {}
    for match in _LINE.finditer(text):
        try:
            sums[match[1]] = sums.get(match[1], 0.0) + float(match[2])
        except ValueError:
            continue
    hits = next((sums[name] for name in _HITS if name in sums), None)
    if hits is None:
        return None
    queries = next((sums[name] for name in _QUERIES if name in sums), None)
    if queries is None:
        queries = hits + next((sums[name] for name in _PROCESSED if name in sums), 0.0)
    return CacheCount(hits, queries)


async def read_cache_counters(client: HttpClient, path: str | None) -> CacheCount | None:
    """Current counters, or None where the server does not tell; never an error: they are evidence, not input."""
    if path is None:
        return None
    try:
        return parse_cache_counters(await client.get_text(path))
    except BakeoffError:
        return None
