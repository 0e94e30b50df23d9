"""One answer, at every segmentation: stamps, tokens, failures."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .bench import record, stream, timeless
from .server import (
    CLOSING_HEAD,
    DONE,
    END,
    SSE_HEAD,
    answer,
    chat_event,
    chunk,
    event,
    text_event,
    usage_event,
)

CHAT = stream(
    chat_event(role="assistant", content=""),
    b": ping\n\n",
    chat_event(reasoning_content="hm é"),
    chat_event(content="语🎉"),
    chat_event(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "{}"}}]),
    chat_event(finish="stop"),
    usage_event(11, 9, completion_tokens_details={"reasoning_tokens": 4}, prompt_tokens_details={"cached_tokens": 2}),
    DONE,
)


def test_a_whole_chat_answer() -> None:
    r = record(CHAT)
    assert (r.error, r.status, r.finish_reason) == (None, 200, "stop")
    assert (r.text, r.reasoning) == ("语🎉f{}", "hm é")
    assert (r.input_tokens, r.output_tokens, r.reasoning_tokens, r.cached_tokens) == (11, 9, 4, 2)
    assert (r.tokens_source, len(r.chunk_ns)) == ("usage", 3)
    assert (r.index, r.prompt_id, r.prompt) == (0, 100, "p0")


def test_split_at_every_byte() -> None:
    whole = timeless(record(CHAT))
    for cut in range(1, len(CHAT)):
        assert timeless(record(CHAT[:cut], CHAT[cut:])) == whole
    assert timeless(record(*(CHAT[i : i + 1] for i in range(len(CHAT))))) == whole


@given(st.lists(st.integers(1, len(CHAT) - 1), max_size=40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_segmentation_in_both_line_ends(cuts: list[int], crlf: bool) -> None:
    body = b"".join((text_event("é"), b": x\n\n", text_event("b", "length"), usage_event(1, 2), DONE))
    if crlf:
        body = body.replace(b"\n", b"\r\n")
    full = CLOSING_HEAD + body
    edges = sorted({0, len(full), *(c for c in cuts if c < len(full))})
    r = record(*(full[a:b] for a, b in pairwise(edges)))
    assert (r.error, r.text, r.output_tokens) == (None, "éb", 2)


def test_stamps_belong_to_reads_and_chunks_of_one_read_are_coalesced() -> None:
    a, b, c, d = (chunk(text_event(t)) for t in "abcd")
    r = record(
        SSE_HEAD + chunk(chat_event(role="assistant")),  # read 1: a role is no token
        a,  # read 2
        b + c + d[:20],  # read 3: two in one read, and the start of a third
        d[20:],  # read 4
        chunk(text_event("", "length")) + chunk(DONE) + END,  # read 5: an empty text is no token
    )
    assert r.chunk_ns == [2000, 3000, 3000, 4000]
    assert r.chunk_coalesced == [False, False, True, False]
    assert (r.first_byte_ns, r.first_token_ns, r.first_output_ns) == (1000, 2000, 2000)
    assert (r.last_token_ns, r.end_ns, r.sent_ns) == (4000, 5000, 0)
    assert r.chunk_tokens == [1, 1, 1, 1]


def test_reasoning_is_the_first_token_but_not_the_first_output() -> None:
    r = record(SSE_HEAD, chunk(chat_event(reasoning="hm")), chunk(chat_event("stop", content="a")), chunk(DONE), END)
    assert (r.first_token_ns, r.first_output_ns) == (2000, 3000)
    only = record(stream(chat_event("stop", reasoning="hm"), DONE))
    assert (only.error, only.first_output_ns, only.text) == (None, None, "")


def test_tokens_per_chunk_come_from_usage_in_every_chunk() -> None:
    def counted(text: str, tokens: int) -> bytes:
        return text_event(text, usage={"prompt_tokens": 3, "completion_tokens": tokens})

    r = record(stream(counted("", 0), counted("ab", 2), counted("", 3), counted("cd", 5), usage_event(3, 5), DONE))
    assert (r.chunk_tokens, r.output_tokens) == ([2, 3], 5)


def test_tokens_per_chunk_come_from_llama_cpps_timings_per_token() -> None:
    events = [text_event(t, timings={"predicted_n": n}) for t, n in (("a", 1), ("b", 4))]
    assert record(stream(*events, text_event("", "stop"), DONE)).chunk_tokens == [1, 3]


@pytest.mark.parametrize("counts", [(1, 1), (0, 1), (2, 1), (None, 3)])
def test_counts_that_cannot_be_true_are_not_used(counts: tuple[int | None, int]) -> None:
    events = [text_event("x", usage={"completion_tokens": n}) for n in counts]
    assert record(stream(*events, DONE)).chunk_tokens == [1, 1]


def test_several_tokens_in_a_chunk_are_not_guessed_and_usage_counts() -> None:
    r = record(stream(text_event("a b c"), text_event("d e f"), usage_event(3, 6), DONE))
    assert (r.output_tokens, r.tokens_source, r.chunk_tokens) == (6, "usage", [1, 1])


@pytest.mark.parametrize("usage", [b"", event({"choices": [], "usage": None}), usage_event(5, 0)])
def test_without_usage_the_tokens_are_unknown_never_the_chunks(usage: bytes) -> None:
    r = record(stream(text_event("a"), text_event("b", "stop"), usage, DONE))
    assert (r.output_tokens, r.tokens_source) == (None, "unknown")


def test_timings_of_the_server() -> None:
    r = record(stream(text_event("a"), text_event("", "stop", timings={"prompt_ms": 7.5, "cache_n": 3}), DONE))
    assert r.server_timings == {"prompt_ms": 7.5, "cache_n": 3.0}
    assert r.cached_tokens == 3


def test_complete_with_either_end() -> None:
    assert record(stream(text_event("a", "stop"))).error is None
    assert record(stream(text_event("a"), DONE)).error is None
    assert record(CLOSING_HEAD + text_event("a") + b"data: [DONE]").error is None
    # A chunked body whose last chunk is missing, after the stream itself has ended.
    assert record(SSE_HEAD + chunk(text_event("a") + DONE)).error is None
    assert record(SSE_HEAD + chunk(text_event("a", "stop"))).error is None
    assert record(SSE_HEAD + chunk(text_event("a") + DONE), error=ConnectionResetError()).error is None


def test_the_last_event_may_lack_its_blank_line() -> None:
    r = record(CLOSING_HEAD + text_event("a"), text_event("b", "stop")[:-2])
    assert (r.error, r.text, r.finish_reason, r.last_token_ns) == (None, "ab", "stop", 2000)


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (stream(text_event("a")), "truncated", "without [DONE]"),
        (CLOSING_HEAD + text_event("a") + text_event("b")[:15], "truncated", "without [DONE]"),
        (SSE_HEAD + chunk(text_event("a")), "truncated", "before the end"),
        (SSE_HEAD, "truncated", "before the end"),
        (answer("200 OK", text_event("a"))[:-9], "truncated", "before the end"),
        (stream(text_event("a"), event({"error": {"message": "boom"}}), DONE), "stream_error", "boom"),
        (stream(event({"error": "boom"})), "stream_error", "boom"),
        (stream(text_event("a"), b"event: error\ndata: it broke\n\n", DONE), "stream_error", "it broke"),
        (stream(text_event("a"), b'error: {"message":"slot gone","code":500}\n\n'), "stream_error", "slot gone"),
        (stream(text_event("a"), b"data: {broken\n\n", text_event("b", "stop"), DONE), "stream_error", "{broken"),
        (answer("200 OK", b'{"error": {"message": "no model"}}'), "stream_error", "no model"),
        (answer("200 OK", b'{"choices": [{"text": "hi"}]}'), "garbage", "stream: true"),
        (answer("200 OK", b"<html><body>Welcome</body></html>"), "garbage", "Welcome"),
        (answer("200 OK", b"\x1f\x8b\x08", "Content-Encoding: gzip"), "garbage", "compressed (gzip)"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "garbage", "not HTTP"),
        (answer("200 OK", b""), "empty", "empty body"),
        (stream(chat_event(role="assistant"), chat_event("stop"), usage_event(3, 0), DONE), "empty", "no generated"),
        (answer("404 Not Found", b'{"error": {"message": "no such model"}}'), "not_found", "no such model"),
        (answer("307 Temporary Redirect", b"", "Location: /x"), "http", "redirected to /x"),
        (answer("500 Oops", b"x" * 5000), "http", "HTTP 500: xxx"),
        (b"", "reset", "before any answer"),
    ],
)
def test_failures(body: bytes, kind: str, says: str) -> None:
    for reads in ([body] if body else [], [body[i : i + 1] for i in range(len(body))]):
        r = record(*reads)
        assert r.error == kind
        assert says in (r.error_message or "")
        assert len(r.error_message or "") <= 500
        assert r.end_ns is not None


def test_what_was_seen_before_a_reset_is_kept() -> None:
    r = record(SSE_HEAD, chunk(text_event("a")), error=ConnectionResetError("gone"))
    assert (r.error, r.text, r.output_tokens, r.tokens_source) == ("reset", "a", None, "unknown")
    assert "gone" in (r.error_message or "")


def test_an_unmeasured_request_has_unknown_tokens() -> None:
    r = record(answer("500 Oops", b"{}"))
    assert (r.output_tokens, r.tokens_source, r.first_token_ns, r.chunk_ns) == (None, "unknown", None, [])


def test_a_giant_event_is_an_error_and_the_rest_is_not_read() -> None:
    block = chunk(b"y" * 1_000_000)
    r = record(SSE_HEAD + chunk(b"data: "), *[block] * 18, eof=False)
    assert (r.error, r.end_ns) == ("stream_error", 18_000)
    assert "longer than" in (r.error_message or "")


def test_endless_junk_is_given_up() -> None:
    block = chunk((b"junk" * 250 + b"\n") * 1000)
    r = record(SSE_HEAD, *[block] * 18, eof=False)
    assert (r.error, r.end_ns) == ("stream_error", 18_000)


def test_a_50k_token_line_is_no_problem() -> None:
    text = "wörd " * 50_000
    whole = stream(text_event(text, "stop"), usage_event(5, 50_000), DONE)
    r = record(*(whole[i : i + 65536] for i in range(0, len(whole), 65536)))
    assert (r.error, r.text, len(r.chunk_ns)) == (None, text, 1)
