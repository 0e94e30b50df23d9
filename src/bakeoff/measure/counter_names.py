"""What each server calls the counters and gauges that a comparison uses, in old versions and new.

A name may carry a selector of one label, ``name{label=value}``; without one all label sets are summed. Of several
names the first that the server has counts. The suffix ``_total``, which some exporters add to counters, is left out.
Sources: vllm/v1/metrics/loggers.py (0.32) and its deprecation notes for the names before 0.11; SGLang's
metrics/collector.py; `/metrics` of llama.cpp's server; TGI's documentation of its metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

ServerKind = Literal["vllm", "sglang", "llamacpp", "tgi"]
Names = Mapping[ServerKind, tuple[str, ...]]

#: Counters: what is kept is their difference over a block.
COUNTERS: Mapping[str, Names] = {
    # requests that ended, whatever their end (TGI: that came in)
    "requests": {
        "vllm": ("vllm:request_success",),
        "sglang": ("sglang:num_requests",),
        "tgi": ("tgi_request_count",),
    },
    # prompt tokens, those from the cache among them (llama.cpp: without them, see ADDED)
    "prompt_tokens": {
        "vllm": ("vllm:prompt_tokens",),
        "sglang": ("sglang:prompt_tokens",),
        "llamacpp": ("llamacpp:prompt_tokens",),
        "tgi": ("tgi_request_input_length_sum",),
    },
    "generation_tokens": {
        "vllm": ("vllm:generation_tokens",),
        "sglang": ("sglang:generation_tokens",),
        "llamacpp": ("llamacpp:tokens_predicted",),
        "tgi": ("tgi_request_generated_tokens_sum",),
    },
    "cache_hit_tokens": {
        "vllm": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
        "sglang": ("sglang:cached_tokens",),
        "llamacpp": ("llamacpp:prompt_tokens_cached",),
    },
    "cache_query_tokens": {
        "vllm": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
        "sglang": ("sglang:prompt_tokens",),
        "llamacpp": ("llamacpp:prompt_tokens",),
    },
    # requests put back to the queue because the KV cache was full
    "preemptions": {
        "vllm": ("vllm:num_preemptions",),
        "sglang": (
            "sglang:num_retracted_requests",
            "sglang:num_retracted_reqs_total",  # without the suffix it is a gauge
            "sglang:num_retractions_sum",
        ),
    },
    # speculative decoding: tokens proposed, and of them kept
    "drafted_tokens": {
        "vllm": ("vllm:spec_decode_num_draft_tokens",),
        "llamacpp": ("llamacpp:spec_decode_num_draft_tokens",),
    },
    "accepted_tokens": {
        "vllm": ("vllm:spec_decode_num_accepted_tokens",),
        "llamacpp": ("llamacpp:spec_decode_num_accepted_tokens",),
    },
    # Σ over requests (llama.cpp counts seconds without a number of requests)
    "prefill_s": {"llamacpp": ("llamacpp:prompt_seconds",)},
    "decode_s": {"llamacpp": ("llamacpp:tokens_predicted_seconds",)},
    "decode_calls": {"llamacpp": ("llamacpp:n_decode",)},
    # seconds of the device over whole batches, not of requests
    "batch_prefill_s": {"tgi": ("tgi_batch_inference_duration_sum{method=prefill}",)},
    "batch_decode_s": {"tgi": ("tgi_batch_inference_duration_sum{method=decode}",)},
}

#: Histograms: `X` gives `X_s`, the sum over a block, and `X_count`, the number of observations.
HISTOGRAMS: Mapping[str, Names] = {
    "queue": {
        "vllm": ("vllm:request_queue_time_seconds", "vllm:time_in_queue_requests"),
        "sglang": ("sglang:queue_time_seconds",),
        "tgi": ("tgi_request_queue_duration",),
    },
    "prefill": {
        "vllm": ("vllm:request_prefill_time_seconds",),
        "sglang": ("sglang:per_stage_req_latency_seconds{stage=prefill_forward}",),
    },
    "decode": {
        "vllm": ("vllm:request_decode_time_seconds",),
        "sglang": ("sglang:per_stage_req_latency_seconds{stage=decode_forward}",),
    },
    "ttft": {
        "vllm": ("vllm:time_to_first_token_seconds",),
        "sglang": ("sglang:time_to_first_token_seconds",),
    },
    "itl": {
        "vllm": ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        "sglang": ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
    },
    "tpot": {
        "vllm": ("vllm:request_time_per_output_token_seconds",),
        "tgi": ("tgi_request_mean_time_per_token_duration",),
    },
    "e2e": {
        "vllm": ("vllm:e2e_request_latency_seconds",),
        "sglang": ("sglang:e2e_request_latency_seconds",),
        "tgi": ("tgi_request_duration",),
    },
}

#: Gauges, read about once a second during a block. llama.cpp answers /metrics from the loop that decodes and tells no
#: use of its cache, so it is not asked while it is measured: the slots it keeps busy come from counters (see BUSY).
GAUGES: Mapping[str, Names] = {
    "running": {
        "vllm": ("vllm:num_requests_running",),
        "sglang": ("sglang:num_running_reqs",),
        "tgi": ("tgi_batch_current_size",),
    },
    "waiting": {
        "vllm": ("vllm:num_requests_waiting",),
        "sglang": ("sglang:num_queue_reqs",),
        "tgi": ("tgi_queue_size",),
    },
    "kv_use": {
        "vllm": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        "sglang": ("sglang:token_usage",),
    },
}

#: llama.cpp counts the prompt tokens that it did process: those from its cache are added.
ADDED: Mapping[str, str] = {"prompt_tokens": "cache_hit_tokens", "cache_query_tokens": "cache_hit_tokens"}
#: llama.cpp's mean of busy slots since its start; times the decode calls it is a counter.
BUSY = "llamacpp:n_busy_slots_per_decode"
#: When the process started [s since the epoch], as Prometheus' client libraries tell: another value, another process.
PROCESS_START = "process_start_time_seconds"

PREFIXES: Mapping[str, ServerKind] = {"vllm:": "vllm", "sglang:": "sglang", "llamacpp:": "llamacpp", "tgi_": "tgi"}
