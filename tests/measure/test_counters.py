from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bakeoff.measure.counters import CacheCount, parse_cache_counters

LLAMACPP = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 120
llamacpp:prompt_tokens_cached_total 30
"""
VLLM = """\
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 5000.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1.5e3
vllm:prefix_cache_hits_total{engine="1",model_name="m"} 500
"""


def test_llamacpp_counts_processed_tokens_without_the_cached_ones() -> None:
    assert parse_cache_counters(LLAMACPP) == CacheCount(30, 150)


def test_vllm_counters_are_summed_over_engines() -> None:
    assert parse_cache_counters(VLLM) == CacheCount(2000, 5000)


def test_no_counter_is_not_zero_hits() -> None:
    assert parse_cache_counters("up 1\n") is None


@given(st.text())
def test_any_text_is_read_without_a_crash(text: str) -> None:
    count = parse_cache_counters(text)
    assert count is None or count.queries >= 0
