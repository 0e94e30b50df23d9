"""GET /metrics in the words of a real server: the same truth under the names of vLLM, llama.cpp, SGLang or TGI.

Sources of the names: vllm/v1/metrics/loggers.py (0.32); the strings of llama.cpp's server (build 11549);
sglang/srt/metrics/collector.py and its documentation; TGI's documentation of its metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from .counters import Histogram, Meter

MetricsDialect = Literal["vllm", "llamacpp", "sglang", "tgi"]
DIALECTS: tuple[MetricsDialect, ...] = get_args(MetricsDialect)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_REASONS = {"stop": "stop", "length": "length", "cancelled": "abort", "shutdown": "abort", "fault": "error"}


def expose(meter: Meter, dialect: MetricsDialect, model: str, kv_tokens: int) -> str:
    """The text of /metrics. `kv_tokens`: size of the KV cache."""
    use = min(1.0, meter.running_tokens / kv_tokens)
    lines: Iterable[str]
    if dialect == "llamacpp":
        lines = _llamacpp(meter)
    elif dialect == "tgi":
        lines = _tgi(meter)
    elif dialect == "sglang":
        labels = f'engine_type="unified",model_name="{_label(model)}",pp_rank="0",tp_rank="0"'
        lines = (*_process(meter), *_sglang(meter, labels, use, kv_tokens))
    else:
        lines = (*_process(meter), *_vllm(meter, f'engine="0",model_name="{_label(model)}"', use))
    return "\n".join([*lines, ""])


def _label(text: str) -> str:
    """A label's value: what would end it is escaped."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _one(kind: str, name: str, says: str, value: float, labels: str = "") -> Iterator[str]:
    yield f"# HELP {name} {says}"
    yield f"# TYPE {name} {kind}"
    yield f"{name}{{{labels}}} {_number(value)}" if labels else f"{name} {_number(value)}"


def _histogram(name: str, says: str, histogram: Histogram, labels: str = "") -> Iterator[str]:
    yield f"# HELP {name} {says}"
    yield f"# TYPE {name} histogram"
    yield from _series(name, histogram, labels)


def _series(name: str, histogram: Histogram, labels: str) -> Iterator[str]:
    comma, braces = (",", f"{{{labels}}}") if labels else ("", "")
    below = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.buckets, strict=True):
        below += count
        le = "+Inf" if bound == float("inf") else repr(float(bound))
        yield f'{name}_bucket{{{labels}{comma}le="{le}"}} {below}'
    yield f"{name}_sum{braces} {_number(histogram.total)}"
    yield f"{name}_count{braces} {histogram.count}"


def _process(meter: Meter) -> Iterator[str]:
    yield from _one("gauge", "process_start_time_seconds", "Start of the process since the epoch.", meter.started_s)


def _vllm(meter: Meter, labels: str, use: float) -> Iterator[str]:
    gauges = (
        ("num_requests_running", "Requests in execution.", len(meter.running)),
        ("num_requests_waiting", "Requests that wait.", meter.waiting),
        ("kv_cache_usage_perc", "Share of the KV cache in use, 0 to 1.", use),
    )
    for name, says, value in gauges:
        yield from _one("gauge", f"vllm:{name}", says, value, labels)
    counters = (
        ("prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", meter.queried_tokens),
        ("prefix_cache_hits", "Prompt tokens found in the prefix cache.", meter.cached_tokens),
        ("num_preemptions", "Preempted requests.", 0),
        ("prompt_tokens", "Prompt tokens.", meter.prompt_tokens),
        ("prompt_tokens_cached", "Prompt tokens taken from the cache.", meter.cached_tokens),
        ("generation_tokens", "Generated tokens.", meter.generated_tokens),
    )
    for name, says, value in counters:
        yield from _one("counter", f"vllm:{name}_total", says, value, labels)
    yield "# HELP vllm:request_success_total Requests that ended, by the reason."
    yield "# TYPE vllm:request_success_total counter"
    for reason in ("stop", "length", "abort", "error"):
        count = sum([n for finish, n in meter.ended.items() if _REASONS.get(finish) == reason])
        yield f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {count}'
    histograms: Sequence[tuple[str, str, Histogram]] = (
        ("time_to_first_token_seconds", "Time to the first token.", meter.ttft),
        ("inter_token_latency_seconds", "Time between tokens.", meter.itl),
        ("request_time_per_output_token_seconds", "Time per output token of a request.", meter.tpot),
        ("e2e_request_latency_seconds", "Time of whole requests.", meter.e2e),
        ("request_queue_time_seconds", "Time of requests in the queue.", meter.queue),
        ("request_prefill_time_seconds", "Time of requests in prefill.", meter.prefill),
        ("request_decode_time_seconds", "Time of requests in decode.", meter.decode),
        ("request_prompt_tokens", "Prompt tokens of a request.", meter.prompt_lengths),
        ("request_generation_tokens", "Generated tokens of a request.", meter.answer_lengths),
    )
    for name, says, histogram in histograms:
        yield from _histogram(f"vllm:{name}", says, histogram, labels)


def _llamacpp(meter: Meter) -> Iterator[str]:
    computed = meter.prompt_tokens - meter.cached_tokens
    calls = meter.decode_calls
    counters = (
        ("prompt_tokens_total", "Prompt tokens processed, without those from the cache.", computed),
        ("prompt_tokens_cached_total", "Prompt tokens taken from the cache.", meter.cached_tokens),
        ("prompt_seconds_total", "Time of prompt processing.", meter.prefill.total),
        ("tokens_predicted_total", "Tokens generated.", meter.generated_tokens),
        ("tokens_predicted_seconds_total", "Time of generation.", meter.decode.total),
        ("n_decode_total", "Decode steps.", round(calls)),
        ("n_tokens_max", "Longest sequence.", meter.longest),
    )
    for name, says, value in counters:
        yield from _one("counter", f"llamacpp:{name}", says, value)
    prefill_s, decode_s = meter.prefill.total, meter.decode.total
    gauges = (
        ("prompt_tokens_seconds", "Prompt tokens per second.", computed / prefill_s if prefill_s else 0),
        ("predicted_tokens_seconds", "Tokens per second.", meter.generated_tokens / decode_s if decode_s else 0),
        ("requests_processing", "Requests that hold a slot.", len(meter.running)),
        ("requests_deferred", "Requests that wait for a slot.", meter.waiting),
        ("n_busy_slots_per_decode", "Busy slots per decode step.", meter.generated_tokens / calls if calls else 0),
    )
    for name, says, gauge in gauges:
        yield from _one("gauge", f"llamacpp:{name}", says, gauge)


def _sglang(meter: Meter, labels: str, use: float, kv_tokens: int) -> Iterator[str]:
    rate = meter.cached_tokens / meter.prompt_tokens if meter.prompt_tokens else 0
    gauges = (
        ("num_running_reqs", "Running requests.", len(meter.running)),
        ("num_queue_reqs", "Requests in the queue.", meter.waiting),
        ("num_used_tokens", "Tokens in use.", meter.running_tokens),
        ("token_usage", "Share of the token pool in use, 0 to 1.", use),
        ("max_total_num_tokens", "Tokens of the pool.", kv_tokens),
        ("cache_hit_rate", "Share of the prompt tokens taken from the cache.", rate),
    )
    for name, says, value in gauges:
        yield from _one("gauge", f"sglang:{name}", says, value, labels)
    aborted = sum([n for finish, n in meter.ended.items() if _REASONS.get(finish) == "abort"])
    counters = (
        ("prompt_tokens_total", "Prompt tokens.", meter.prompt_tokens),
        ("generation_tokens_total", "Generated tokens.", meter.generated_tokens),
        ("cached_tokens_total", "Prompt tokens taken from the cache.", meter.cached_tokens),
        ("num_requests_total", "Requests that ended.", meter.e2e.count),
        ("num_aborted_requests_total", "Requests that were given up.", aborted),
    )
    for name, says, value in counters:
        yield from _one("counter", f"sglang:{name}", says, value, labels)
    histograms: Sequence[tuple[str, str, Histogram]] = (
        ("time_to_first_token_seconds", "Time to the first token.", meter.ttft),
        ("inter_token_latency_seconds", "Time between tokens.", meter.itl),
        ("e2e_request_latency_seconds", "Time of whole requests.", meter.e2e),
        ("queue_time_seconds", "Time of requests in the queue.", meter.queue),
    )
    for name, says, histogram in histograms:
        yield from _histogram(f"sglang:{name}", says, histogram, labels)
    stage = "sglang:per_stage_req_latency_seconds"
    yield f"# HELP {stage} Time of requests in each stage."
    yield f"# TYPE {stage} histogram"
    for where, histogram in (("prefill_forward", meter.prefill), ("decode_forward", meter.decode)):
        yield from _series(stage, histogram, f'{labels},stage="{where}"')


def _tgi(meter: Meter) -> Iterator[str]:
    yield from _one("counter", "tgi_request_count", "Requests that came in.", meter.received)
    done = meter.ended.get("stop", 0) + meter.ended.get("length", 0)
    yield from _one("counter", "tgi_request_success", "Requests that were answered.", done)
    yield from _one("gauge", "tgi_batch_current_size", "Requests in the batch.", len(meter.running))
    yield from _one("gauge", "tgi_queue_size", "Requests in the queue.", meter.waiting)
    histograms: Sequence[tuple[str, str, Histogram]] = (
        ("tgi_request_duration", "Time of whole requests [s].", meter.e2e),
        ("tgi_request_queue_duration", "Time of requests in the queue [s].", meter.queue),
        ("tgi_request_mean_time_per_token_duration", "Mean time per token of a request [s].", meter.tpot),
        ("tgi_request_input_length", "Prompt tokens of a request.", meter.prompt_lengths),
        ("tgi_request_generated_tokens", "Generated tokens of a request.", meter.answer_lengths),
    )
    for name, says, histogram in histograms:
        yield from _histogram(name, says, histogram)
