"""What /metrics tells, in the words of four servers, is what the send log says; the prefix cache works by blocks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.mock import LatencyModel, RunningMock, SendRecord, running
from bakeoff.mock.counters import Histogram
from bakeoff.mock.prefixes import PrefixCache

from .raw import ask, get, prompt

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
MODEL = LatencyModel(ttft_s=0.004, per_input_token_s=0.0001, tpot_s=0.001, prefix_cache=True, kv_tokens=10_000)
SHARED = " ".join(f"word{i}" for i in range(40))


def read(text: str) -> dict[str, float]:
    """name → value, summed over labels; the buckets of histograms left out."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        found = _LINE.match(line)
        assert found is not None, line
        name, labels = found[1], found[2] or ""
        if 'stage="' in labels:
            name += "{" + labels.split('stage="')[1].split('"')[0] + "}"
        if not name.endswith("_bucket"):
            values[name] = values.get(name, 0.0) + float(found[3])
    return values


def run(dialect: str) -> tuple[dict[str, float], list[SendRecord], str]:
    with running(MODEL, metrics_dialect=dialect, model_name='a"b') as mock:
        for i in range(4):
            ask(mock.port, prompt(f"{SHARED} and then {i}", tokens=5))
        ask(mock.port, {**prompt(SHARED, tokens=5), "prompt": ""})  # refused: 400
        records = mock.send_log(5)
        text = get(mock.port, "/metrics").body.decode()
    return read(text), records, text


def seconds(records: list[SendRecord]) -> dict[str, float]:
    """Sums over the answered requests."""
    done = [r for r in records if r.finish == "length"]
    return {
        "queue": sum((r.start_ns or 0) - r.recv_ns for r in done) / 1e9,
        "prefill": sum(r.chunk_ns[0] - (r.start_ns or 0) for r in done) / 1e9,
        "decode": sum(r.chunk_ns[-1] - r.chunk_ns[0] for r in done) / 1e9,
        "e2e": sum(r.chunk_ns[-1] - r.recv_ns for r in done) / 1e9,
    }


def test_vllm() -> None:
    got, records, text = run("vllm")
    truth = seconds(records)
    assert got["vllm:prompt_tokens_total"] == got["vllm:prefix_cache_queries_total"] == 4 * 43
    assert got["vllm:prefix_cache_hits_total"] == 3 * 32  # two whole blocks of 16 in all but the first
    assert got["vllm:generation_tokens_total"] == 20
    assert got["vllm:request_success_total"] == 4
    assert got["vllm:num_requests_running"] == got["vllm:num_requests_waiting"] == got["vllm:kv_cache_usage_perc"] == 0
    for name in ("queue", "prefill", "decode"):
        assert got[f"vllm:request_{name}_time_seconds_sum"] == pytest.approx(truth[name])
        assert got[f"vllm:request_{name}_time_seconds_count"] == 4
    assert got["vllm:e2e_request_latency_seconds_sum"] == pytest.approx(truth["e2e"])
    assert got["vllm:inter_token_latency_seconds_count"] == 16
    assert got["vllm:inter_token_latency_seconds_sum"] == pytest.approx(truth["decode"])
    assert got["vllm:time_to_first_token_seconds_count"] == 4
    assert got["vllm:time_to_first_token_seconds_sum"] >= truth["prefill"] * 0.5
    assert 'model_name="a\\"b"' in text
    assert got["process_start_time_seconds"] > 1.7e9


def test_llamacpp() -> None:
    got, records, _ = run("llamacpp")
    truth = seconds(records)
    assert got["llamacpp:prompt_tokens_total"] == 4 * 43 - 3 * 32
    assert got["llamacpp:prompt_tokens_cached_total"] == 3 * 32
    assert got["llamacpp:tokens_predicted_total"] == 20
    assert got["llamacpp:prompt_seconds_total"] == pytest.approx(truth["prefill"])
    assert got["llamacpp:tokens_predicted_seconds_total"] == pytest.approx(truth["decode"])
    assert (got["llamacpp:n_decode_total"], got["llamacpp:n_busy_slots_per_decode"]) == (20, 1)  # one at a time
    assert got["llamacpp:n_tokens_max"] == 48


def test_sglang() -> None:
    got, records, _ = run("sglang")
    truth = seconds(records)
    assert got["sglang:prompt_tokens_total"] == 4 * 43
    assert got["sglang:cached_tokens_total"] == 3 * 32
    assert got["sglang:generation_tokens_total"] == 20
    assert got["sglang:num_requests_total"] == 4
    assert got["sglang:max_total_num_tokens"] == 10_000
    assert got["sglang:per_stage_req_latency_seconds_sum{prefill_forward}"] == pytest.approx(truth["prefill"])
    assert got["sglang:queue_time_seconds_count"] == 4


def test_tgi() -> None:
    got, records, _ = run("tgi")
    assert (got["tgi_request_count"], got["tgi_request_success"]) == (5, 4)
    assert got["tgi_request_input_length_sum"] == 4 * 43
    assert got["tgi_request_generated_tokens_sum"] == 20
    assert got["tgi_request_duration_sum"] == pytest.approx(seconds(records)["e2e"])


def test_gauges_while_it_works() -> None:
    import socket

    from .raw import encode

    with running(LatencyModel(ttft_s=0.001, tpot_s=0.05, slots=1, kv_tokens=100)) as mock:
        clients = [socket.create_connection(("127.0.0.1", mock.port), timeout=20) for _ in range(2)]
        for client in clients:
            client.sendall(encode("POST", "/v1/completions", prompt("one two three four", tokens=1000)))
        assert clients[0].recv(100)
        got = read(get(mock.port, "/metrics").body.decode())
        for client in clients:
            client.close()
    assert (got["vllm:num_requests_running"], got["vllm:num_requests_waiting"]) == (1, 1)
    assert 0.04 <= got["vllm:kv_cache_usage_perc"] <= 1


def cached(mock: RunningMock, text: str, **more: object) -> int:
    reply = ask(mock.port, prompt(text, tokens=4, **more))
    return int(reply.events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_prefixes_nonces_salts_and_conversations() -> None:
    with running(MODEL) as mock:
        assert cached(mock, f"{SHARED} one") == 0
        assert cached(mock, f"{SHARED} two") == 32  # the same beginning
        assert cached(mock, f"nonce {SHARED} two") == 0  # all is shifted by a token
        assert cached(mock, f"{SHARED} two", cache_salt="other") == 0
        assert cached(mock, f"{SHARED} two", cache_salt="other") == 32
        assert cached(mock, f"{SHARED} two", cache_prompt=False) == 0
        asked = [{"role": "user", "content": SHARED}]
        first = {"messages": asked, "max_tokens": 30, "ignore_eos": True}
        answer = ask(mock.port, first, path="/v1/chat/completions").json["choices"][0]["message"]["content"]
        turns = [*asked, {"role": "assistant", "content": answer}, {"role": "user", "content": "And then?"}]
        usage = ask(mock.port, {**first, "messages": turns}, path="/v1/chat/completions").json["usage"]
        assert usage["prompt_tokens"] == 40 + 30 + 3
        assert usage["prompt_tokens_details"]["cached_tokens"] == 64  # of its 73: the answer is in the cache as well
        records = mock.send_log(8)
    for record in records:
        assert record.due_first_ns is not None
        assert record.start_ns is not None
        wanted_ms = 4 + 0.1 * (record.input_tokens - record.cached_tokens)
        assert (record.due_first_ns - record.start_ns) / 1e6 == pytest.approx(wanted_ms, abs=0.01)


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=40), min_size=1, max_size=8),
    st.integers(1, 8),
)
def test_what_is_cached_is_the_longest_known_beginning_in_whole_blocks(prompts: list[list[int]], block: int) -> None:
    cache, known = PrefixCache(block, 1_000_000), set()
    for tokens in prompts:
        got = cache.begin(tuple(tokens), None)
        most = (len(tokens) - 1) // block * block
        assert got == max(n for n in range(0, most + 1, block) if n == 0 or tuple(tokens[:n]) in known)
        known |= {tuple(tokens[:n]) for n in range(block, len(tokens) + 1, block)}


def test_a_full_cache_forgets_the_oldest() -> None:
    cache = PrefixCache(2, 8)
    first, second = (1, 2, 3, 4, 5), (6, 7, 8, 9, 10)
    assert cache.begin(first, None) == 0
    assert cache.begin(second, None) == 0
    assert cache.begin(first, None) == 4
    assert cache.begin((11, 12, 13), None) == 0
    assert len(cache) == 4
    assert cache.begin(first, None) == 4
    assert cache.begin(second, None) == 2  # its end was the oldest


@given(st.lists(st.floats(0, 1000)))
def test_histograms_count_all(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    assert histogram.count == sum(histogram.buckets) == len(values)
    for bound, below in zip(histogram.bounds, (sum(histogram.buckets[: i + 1]) for i in range(16)), strict=True):
        assert below == sum(value <= bound for value in values)
