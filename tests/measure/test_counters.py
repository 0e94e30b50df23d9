from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bakeoff.measure.counter_names import COUNTERS, GAUGES, HISTOGRAMS
from bakeoff.measure.counters import Counts, difference, read_counts
from bakeoff.measure.gauges import Gauges, gauge_names, scan_gauges

LLAMACPP = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 120
llamacpp:prompt_tokens_cached_total 30
llamacpp:prompt_seconds_total 1.25
llamacpp:tokens_predicted_total 64
llamacpp:tokens_predicted_seconds_total 2.5
llamacpp:n_decode_total 40
llamacpp:n_busy_slots_per_decode 1.5
llamacpp:spec_decode_num_draft_tokens_total 10
llamacpp:spec_decode_num_accepted_tokens_total 7
llamacpp:requests_processing 1
"""
VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m"} 7.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 5.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 5000.0
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.7e9
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1.5e3
vllm:prefix_cache_hits_total{engine="1",model_name="m"} 500
vllm:prompt_tokens_total{engine="0",model_name="m"} 5000
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 3000
vllm:generation_tokens_total{engine="0",model_name="m"} 800
vllm:request_success_total{engine="0",finished_reason="stop"} 4
vllm:request_success_total{engine="0",finished_reason="length"} 6
vllm:num_preemptions_total{engine="0",model_name="m"} 1
vllm:spec_decode_num_draft_tokens_total{engine="0"} 90
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 60
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 40
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3"} 10.0
vllm:request_queue_time_seconds_count{engine="0"} 10.0
vllm:request_queue_time_seconds_sum{engine="0"} 0.5
vllm:request_prefill_time_seconds_sum{engine="0"} 1.0
vllm:request_prefill_time_seconds_count{engine="0"} 10
vllm:request_decode_time_seconds_sum{engine="0"} 8.0
vllm:time_to_first_token_seconds_sum{engine="0"} 1.6
vllm:inter_token_latency_seconds_sum{engine="0"} 7.9
vllm:inter_token_latency_seconds_count{engine="0"} 790
process_start_time_seconds 1.75e9
"""
VLLM_0_6 = """\
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
vllm:num_requests_swapped{model_name="m"} 0.0
vllm:time_in_queue_requests_sum{model_name="m"} 0.4
vllm:time_in_queue_requests_count{model_name="m"} 8
vllm:time_per_output_token_seconds_sum{model_name="m"} 3.0
vllm:request_success_total{finished_reason="stop",model_name="m"} 8
"""
SGLANG = """\
sglang:num_running_reqs{model_name="m",tp_rank="0"} 4.0
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 9.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.28
sglang:cache_hit_rate{model_name="m"} 0.0075
sglang:prompt_tokens_total{model_name="m"} 700
sglang:cached_tokens_total{cache_source="device",model_name="m"} 300
sglang:cached_tokens_total{cache_source="host",model_name="m"} 50
sglang:generation_tokens_total{model_name="m"} 90
sglang:num_requests_total{model_name="m"} 9
sglang:num_retracted_requests_total{model_name="m"} 2
sglang:queue_time_seconds_sum{model_name="m"} 0.9
sglang:queue_time_seconds_count{model_name="m"} 9
sglang:per_stage_req_latency_seconds_sum{model_name="m",stage="prefill_forward"} 0.5
sglang:per_stage_req_latency_seconds_sum{model_name="m",stage="decode_forward"} 4.0
sglang:per_stage_req_latency_seconds_sum{model_name="m",stage="chunked_prefill"} 77.0
"""
TGI = """\
# TYPE tgi_request_count counter
tgi_request_count 42
tgi_request_success 40
tgi_queue_size 3
tgi_batch_current_size 8
tgi_request_input_length_sum 4200
tgi_request_generated_tokens_sum 1300
tgi_request_queue_duration_sum 2.1
tgi_request_queue_duration_count 42
tgi_batch_inference_duration_sum{method="prefill"} 0.9
tgi_batch_inference_duration_sum{method="decode"} 30.0
tgi_request_mean_time_per_token_duration_sum 1.2
"""


def values(text: str) -> dict[str, float]:
    counts = read_counts(text)
    assert counts is not None
    return dict(counts.values)


def test_llamacpp_counts_processed_tokens_without_the_cached_ones() -> None:
    assert values(LLAMACPP) == {
        "prompt_tokens": 150,
        "generation_tokens": 64,
        "cache_hit_tokens": 30,
        "cache_query_tokens": 150,
        "drafted_tokens": 10,
        "accepted_tokens": 7,
        "prefill_s": 1.25,
        "decode_s": 2.5,
        "decode_calls": 40,
        "busy_slots": 60,
    }


def test_a_llamacpp_that_counts_no_cached_tokens_tells_nothing_of_its_cache() -> None:
    found = values("llamacpp:prompt_tokens_total 120\n")
    assert found == {"prompt_tokens": 120}


def test_vllm_is_summed_over_engines_and_over_reasons() -> None:
    found = values(VLLM)
    assert found["cache_hit_tokens"] == 2000
    assert found["cache_query_tokens"] == found["prompt_tokens"] == 5000
    assert found["requests"] == 10
    assert (found["drafted_tokens"], found["accepted_tokens"], found["preemptions"]) == (90, 60, 1)
    assert (found["queue_s"], found["queue_count"]) == (0.5, 10)
    assert (found["prefill_s"], found["decode_s"], found["ttft_s"], found["itl_s"]) == (1.0, 8.0, 1.6, 7.9)
    assert read_counts(VLLM) == Counts("vllm", found, 1.75e9)


def test_names_of_older_versions() -> None:
    found = values(VLLM_0_6)
    assert found == {"queue_s": 0.4, "queue_count": 8, "itl_s": 3.0, "requests": 8}
    assert scan_gauges(VLLM_0_6.encode(), gauge_names("vllm")) == Gauges(kv_use=0.5)


def test_names_without_colons_are_the_same_names() -> None:
    assert values(VLLM.replace("vllm:", "vllm_")) == values(VLLM)
    names = gauge_names("vllm")
    assert scan_gauges(VLLM.replace("vllm:", "vllm_").encode(), names) == scan_gauges(VLLM.encode(), names)


def test_sglang_by_cache_source_and_by_stage() -> None:
    found = values(SGLANG)
    assert (found["cache_hit_tokens"], found["cache_query_tokens"]) == (350, 700)
    assert (found["prefill_s"], found["decode_s"], found["queue_s"]) == (0.5, 4.0, 0.9)
    assert (found["requests"], found["preemptions"]) == (9, 2)
    assert scan_gauges(SGLANG.encode(), gauge_names("sglang")) == Gauges(4.0, 9.0, 0.28)


def test_tgi_by_method() -> None:
    found = values(TGI)
    assert (found["requests"], found["prompt_tokens"], found["generation_tokens"]) == (42, 4200, 1300)
    assert (found["batch_prefill_s"], found["batch_decode_s"], found["queue_s"]) == (0.9, 30.0, 2.1)
    assert "cache_hit_tokens" not in found
    assert scan_gauges(TGI.encode(), gauge_names("tgi")) == Gauges(8.0, 3.0, None)


def test_gauges_of_several_engines_and_of_names_that_begin_alike() -> None:
    assert scan_gauges(VLLM.encode(), gauge_names("vllm")) == Gauges(5.0, 7.0, 0.75)


def test_llamacpp_is_not_asked_while_it_decodes() -> None:
    assert gauge_names("llamacpp") == {}


def test_no_known_counter_is_not_zero_hits() -> None:
    assert read_counts("up 1\nprocess_start_time_seconds 5\n") is None


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-", "1e999"])
def test_what_is_no_number_is_no_reading(number: str) -> None:
    assert values(f"tgi_request_count {number}\ntgi_queue_size 1\ntgi_request_input_length_sum 5\n") == {
        "prompt_tokens": 5
    }
    assert scan_gauges(f"tgi_queue_size {number}\n".encode(), gauge_names("tgi")) == Gauges()


def test_labels_may_hold_anything() -> None:
    text = 'vllm:prompt_tokens_total{model_name="a } \\" # {x=\\"y\\"} 9"} 7 1700000000000\n'
    assert values(text) == {"prompt_tokens": 7}


# differences ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def counts(started: float | None = None, **values: float) -> Counts:
    return Counts("vllm", values, started)


def test_a_difference_is_what_happened_in_between() -> None:
    assert difference(counts(requests=5, queue_s=1.0), counts(requests=8, queue_s=1.5)) == {
        "requests": 3,
        "queue_s": 0.5,
    }


def test_a_counter_that_its_first_event_creates_began_at_zero() -> None:
    assert difference(counts(), counts(preemptions=2)) == {"preemptions": 2}


def test_counters_that_begin_anew_tell_of_a_restart_and_of_nothing_else() -> None:
    assert difference(counts(requests=5), counts(requests=3)) == {"restarts": 1}
    assert difference(counts(1.0, requests=5), counts(2.0, requests=9)) == {"restarts": 1}
    assert difference(counts(1.0, requests=5), counts(1.0, requests=9)) == {"requests": 4}


def test_a_server_that_does_not_tell_has_no_differences() -> None:
    assert difference(None, counts(requests=5)) == difference(counts(requests=5), None) == {}


def test_busy_slots_are_a_mean_over_the_decode_calls_of_the_block() -> None:
    before = Counts("llamacpp", {"decode_calls": 100, "busy_slots": 150.0})
    after = Counts("llamacpp", {"decode_calls": 200, "busy_slots": 450.0})
    assert difference(before, after) == {"decode_calls": 100, "running": 3.0}


# any text ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_NAMES = sorted(
    {
        n.partition("{")[0]
        for table in (COUNTERS, HISTOGRAMS, GAUGES)
        for s in table.values()
        for t in s.values()
        for n in t
    }
)
_LINES = st.builds(
    "{}{}{} {}\n".format,
    st.sampled_from(_NAMES),
    st.sampled_from(["", "_total", "_sum", "_count", "_bucket"]),
    st.sampled_from(["", '{a="b"}', '{a="b', "{", '{method="prefill",x="\\""}', "{}"]) | st.text(max_size=8),
    st.sampled_from(["1", "-3.5", "1e400", "NaN", "", "x", "1 2", "--"]) | st.text(max_size=6),
)


@given(st.text() | st.lists(_LINES, max_size=20).map("".join))
@example("vllm:prompt_tokens_total{" + 'a="b",' * 20_000 + "\n")
@example("x" * 100_000)
def test_any_text_is_read_without_a_crash(text: str) -> None:
    found = read_counts(text)
    assert found is None or all(abs(value) < float("inf") for value in found.values.values())
    for server in ("vllm", "sglang", "tgi"):
        gauges = scan_gauges(text.encode("utf-8", "replace"), gauge_names(server))
        assert all(value is None or abs(value) < float("inf") for value in gauges)
