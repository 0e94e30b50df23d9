"""Faults: ways in which real servers go wrong. A table; a new fault is a row.

A fault replaces the answer (`status`, `body`), changes the stream (`text`, `cut`, `usage`, `done`), or concerns the
whole server (`ready`, `die`). Where several are asked for, each request draws each of them with its share, and the
first that hits applies.
"""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Sequence
from typing import Literal

import msgspec

from ..errors import UsageError

Text = Literal["words", "none", "one token", "gibberish"]
Cut = Literal["close", "reset", "hang", "error event"]


class FaultKind(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; fields left alone leave the answer alone."""

    name: str
    says: str  # one line for --help
    scope: Literal["request", "authorisation", "server"] = "request"  # authorisation: every path but /health, /metrics
    # an answer in place of the generated one
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    body: bytes = b""
    silent: bool = False  # nothing is ever sent
    # changes to the generated one
    text: Text = "words"
    cut: Cut | None = None  # after half of the content: what happens there
    usage: bool = True
    done: bool = True
    # the whole server
    ready: bool = True
    dies: bool = False


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault as asked for: with a share of the requests, or (`die_after`) a number of requests."""

    kind: FaultKind
    share: float = 1.0
    count: int | None = None

    def __str__(self) -> str:
        return f"{self.kind.name}:{self.count if self.count is not None else f'{self.share:g}'}"


def _error(status: int, kind: str, message: str) -> bytes:
    """An error body as OpenAI and vLLM send it."""
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": status}}).encode()


# Fixed bytes, neither UTF-8 nor SSE; with line feeds, so that a line-based parser meets them as lines.
_GARBAGE = random.Random(20).randbytes(1024) + b"\n\n\xff\xfe\x00: \n\n" + random.Random(21).randbytes(1024)
_HTML = (
    b"<!DOCTYPE html>\n<html><head><title>Welcome</title></head>"
    b"<body><h1>It works</h1><p>This is a web page, not a model.</p></body></html>\n"
)

FAULTS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
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
            body=_error(429, "rate_limit_error", "Rate limit reached for requests."),
        ),
        FaultKind(
            name="http_500",
            says="answers 500",
            status=500,
            body=_error(500, "InternalServerError", "Internal server error."),
        ),
        FaultKind(name="error_event", says="answers 200, then an error object in mid-stream", cut="error event"),
        FaultKind(
            name="garbage",
            says="answers 200 with bytes that are not SSE",
            status=200,
            content_type="text/event-stream",
            body=_GARBAGE,
        ),
        FaultKind(
            name="html",
            says="answers 200 with a web page",
            status=200,
            content_type="text/html; charset=utf-8",
            body=_HTML,
        ),
        FaultKind(name="truncated", says="closes in mid-stream, without finish or [DONE]", cut="close"),
        FaultKind(name="reset", says="resets the connection in mid-stream (RST)", cut="reset"),
        FaultKind(name="hang", says="never answers", silent=True),
        FaultKind(name="hang_mid", says="stops in mid-stream, the connection stays open", cut="hang"),
        FaultKind(name="no_usage", says="sends no usage", usage=False),
        FaultKind(name="no_done", says="ends the stream without [DONE]", done=False),
        FaultKind(name="empty", says="finishes without any content", text="none"),
        FaultKind(name="repeat_token", says="the answer is one token repeated", text="one token"),
        FaultKind(name="gibberish", says="the answer is unrelated characters", text="gibberish"),
        FaultKind(
            name="never_ready", says="answers 503 to everything, as if loading for ever", scope="server", ready=False
        ),
        FaultKind(
            name="die_after",
            says="die_after:N, the process exits with code 3 after N requests",
            scope="server",
            dies=True,
        ),
    )
}

LOADING = _error(503, "unavailable_error", "Loading model")


def parse_fault(text: str) -> Fault:
    """``http_500`` | ``reset:0.1`` | ``reset:10%`` | ``die_after:5`` → Fault. Raises UsageError."""
    name, _, argument = text.strip().partition(":")
    kind = FAULTS.get(name)
    if kind is None:
        close = difflib.get_close_matches(name, FAULTS, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"one of: {', '.join(FAULTS)}"
        raise UsageError(f"{name!r} is not a fault", where="--fault", remedy=remedy)
    if kind.dies:
        if not (argument.isascii() and argument.isdigit() and int(argument) > 0):
            raise UsageError(f"{text!r} needs a number of requests", where="--fault", remedy=f"write {name}:5")
        return Fault(kind=kind, count=int(argument))
    if not argument:
        return Fault(kind=kind)
    try:
        share = float(argument[:-1]) / 100 if argument.endswith("%") else float(argument)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1 or kind.scope == "server":
        wanted = f"{name} takes no share" if kind.scope == "server" else f"write a share from 0 to 1: {name}:0.1"
        raise UsageError(f"{argument!r} is not a share of requests", where="--fault", remedy=wanted)
    return Fault(kind=kind, share=share)


class FaultPlan:
    """The faults of one server, and the draws of which request meets which."""

    def __init__(self, faults: Sequence[Fault], noise: random.Random) -> None:
        self._requests = tuple(f for f in faults if f.kind.scope != "server")
        self._noise = noise
        self.ready = all(f.kind.ready for f in faults)
        counts = [f.count for f in faults if f.count is not None]
        self.dies_after: int | None = min(counts, default=None)

    def draw(self, *, generation: bool) -> FaultKind | None:
        """The fault that this request meets, if any."""
        for fault in self._requests:
            if not generation and fault.kind.scope != "authorisation":
                continue
            if fault.share >= 1 or self._noise.random() < fault.share:
                return fault.kind
        return None
