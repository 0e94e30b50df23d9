"""The table of faults: ways in which real servers and networks go wrong. A new fault is a row.

A fault replaces the answer (`status`, `body`, `silent`, `drop`), changes the stream (the other fields), or concerns
the whole server (`ready`, `dies`, `refuses`).
"""

from __future__ import annotations

import gzip
import json
import random
from typing import Literal

import msgspec

Text = Literal["words", "none", "one token", "gibberish", "accents"]
Cut = Literal["close", "reset", "hang", "error event", "end", "bad framing"]
Insert = Literal["comments", "nothing", "giant", "twice", "broken", "after finish", "role"]
Shape = Literal["crlf", "tight", "drip", "split"]


class FaultKind(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; fields left alone leave the answer alone."""

    name: str
    says: str  # one line for --list-faults
    scope: Literal["request", "authorisation", "server"] = "request"  # authorisation: every path but /health, /metrics
    # an answer in place of the generated one
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    body: bytes = b""
    silent: bool = False  # nothing is ever sent
    drop: Literal["close", "reset"] | None = None  # the connection ends before any byte
    date_ahead_s: float | None = None  # a Date header, so far from the true time
    retry_date_s: float | None = None  # Retry-After as a date, so long after that Date
    # changes to the generated one
    text: Text = "words"
    kinds: Literal["text", "reasoning", "tool"] = "text"  # what the answer's pieces are
    cut: Cut | None = None  # what happens after half of the content
    at_start: bool = False  # that happens before the first content instead
    usage: Literal["right", "none", "wrong", "every"] = "right"
    finish: bool = True  # tells the reason
    done: bool = True  # ends with [DONE], or with the last event of the API
    insert: Insert | None = None
    shape: Shape | None = None  # of the bytes
    tokens_per_chunk: int = 0  # 0: as the latency model says
    closes: bool = False  # the connection is closed after the answer, without saying so before
    # the whole server
    ready: bool = True
    dies: bool = False
    refuses_s: float = 0.0

    @property
    def fixed(self) -> bool:
        """The answer is not generated at all."""
        return self.silent or self.status is not None or self.drop is not None


def _error(status: int, kind: str, message: str) -> bytes:
    """An error body as OpenAI and vLLM send it."""
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": status}}).encode()


# Fixed bytes, neither UTF-8 nor SSE; with line feeds, so that a line-based parser meets them as lines.
_GARBAGE = random.Random(20).randbytes(1024) + b"\n\n\xff\xfe\x00: \n\n" + random.Random(21).randbytes(1024)
_HTML = (
    b"<!DOCTYPE html>\n<html><head><title>Welcome</title></head>"
    b"<body><h1>It works</h1><p>This is a web page, not a model.</p></body></html>\n"
)
_SSE = "text/event-stream"
_ONE_EVENT = b'data: {"choices":[{"index":0,"text":"Hi","finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
_LIMITED = _error(429, "rate_limit_error", "Rate limit reached for requests.")

LOADING = _error(503, "unavailable_error", "Loading model")

_STATUSES = (
    FaultKind(
        name="http_401",
        says="answers 401, as if the key were wrong",
        scope="authorisation",
        status=401,
        headers=(("WWW-Authenticate", "Bearer"),),
        body=_error(401, "authentication_error", "Incorrect API key provided."),
    ),
    FaultKind(
        name="http_404",
        says="answers 404, as if the model were unknown",
        status=404,
        body=_error(404, "NotFoundError", "The model does not exist."),
    ),
    FaultKind(
        name="http_429",
        says="answers 429 with Retry-After: 1",
        status=429,
        headers=(("Retry-After", "1"),),
        body=_LIMITED,
    ),
    FaultKind(name="http_429_bare", says="answers 429 and does not say when to come back", status=429, body=_LIMITED),
    FaultKind(
        name="http_429_date",
        says="answers 429 with Retry-After as a date in 1 s, by a clock that is an hour ahead",
        status=429,
        body=_LIMITED,
        date_ahead_s=3600.0,
        retry_date_s=1.0,
    ),
    FaultKind(
        name="http_500",
        says="answers 500 (in bursts: http_500:5of20)",
        status=500,
        body=_error(500, "InternalServerError", "Internal server error."),
    ),
    FaultKind(name="http_503", says="answers 503, as a server that is overloaded or loading", status=503, body=LOADING),
    FaultKind(
        name="redirect",
        says="answers 307 with another address",
        status=307,
        headers=(("Location", "/moved/v1/completions"),),
        body=b"{}",
    ),
)

_WRONG_BODIES = (
    FaultKind(
        name="garbage", says="answers 200 with bytes that are not SSE", status=200, content_type=_SSE, body=_GARBAGE
    ),
    FaultKind(
        name="html",
        says="answers 200 with a web page",
        status=200,
        content_type="text/html; charset=utf-8",
        body=_HTML,
    ),
    FaultKind(
        name="gzip",
        says="answers 200 with a compressed stream, which was not asked for",
        status=200,
        content_type=_SSE,
        headers=(("Content-Encoding", "gzip"),),
        body=gzip.compress(_ONE_EVENT, mtime=0),
    ),
    FaultKind(
        name="not_streamed",
        says="answers 200 with one JSON document where a stream was asked for",
        status=200,
        body=b'{"id":"cmpl-0","object":"text_completion","choices":[{"index":0,"text":"Hi","finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}',
    ),
    FaultKind(name="no_body", says="answers 200 with an empty stream", status=200, content_type=_SSE),
)

_BROKEN_CONNECTIONS = (
    FaultKind(name="close_first", says="closes the connection before any byte of the answer", drop="close"),
    FaultKind(name="reset_first", says="resets the connection (RST) before any byte of the answer", drop="reset"),
    FaultKind(name="reset", says="resets the connection in mid-stream (RST)", cut="reset"),
    FaultKind(name="truncated", says="closes in mid-stream, without finish or [DONE]", cut="close"),
    FaultKind(name="early_end", says="ends the message in mid-stream, well framed, without finish", cut="end"),
    FaultKind(name="bad_framing", says="breaks the chunked framing in mid-stream", cut="bad framing"),
    FaultKind(name="hang", says="never answers", silent=True),
    FaultKind(name="hang_first", says="sends the head and then nothing", cut="hang", at_start=True),
    FaultKind(name="hang_mid", says="stops in mid-stream, the connection stays open", cut="hang"),
    FaultKind(name="no_keep_alive", says="closes each connection after its answer, without saying so", closes=True),
)

_STREAMS = (
    FaultKind(name="error_event", says="answers 200, then an error object in mid-stream", cut="error event"),
    FaultKind(
        name="error_first", says="answers 200, then an error in place of any content", cut="error event", at_start=True
    ),
    FaultKind(name="broken_json", says="one event in mid-stream is cut off within its JSON", insert="broken"),
    FaultKind(
        name="split_utf8", says="characters of several bytes, split over two packets", text="accents", shape="split"
    ),
    FaultKind(name="crlf", says="lines end in CRLF", shape="crlf"),
    FaultKind(name="tight", says="no blank after `data:`", shape="tight"),
    FaultKind(name="comments", says="comment lines (pings) between the events", insert="comments"),
    FaultKind(name="giant_line", says="one line of 1 MiB", insert="giant"),
    FaultKind(name="slow_drip", says="every byte is a packet of its own", shape="drip"),
    FaultKind(name="batched", says="four tokens in each chunk", tokens_per_chunk=4),
    FaultKind(
        name="role_first", says="an event without content first, as soon as it works on the request", insert="role"
    ),
    FaultKind(name="empty_choices", says="events with empty choices between the others", insert="nothing"),
    FaultKind(name="duplicate", says="one chunk is sent twice", insert="twice"),
    FaultKind(name="after_finish", says="two more tokens after the finish", insert="after finish"),
    FaultKind(name="no_finish", says="no finish_reason", finish=False),
    FaultKind(name="no_done", says="ends the stream without [DONE]", done=False),
    FaultKind(name="no_end", says="neither finish_reason nor [DONE]", finish=False, done=False),
    FaultKind(name="no_usage", says="sends no usage", usage="none"),
    FaultKind(name="wrong_usage", says="usage tells twice the tokens that were sent", usage="wrong"),
    FaultKind(name="usage_every", says="usage in every chunk, asked for or not", usage="every"),
    FaultKind(name="reasoning", says="the first half is reasoning (chat, responses, messages)", kinds="reasoning"),
    FaultKind(name="tool_calls", says="the second half is a tool call (chat, responses, messages)", kinds="tool"),
    FaultKind(name="empty", says="finishes without any content", text="none"),
    FaultKind(name="repeat_token", says="the answer is one token repeated", text="one token"),
    FaultKind(name="gibberish", says="the answer is unrelated characters", text="gibberish"),
    FaultKind(name="skewed_date", says="a Date header that is an hour ahead", date_ahead_s=3600.0),
)

_SERVER = (
    FaultKind(
        name="never_ready", says="answers 503 to everything, as if loading for ever", scope="server", ready=False
    ),
    FaultKind(
        name="die_after", says="die_after:N, the process exits with code 3 after N requests", scope="server", dies=True
    ),
    FaultKind(
        name="refused",
        says="refused:N, after every N requests nobody listens for 5 s (connection refused)",
        scope="server",
        refuses_s=5.0,
    ),
)

FAULTS: dict[str, FaultKind] = {
    kind.name: kind for kind in (*_STATUSES, *_WRONG_BODIES, *_BROKEN_CONNECTIONS, *_STREAMS, *_SERVER)
}
