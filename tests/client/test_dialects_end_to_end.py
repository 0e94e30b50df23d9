"""Every API over a real socket, against the mock server: what is asked is what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bakeoff.client import ClosedLoop, prepare, run_requests
from bakeoff.mock import LatencyModel, MockServer, ServeOptions, count_tokens, parse_fault, read_send_log
from bakeoff.model import Api, BlockSize, Capabilities, Load, Prompts, RequestRecord, Workload

from .server import endpoint, run

PROMPT = "What is the answer to all of it?"
APIS: tuple[Api, ...] = ("completions", "chat", "responses", "messages")


def records(
    api: Api,
    log: Path | None = None,
    *,
    fault: str | None = None,
    chunk_counts: dict[str, Any] | None = None,
    **model: Any,
) -> list[RequestRecord]:
    """Three answers of 12 tokens, two at a time."""
    workload = Workload(
        name="w",
        prompts=Prompts(input_tokens=8),
        output_tokens=12,
        load=Load(kind="closed", levels=(2,)),
        block=BlockSize(requests=3),
        api=api,
    )

    async def main() -> list[RequestRecord]:
        faults = (parse_fault(fault),) if fault else ()
        pace = LatencyModel(ttft_s=0.002, tpot_s=0.001, **model)
        server = MockServer(pace, ServeOptions(send_log=log, faults=faults))
        port = await server.start()
        try:
            can = Capabilities(ignore_eos=True, chunk_counts=chunk_counts or {})
            target = endpoint(f"http://127.0.0.1:{port}/v1", capabilities=can)
            requests = [prepare(target, workload, index, index, PROMPT) for index in range(3)]
            return (await run_requests(target, requests, ClosedLoop(2))).records
        finally:
            await server.stop()

    return run(main())


@pytest.mark.parametrize("api", APIS)
def test_what_is_asked_is_what_is_told(api: Api, tmp_path: Path) -> None:
    log = tmp_path / "send.jsonl"
    found = records(api, log)
    sent = read_send_log(log)
    assert len(found) == len(sent) == 3
    for r in found:
        assert (r.error, r.error_message, r.status, r.finish_reason) == (None, None, 200, "length")
        assert (r.output_tokens, r.asked_output_tokens, r.tokens_source) == (12, 12, "usage")
        assert r.input_tokens is not None
        assert r.input_tokens >= count_tokens(PROMPT)
        assert (sum(r.chunk_tokens), r.oddities) == (12, {})
        assert count_tokens(r.text) == 12
    # No arrival is before its sending: one clock.
    assert min(r.chunk_ns[0] for r in found) > min(s.first_send_ns or 0 for s in sent) > 0


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_tokens_of_each_chunk_where_the_server_counts_them(api: Api) -> None:
    asked = {"stream_options": {"continuous_usage_stats": True}}
    for r in records(api, chunk_counts=asked, tokens_per_chunk=4):
        assert (r.error, r.output_tokens, r.oddities) == (None, 12, {})
        assert sum(r.chunk_tokens) == 12
        assert max(r.chunk_tokens) == 4


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        ("error_first", "stream_error", "inside the stream"),
        ("error_event", "stream_error", "inside the stream"),
        ("broken_json", "stream_error", "broken event"),
        ("early_end", "truncated", "without a finish_reason"),
        ("truncated", "truncated", "the connection closed"),
        ("no_end", "truncated", "without a finish_reason"),
        ("empty", "empty", "no generated content"),
        ("no_body", "empty", "empty body"),
        ("gzip", "garbage", "compressed"),
        ("html", "garbage", "not an event stream"),
        ("not_streamed", "garbage", "plain JSON"),
        ("http_404", "not_found", "the workload's api"),
        ("http_500", "http", "HTTP 500"),
        ("redirect", "http", "redirected to /moved"),
    ],
)
def test_what_goes_wrong_is_told_alike_in_every_dialect(api: Api, fault: str, kind: str, says: str) -> None:
    for r in records(api, fault=fault):
        assert (r.error, says in (r.error_message or "")) == (kind, True)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("fault", "tokens", "oddities"),
    [
        ("crlf", 12, {}),
        ("tight", 12, {}),
        ("comments", 12, {}),
        ("split_utf8", 12, {}),
        ("slow_drip", 12, {}),
        ("giant_line", 12, {}),
        ("role_first", 12, {}),
        ("empty_choices", 12, {}),
        ("skewed_date", 12, {}),
        ("usage_every", 12, {}),
        ("no_usage", None, {}),
        ("wrong_usage", 24, {"surplus_tokens": 12}),
        ("duplicate", 12, {"surplus_chunks": 1}),
    ],
)
def test_what_is_only_odd_is_no_failure_in_any_dialect(
    api: Api, fault: str, tokens: int | None, oddities: dict[str, int]
) -> None:
    for r in records(api, fault=fault):
        assert (r.error, r.finish_reason, r.output_tokens, r.oddities) == (None, "length", tokens, oddities)
        assert r.tokens_source == ("unknown" if tokens is None else "usage")


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_reasoning_comes_first_and_is_no_output(api: Api) -> None:
    for r in records(api, fault="reasoning"):
        assert (r.error, r.output_tokens) == (None, 12)
        assert (count_tokens(r.reasoning), count_tokens(r.text)) == (6, 6)
        assert r.first_token_ns is not None
        assert r.first_output_ns is not None
        assert r.first_token_ns <= r.first_output_ns  # equal where one read held both
