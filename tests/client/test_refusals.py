"""Answers that are no stream: refusals, redirects, pages; each is one kind, with a text that helps and hides keys."""

from __future__ import annotations

import gzip

import pytest

from .answers import received, stream

EVENT = b'data: {"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def refusal(status: str, body: bytes = b"", *headers: str) -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers])
    return head.encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (refusal("401 Unauthorized", b'{"error":{"message":"bad key"}}'), "auth", "bad key → check the API key"),
        (refusal("403 Forbidden"), "auth", "HTTP 403"),
        (refusal("404 Not Found", b'{"detail":"Not Found"}'), "not_found", "Not Found → check the base URL"),
        (refusal("429 Too Many"), "rate_limited", "HTTP 429 → lower the load"),
        (refusal("500 Oops", b"<h1>Oops</h1>"), "http", "HTTP 500: <h1>Oops</h1>"),
        (refusal("502 Bad Gateway", gzip.compress(b"upstream is gone")), "http", "HTTP 502"),
        (
            refusal("502 Bad Gateway", gzip.compress(b"upstream is gone"), "Content-Encoding: gzip"),
            "http",
            "HTTP 502: upstream is gone",
        ),
        (refusal("502 Bad Gateway", b"no gzip", "Content-Encoding: gzip"), "http", "HTTP 502"),
        (refusal("529 Overloaded", b'{"type":"error","error":{"message":"Overloaded"}}'), "http", "Overloaded"),
        (
            refusal("200 OK", gzip.compress(EVENT + DONE), "Content-Encoding: gzip"),
            "garbage",
            "compressed (gzip)",
        ),
        (refusal("200 OK", b"<html><body>It works</body></html>"), "garbage", "not an event stream"),
        (refusal("200 OK", b'{"choices":[{"text":"a"}]}'), "garbage", "plain JSON"),
        (refusal("200 OK", b'{"object":"error","message":"gone"}'), "stream_error", "gone"),
        (refusal("200 OK"), "empty", "empty body"),
    ],
)
def test_refusals(answer: bytes, kind: str, says: str) -> None:
    for reads in ([answer], [answer[i : i + 1] for i in range(len(answer))]):
        r = received(*reads)
        assert (r.error, r.chunk_ns, r.output_tokens) == (kind, [], None)
        assert says in (r.error_message or "")


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_a_redirect_names_its_target_without_secrets(status: str) -> None:
    target = "Location: https://user:hunter22@other.example:8443/v1/completions?key=hunter22#frag"
    r = received(refusal(status, b"<a href='?key=hunter22'>", target))
    assert (r.error, r.status) == ("http", int(status[:3]))
    assert "redirected to https://other.example:8443/v1/completions → " in (r.error_message or "")
    assert "hunter22" not in (r.error_message or "")
    bare = received(refusal(status))
    assert "redirected to another place" in (bare.error_message or "")


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ([], None),
        (["Retry-After: 3"], 3.0),
        (["retry-after-ms: 250"], 0.25),
        # Against the server's own clock, however wrong it is.
        (["Date: Thu, 01 Jan 1970 00:00:00 GMT", "Retry-After: Thu, 01 Jan 1970 00:00:07 GMT"], 7.0),
    ],
)
def test_when_to_come_back(headers: list[str], wait: float | None) -> None:
    r = received(refusal("429 Too Many Requests", b"", *headers))
    assert (r.error, r.retry_after_s) == ("rate_limited", wait)


def test_nothing_of_a_secret_is_shown() -> None:
    for answer in (
        refusal("401 No", b'{"error":{"message":"key sk-0123456789 is bad"}}'),
        refusal("302 Go", b"", "Location: https://h/sk-0123456789/v1"),
        stream(b'data: {"error":"sk-0123456789"}\n\n'),
        stream(b"data: {sk-0123456789\n\n", EVENT),
        refusal("200 OK", b"sk-0123456789"),
    ):
        r = received(answer, secrets=["sk-0123456789"])
        assert r.error is not None
        assert "***" in (r.error_message or "")
        assert "0123456789" not in repr(r)
