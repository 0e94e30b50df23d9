"""Every fault, seen by the load client: classified, counted, nothing lost, nothing hung, no retry that hides it.

A fault without an expectation here fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bakeoff.client import ClientBlock, ClosedLoop, OpenLoop, PreparedRequest, Timeouts, loop_runner, run_requests
from bakeoff.mock import FAULTS, LatencyModel, MockServer, SendRecord, ServeOptions, parse_fault, read_send_log, running
from bakeoff.mock.words import count_tokens
from bakeoff.model import Endpoint, ErrorKind, RequestRecord

TOKENS = 8
QUICK = LatencyModel(ttft_s=0.002, tpot_s=0.0005, noise_seed=1)
PATIENT = Timeouts(connect_s=20.0, request_s=60.0)
IMPATIENT = Timeouts(connect_s=20.0, request_s=0.3)  # only for servers that never answer
ENDPOINT_PATHS = {"reasoning": "/chat/completions", "tool_calls": "/chat/completions"}


@dataclass
class Expected:
    """What the client is to make of a request that meets the fault."""

    error: ErrorKind | None = None
    check: Callable[[RequestRecord], bool] = lambda _record: True
    tokens: int | None = TOKENS  # of the usage, where there is no error
    contents: int = TOKENS  # chunks with content


def partial(record: RequestRecord) -> bool:
    """What was seen before the failure is kept."""
    return len(record.chunk_ns) == TOKENS // 2 and count_tokens(record.text) == TOKENS // 2


def nothing_seen(record: RequestRecord) -> bool:
    return record.chunk_ns == [] and record.text == "" and record.first_token_ns is None


EXPECTED: dict[str, Expected] = {
    "http_401": Expected("auth", lambda r: r.status == 401),
    "http_404": Expected("not_found", lambda r: r.status == 404),
    "http_429": Expected("rate_limited", lambda r: r.retry_after_s == 1.0),
    "http_429_bare": Expected("rate_limited", lambda r: r.retry_after_s is None),
    "http_429_date": Expected("rate_limited", lambda r: r.retry_after_s is not None and r.retry_after_s >= 0),
    "http_500": Expected("http", lambda r: r.status == 500),
    "http_503": Expected("http", lambda r: r.status == 503),
    "redirect": Expected("http", lambda r: r.status == 307),
    "garbage": Expected("garbage", nothing_seen),
    "html": Expected("garbage", lambda r: "It works" in (r.error_message or "")),
    "gzip": Expected("garbage", lambda r: "gzip" in (r.error_message or "")),
    "not_streamed": Expected("garbage", nothing_seen),
    "no_body": Expected("empty", nothing_seen),
    "close_first": Expected("reset", lambda r: nothing_seen(r) and r.first_byte_ns is None),
    "reset_first": Expected("reset", lambda r: nothing_seen(r) and r.first_byte_ns is None),
    "reset": Expected("reset", lambda r: len(r.chunk_ns) <= TOKENS // 2),  # RST throws away what was not yet read
    "truncated": Expected("truncated", partial),
    "early_end": Expected("truncated", partial),
    "bad_framing": Expected("garbage", partial),
    "hang": Expected("timeout", lambda r: nothing_seen(r) and r.first_byte_ns is None),
    "hang_first": Expected("timeout", lambda r: nothing_seen(r) and r.status == 200),
    "hang_mid": Expected("timeout", partial),
    "no_keep_alive": Expected(),
    "error_event": Expected("stream_error", partial),
    "error_first": Expected("stream_error", nothing_seen),
    "broken_json": Expected("stream_error", lambda r: len(r.chunk_ns) == TOKENS - 1),
    "split_utf8": Expected(check=lambda r: r.text.count("ß中𝔘") == TOKENS),
    "crlf": Expected(),
    "tight": Expected(),
    "comments": Expected(),
    "giant_line": Expected(),
    "slow_drip": Expected(),
    "batched": Expected(contents=3, check=lambda r: count_tokens(r.text) == TOKENS),
    "role_first": Expected(check=lambda r: (r.first_byte_ns or 0) <= (r.first_token_ns or 0)),
    "empty_choices": Expected(),
    "duplicate": Expected(contents=TOKENS + 1),
    "after_finish": Expected(contents=TOKENS + 2),
    "no_finish": Expected(check=lambda r: r.finish_reason is None),
    "no_done": Expected(check=lambda r: r.finish_reason == "length"),
    "no_end": Expected("truncated", lambda r: len(r.chunk_ns) == TOKENS),
    "no_usage": Expected(tokens=None, check=lambda r: r.tokens_source == "unknown"),
    "wrong_usage": Expected(tokens=2 * TOKENS),
    "usage_every": Expected(check=lambda r: r.chunk_tokens == [1] * TOKENS),
    "reasoning": Expected(
        check=lambda r: (
            count_tokens(r.reasoning) == count_tokens(r.text) == r.reasoning_tokens == TOKENS // 2
            and (r.first_token_ns or 0) <= (r.first_output_ns or 0)
        )
    ),
    "tool_calls": Expected(check=lambda r: r.text.endswith('"}')),
    "empty": Expected("empty", nothing_seen),
    "repeat_token": Expected(),
    "gibberish": Expected(check=lambda r: not r.text.isascii()),
    "skewed_date": Expected(check=lambda r: 0 < (r.first_token_ns or 0) - (r.sent_ns or 0) < 60_000_000_000),
    "never_ready": Expected("http", lambda r: r.status == 503),
    "refused": Expected("connect", lambda r: "refused" in (r.error_message or "") and r.sent_ns is None),
    "die_after": Expected(),  # of the whole process: a test of its own
}


def requests(count: int, path: str) -> list[PreparedRequest]:
    prompt = b'"messages":[{"role":"user","content":"Hi %d"}]' if "chat" in path else b'"prompt":"Hi %d"'
    rest = b',"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}' % TOKENS
    return [
        PreparedRequest(index=i, prompt_id=i, path=path, body=b"{" + prompt % i + rest, prompt=f"Hi {i}")
        for i in range(count)
    ]


def block(
    fault: str, count: int, folder: Path, *, concurrency: int = 2, timeouts: Timeouts = PATIENT
) -> tuple[ClientBlock, list[SendRecord]]:
    """A block against a mock with that fault, both in one event loop → what the client saw, what the server sent."""
    kind = parse_fault(fault).kind
    log = folder / "send.jsonl"
    # A closed loop waits as long as a 429 asks it to; an open one goes on.
    load = OpenLoop(tuple(range(0, count * 10**7, 10**7))) if kind.status == 429 else ClosedLoop(concurrency)

    async def main() -> ClientBlock:
        server = MockServer(QUICK, ServeOptions(faults=(parse_fault(fault),), send_log=log))
        port = await server.start()
        try:
            endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}/v1", model="mock")
            path = ENDPOINT_PATHS.get(kind.name, "/completions")
            return await run_requests(endpoint, requests(count, path), load, timeouts=timeouts)
        finally:
            await server.stop(grace_s=20.0 if kind.cut != "hang" and not kind.silent else 0.0)

    with loop_runner() as runner:
        return runner.run(main()), read_send_log(log)


def matches(record: RequestRecord, expected: Expected) -> bool:
    if record.error != expected.error or not expected.check(record):
        return False
    return expected.error is not None or (
        (record.output_tokens, len(record.chunk_ns)) == (expected.tokens, expected.contents)
    )


def test_every_fault_has_an_expectation() -> None:
    assert list(FAULTS) == [name for name in FAULTS if name in EXPECTED]
    assert set(EXPECTED) == set(FAULTS)


@pytest.mark.parametrize("name", [n for n, kind in FAULTS.items() if not kind.dies and not kind.refuses_s])
def test_a_request_that_meets_a_fault_is_classified_and_none_is_lost(name: str, tmp_path: Path) -> None:
    expected = EXPECTED[name]
    got, log = block(name, 4, tmp_path, timeouts=IMPATIENT if expected.error == "timeout" else PATIENT)
    assert [r.index for r in got.records] == [0, 1, 2, 3]
    for record in got.records:
        assert matches(record, expected), record
        assert record.end_ns is not None
    if name != "never_ready":  # which does not even count them
        assert [r.fault for r in log] == [name] * 4


@pytest.mark.parametrize("name", [n for n, kind in FAULTS.items() if kind.scope != "server"])
def test_of_a_share_exactly_that_share_is_counted(name: str, tmp_path: Path) -> None:
    expected = EXPECTED[name]
    timeouts = IMPATIENT if expected.error == "timeout" else PATIENT
    # One at a time, so that the server's order is the client's. Where the client has to be impatient, a sound answer
    # may come too late on a machine that stands still: only the count of those that met the fault is looked at.
    got, log = block(f"{name}:1of3", 6, tmp_path, concurrency=1, timeouts=timeouts)
    assert [r.index for r in got.records] == list(range(6))
    if timeouts is IMPATIENT:
        assert [r.error for r in got.records].count("timeout") >= 2
        return
    # A connection that ends at once before any byte, on a kept connection, cannot be told from a server that closed
    # an idle one without having seen the request: that one alone is sent once more, and the log shows it.
    resent, faults = len(log) - 6, [r.fault for r in log].count(name)
    assert resent == 0 or FAULTS[name].drop
    assert faults >= 2
    failed = [r.index for r in got.records if r.error is not None]
    assert len(failed) == (faults - resent if expected.error else 0)
    assert all(got.records[i].error == expected.error for i in failed)
    sound = [r for r in got.records if r.index not in failed]
    met = [r for r in sound if matches(r, expected)]
    assert len(met) >= 2 or expected.error is not None
    assert all(r.error is None and r.text for r in sound)


def test_nobody_listens_for_a_time(tmp_path: Path) -> None:
    got, log = block("refused:2", 5, tmp_path, concurrency=1)
    assert [r.error for r in got.records] == [None, None, "connect", "connect", "connect"]
    assert all(matches(r, EXPECTED["refused"]) for r in got.records[2:])
    assert len(log) == 2


def test_a_server_that_dies() -> None:
    async def main(url: str) -> ClientBlock:
        endpoint = Endpoint(base_url=url, model="mock")
        return await run_requests(endpoint, requests(5, "/completions"), ClosedLoop(1), timeouts=PATIENT)

    with running(QUICK, faults=["die_after:2"]) as mock, loop_runner() as runner:
        got = runner.run(main(mock.base_url))
    assert [r.index for r in got.records] == list(range(5))
    assert [r.error for r in got.records[:2]] == [None, None]
    assert got.records[4].error in ("connect", "reset")
    assert mock.exit_code == 3
    answered = [r for r in mock.send_log() if r.finish == "length"]
    assert len(answered) == sum(r.error is None for r in got.records)
