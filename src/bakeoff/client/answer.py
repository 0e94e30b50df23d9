"""What has been seen of one streamed answer, and the record that it makes."""

from __future__ import annotations

import time

from ..model import ErrorKind, RequestRecord
from .chunks import Usage, count_of
from .dialects import DIALECTS
from .failures import Mask, no_stream, retry_after, status_failure
from .http import Exchange
from .request import PreparedRequest
from .sse import SseParser
from .tally import oddities, tokens_per_chunk


class Answer(Exchange):
    """The state of an answer while it is read (see `StreamExchange`), and `record` when it has ended.

    Tokens per chunk: where each content chunk carries a cumulative count (``usage`` of vLLM's
    continuous_usage_stats, or llama.cpp's ``timings_per_token``) the differences; else 1 for each. Nothing is guessed:
    if the counts do not add up to the server's usage, gaps between chunks are not gaps between tokens, and an
    analysis must say so.
    """

    __slots__ = (
        "_after_end",
        "_after_finish",
        "_body",
        "_broken",
        "_chunk_ns",
        "_coalesced",
        "_counts",
        "_dialect",
        "_done",
        "_error",
        "_events",
        "_failure",
        "_finish_reason",
        "_first_output_ns",
        "_headers",
        "_mask",
        "_others",
        "_reasoning",
        "_sse",
        "_text",
        "_timings",
        "_usage",
        "end_ns",
        "request",
        "scheduled_ns",
        "status",
    )

    def __init__(self, request: PreparedRequest, payload: bytes, scheduled_ns: int, mask: Mask) -> None:
        super().__init__(payload)
        self.request = request
        self.scheduled_ns = scheduled_ns
        self.status: int | None = None
        self.end_ns: int | None = None
        self._mask = mask
        self._dialect = DIALECTS[request.api]
        self._headers: list[tuple[bytes, bytes]] = []
        self._sse = SseParser()
        self._body = bytearray()  # start of a body that is no stream, for the error message
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
        self._others: dict[int, int] = {}  # position of a content chunk → its choice, where it is not the first
        self._after_finish = 0  # content chunks behind the finish_reason
        self._after_end = 0  # events behind the end of the stream
        self._text: list[str] = []
        self._reasoning: list[str] = []

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

    def record(self) -> RequestRecord:
        """The record of an ended exchange."""
        kind, message = self._classify()
        usage, timings = self._usage or Usage(), self._timings
        chunks = len(self._chunk_ns)
        told = count_of(usage.completion_tokens)
        if told == 0 and chunks:  # some servers write zeros where they do not count
            told = None
        if told is None:
            told = count_of(timings.get("predicted_n"))  # llama.cpp's own count
        cached = count_of(usage.cached_tokens)
        if cached is None:
            cached = count_of(timings.get("cache_n"))
        tokens = tokens_per_chunk(self._counts, self._others, told)
        return RequestRecord(
            index=self.request.index,
            prompt_id=self.request.prompt_id,
            conversation=self.request.conversation,
            turn=self.request.turn,
            asked_input_tokens=self.request.asked_input_tokens,
            asked_output_tokens=self.request.asked_output_tokens,
            scheduled_ns=self.scheduled_ns,
            sent_ns=self.sent_ns,
            first_byte_ns=self.first_byte_ns,
            first_token_ns=self._chunk_ns[0] if chunks else None,
            first_output_ns=self._first_output_ns,
            last_token_ns=self._chunk_ns[-1] if chunks else None,
            end_ns=self.end_ns,
            input_tokens=count_of(usage.prompt_tokens),
            # Never the number of chunks: a chunk may hold several tokens, and which server batches them is unknown.
            output_tokens=told,
            reasoning_tokens=count_of(usage.reasoning_tokens),
            cached_tokens=cached,
            tokens_source="unknown" if told is None else "usage",
            finish_reason=self._finish_reason,
            status=self.status,
            error=kind,
            error_message=self._mask(message) if kind is not None else None,
            retry_after_s=self.retry_after_s,
            chunk_ns=self._chunk_ns,
            chunk_tokens=[1] * chunks if tokens is None else tokens,
            chunk_coalesced=self._coalesced,
            prompt=self.request.prompt,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            server_timings=timings,
            oddities=self._oddities(told, failed=kind is not None, untrue=tokens is None and -1 not in self._counts),
        )

    def _oddities(self, told: int | None, *, failed: bool, untrue: bool) -> dict[str, int]:
        chunks, asked = len(self._chunk_ns), self.request.asked_output_tokens
        # Usage is of all choices together; the limit is one of each.
        alone = told is not None and not self._others
        return oddities(
            content_after_finish=self._after_finish,
            events_after_end=self._after_end,
            other_choices=len(self._others),
            surplus_chunks=chunks - told if told is not None else 0,
            surplus_tokens=told - asked if told is not None and alone and asked is not None else 0,
            untrue_counts=int(untrue and chunks > 0),
            no_end=int(not failed and not self._done),
            no_finish_reason=int(not failed and self._finish_reason is None),
            resent=self.resent,
        )

    def _classify(self) -> tuple[ErrorKind | None, str]:
        """The first failure that explains the others, or (None, "")."""
        kind, message = self._failure or (None, "")
        if self.status is not None and self.status != 200:
            return status_failure(self.status, bytes(self._body), self._headers)
        if self._error is not None:
            return "stream_error", f"the server reported an error inside the stream: {self._error}"
        if kind is not None and not self._done and not (kind == "truncated" and self._finish_reason):
            return kind, message
        if self._broken is not None:
            return "stream_error", f"broken event in the stream: {self._broken}"
        if self._events == 0:
            return no_stream(bytes(self._body), self._headers)
        if not self._done and self._finish_reason is None:
            return "truncated", f"the stream ended without {self._dialect.end} and without a finish_reason"
        if not self._chunk_ns:
            return "empty", "HTTP 200 and a whole stream, but no generated content in it"
        return None, ""
