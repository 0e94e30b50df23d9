"""One streamed answer: from body bytes and arrival stamps to a RequestRecord."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

from ..model import ErrorKind, RequestRecord
from .chunks import ChunkError, Delta, Usage, decode, error_text, excerpt
from .failures import Mask, body_text, retry_after, status_failure
from .http import Exchange, Verdict
from .request import PreparedRequest
from .sse import MAX_EVENT_BYTES, SseParser

_DONE = b"[DONE]"
_EXCERPT_BYTES = 64 * 1024
# An answer that never ends must not take all memory.
_MAX_BODY_BYTES = 512 * 1024 * 1024
_MORE, _OVER, _ABORT = Verdict.MORE, Verdict.OVER, Verdict.ABORT


class StreamExchange(Exchange):
    """Sends one prepared request and reads its stream. `on_end` is called once, when the answer has ended or failed.

    A chunk carries content if it adds text, reasoning or tool-call text; a chunk with only a role, an empty text or
    only usage does not. Chunks of one socket read share its stamp, and all but the first are marked coalesced.

    Tokens per chunk: where each content chunk carries a cumulative count (``usage`` of vLLM's
    continuous_usage_stats, or llama.cpp's ``timings_per_token``) the differences; else 1 for each. Nothing is guessed:
    if the counts do not add up to the server's usage, gaps between chunks are not gaps between tokens, and an
    analysis must say so.
    """

    __slots__ = (
        "_body",
        "_broken",
        "_chunk_ns",
        "_coalesced",
        "_counts",
        "_done",
        "_error",
        "_events",
        "_failure",
        "_finish_reason",
        "_first_output_ns",
        "_headers",
        "_mask",
        "_on_crash",
        "_on_end",
        "_read_ns",
        "_reasoning",
        "_received",
        "_sse",
        "_text",
        "_timings",
        "_usage",
        "end_ns",
        "request",
        "scheduled_ns",
        "status",
    )

    def __init__(
        self,
        request: PreparedRequest,
        payload: bytes,
        scheduled_ns: int,
        *,
        mask: Mask,
        on_end: Callable[[StreamExchange], None],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        super().__init__(payload)
        self.request = request
        self.scheduled_ns = scheduled_ns
        self.status: int | None = None
        self.end_ns: int | None = None
        self._mask = mask
        self._on_end = on_end
        self._on_crash = on_crash
        self._headers: list[tuple[bytes, bytes]] = []
        self._sse = SseParser()
        self._body = bytearray()  # start of a body that is no stream, for the error message
        self._received = 0
        self._read_ns = 0  # arrival of the last read
        self._events = 0
        self._done = False
        self._broken: str | None = None  # the first event that was no JSON
        self._error: str | None = None  # an error object inside the stream
        self._failure: tuple[ErrorKind, str] | None = None  # of the transport
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._timings: dict[str, float] = {}
        self._first_output_ns: int | None = None
        self._chunk_ns: list[int] = []
        self._coalesced: list[bool] = []
        self._counts: list[int] = []  # cumulative tokens at each content chunk, -1 where not told
        self._text: list[str] = []
        self._reasoning: list[str] = []

    # Events of the connection.

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        self._headers = headers

    def on_data(self, data: bytes, now_ns: int) -> Verdict:
        if self.ended:  # given up from outside: its record must not change any more
            return _ABORT
        self._received += len(data)
        self._read_ns = now_ns
        if self._events == 0 or self.status != 200:
            self._body += data[: _EXCERPT_BYTES - len(self._body)]
            if self.status != 200:
                return _MORE if self._received <= MAX_EVENT_BYTES else _ABORT
        for event in self._sse.feed(data):
            self._take(event.data, event.name, now_ns)
        if self._sse.failed:
            self._broken = self._broken or self._sse.failed
            return _ABORT
        if self._done:
            return _OVER
        if (self._events == 0 and self._received > MAX_EVENT_BYTES) or self._received > _MAX_BODY_BYTES:
            self._broken = self._broken or f"no end after {self._received} bytes"
            return _ABORT
        return _MORE

    def on_complete(self, now_ns: int) -> None:
        self._end(now_ns)

    def on_failure(self, kind: ErrorKind, message: str, now_ns: int) -> None:
        if not self.ended:
            self._failure = (kind, message)
            self._end(now_ns)

    def on_crash(self, error: BaseException) -> None:
        self.ended = True
        self._on_crash(error)

    @property
    def rate_limited(self) -> bool:
        """Whether the server refused it for its rate limit, or said when to come back."""
        return self.status == 429 or (self.status == 503 and self.retry_after_s is not None)

    @property
    def retry_after_s(self) -> float | None:
        """Seconds the server asks to wait before the next request."""
        if self.status not in (429, 503):
            return None
        # A wall clock, because HTTP dates are on it; a waiting time, not a measured duration.
        return retry_after(self._headers, time.time())

    @property
    def no_connection(self) -> bool:
        """Whether it failed because the server could not be reached or went away."""
        return self._failure is not None and self._failure[0] in ("connect", "reset")

    # Inside.

    def _take(self, payload: bytes, name: str, now_ns: int) -> None:
        self._events += 1
        if payload == _DONE:
            self._done = True
            return
        try:
            delta = decode(payload)
        except ChunkError as error:
            if name == "error":
                self._error = self._error or error_text(payload.decode("utf-8", "replace"))
            elif self._broken is None:
                self._broken = f"{error}: {excerpt(payload.decode('utf-8', 'replace'), 200)}"
            return
        if delta.usage is not None:
            self._usage = delta.usage
        if delta.timings is not None:
            self._timings = delta.timings
        if delta.content:
            self._content(delta, now_ns)
        if delta.finish_reason is not None:
            self._finish_reason = delta.finish_reason
        if delta.error is not None or name == "error":
            self._error = self._error or delta.error or body_text(payload)

    def _content(self, delta: Delta, now_ns: int) -> None:
        stamps = self._chunk_ns
        self._coalesced.append(bool(stamps) and stamps[-1] == now_ns)
        stamps.append(now_ns)
        count = -1
        if delta.usage is not None and delta.usage.completion_tokens is not None:
            count = delta.usage.completion_tokens
        elif delta.timings is not None:
            count = int(delta.timings.get("predicted_n", -1))
        self._counts.append(count)
        if delta.output:
            if self._first_output_ns is None:
                self._first_output_ns = now_ns
            self._text.append(delta.text + delta.tool if delta.tool else delta.text)
        if delta.reasoning:
            self._reasoning.append(delta.reasoning)

    def _end(self, now_ns: int) -> None:
        if self.ended:
            return
        self.ended = True
        if self.status == 200:
            broken = self._broken
            for event in self._sse.finish():
                # It came with the last read; half an event is a matter of `truncated`, not of broken JSON.
                self._take(event.data, event.name, self._read_ns)
            self._broken = broken
        self.end_ns = now_ns
        self._on_end(self)

    # The record.

    def record(self) -> RequestRecord:
        """The record of an ended exchange."""
        kind, message = self._classify()
        usage, timings = self._usage or Usage(), self._timings
        chunks = len(self._chunk_ns)
        counted = usage.completion_tokens is not None and (usage.completion_tokens > 0 or chunks == 0)
        told = usage.completion_tokens if counted else None
        if told is None and "predicted_n" in timings:
            told = int(timings["predicted_n"])  # llama.cpp's own count
        cached = usage.cached_tokens
        if cached is None and "cache_n" in timings:
            cached = int(timings["cache_n"])
        return RequestRecord(
            index=self.request.index,
            prompt_id=self.request.prompt_id,
            scheduled_ns=self.scheduled_ns,
            sent_ns=self.sent_ns,
            first_byte_ns=self.first_byte_ns,
            first_token_ns=self._chunk_ns[0] if chunks else None,
            first_output_ns=self._first_output_ns,
            last_token_ns=self._chunk_ns[-1] if chunks else None,
            end_ns=self.end_ns,
            input_tokens=usage.prompt_tokens,
            # Never the number of chunks: a chunk may hold several tokens, and which server batches them is unknown.
            output_tokens=told,
            reasoning_tokens=usage.reasoning_tokens,
            cached_tokens=cached,
            tokens_source="unknown" if told is None else "usage",
            finish_reason=self._finish_reason,
            status=self.status,
            error=kind,
            error_message=self._mask(message) if kind is not None else None,
            retry_after_s=self.retry_after_s,
            chunk_ns=self._chunk_ns,
            chunk_tokens=_tokens_per_chunk(self._counts),
            chunk_coalesced=self._coalesced,
            prompt=self.request.prompt,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            server_timings=timings,
        )

    def _classify(self) -> tuple[ErrorKind | None, str]:
        """The first failure that explains the others, or (None, "")."""
        kind, message = self._failure or (None, "")
        if self.status is not None and self.status != 200:
            return status_failure(self.status, bytes(self._body))
        if self._error is not None:
            return "stream_error", f"the server reported an error inside the stream: {self._error}"
        if kind is not None and not self._done and not (kind == "truncated" and self._finish_reason):
            return kind, message
        if self._broken is not None:
            return "stream_error", f"broken event in the stream: {self._broken}"
        if self._events == 0:
            return self._no_stream()
        if not self._done and self._finish_reason is None:
            return "truncated", "the stream ended without [DONE] and without a finish_reason"
        if not self._chunk_ns:
            return "empty", "HTTP 200 and a whole stream, but no generated content in it"
        return None, ""

    def _no_stream(self) -> tuple[ErrorKind, str]:
        encoding = dict(self._headers).get(b"content-encoding", b"").strip().lower()
        if encoding not in (b"", b"identity"):
            name = encoding[:20].decode("latin-1")
            return "garbage", f"the answer is compressed ({name}) although that was not offered → switch it off"
        body = bytes(self._body).strip()
        if not body:
            return "empty", "HTTP 200 with an empty body"
        said = body_text(body)
        if body[:1] in b"{[":
            try:
                error = decode(body).error
            except ChunkError:
                error = None
            if error:
                return "stream_error", f"HTTP 200, but the answer is an error: {error}"
            return "garbage", (
                "the server answered with plain JSON instead of a stream → Bakeoff measures streams: use an "
                f"endpoint that honours `stream: true`. It said: {said}"
            )
        return "garbage", f"the answer is not an event stream → check the base URL. It starts: {said}"


def _tokens_per_chunk(counts: list[int]) -> list[int]:
    """Differences of the cumulative counts where every chunk has one and each adds at least a token; else ones."""
    if -1 not in counts:
        differences = [after - before for before, after in pairwise((0, *counts))]
        if all(difference > 0 for difference in differences):
            return differences
    return [1] * len(counts)
