"""One streamed answer being read: from body bytes and arrival stamps to what a record is made of."""

from __future__ import annotations

from collections.abc import Callable

from ..model import ErrorKind
from .answer import Answer
from .chunks import ChunkError, Delta, count_of, error_text, excerpt
from .failures import Mask, body_text
from .http import Verdict
from .request import PreparedRequest
from .sse import MAX_EVENT_BYTES

_DONE = b"[DONE]"
_EXCERPT_BYTES = 64 * 1024
# An answer that never ends must not take all memory.
_MAX_BODY_BYTES = 512 * 1024 * 1024
_MORE, _OVER, _ABORT = Verdict.MORE, Verdict.OVER, Verdict.ABORT


class StreamExchange(Answer):
    """Sends one prepared request and reads its stream. `on_end` is called once, when the answer has ended or failed.

    A chunk carries content if it adds text, reasoning or tool-call text; a chunk with only a role, an empty text or
    only usage does not. Chunks of one socket read share its stamp, and all but the first are marked coalesced.

    Of several choices (``n`` > 1) the text of the first is kept; the chunks of the others count as content as well,
    because they are what the server spends its time on.
    """

    __slots__ = ("_on_crash", "_on_end", "_read", "_read_ns", "_received")

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
        super().__init__(request, payload, scheduled_ns, mask)
        self._on_end = on_end
        self._on_crash = on_crash
        self._read = self._dialect.read
        self._received = 0
        self._read_ns = 0  # arrival of the last read

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

    # Inside.

    def _take(self, payload: bytes, name: str, now_ns: int) -> None:
        self._events += 1
        if payload == _DONE:  # of some proxies also in dialects that end otherwise
            self._done = True
            return
        if self._done:  # every other client has stopped reading
            self._after_end += 1
            return
        try:
            delta = self._read(payload, name)
        except ChunkError as error:
            self._no_object(payload, name, error)
            return
        if delta.content:
            self._content(delta, now_ns)
        if delta.usage is not None:
            self._usage = delta.usage if self._usage is None else self._usage.updated(delta.usage)
        if delta.timings is not None:
            self._timings = delta.timings
        if delta.finish_reason is not None:
            self._finish_reason = delta.finish_reason
        if delta.error is not None or name == "error":
            self._error = self._error or delta.error or body_text(payload)
        if delta.done:
            self._done = True

    def _no_object(self, payload: bytes, name: str, error: ChunkError) -> None:
        text = payload.decode("utf-8", "replace")
        if payload.strip() == _DONE:
            self._done = True
        elif name == "error":
            self._error = self._error or error_text(text)
        elif self._broken is None:
            self._broken = f"{error}: {excerpt(text, 200)}"

    def _content(self, delta: Delta, now_ns: int) -> None:
        stamps = self._chunk_ns
        if delta.choice:
            self._others[len(stamps)] = delta.choice
        elif self._finish_reason is not None:
            self._after_finish += 1
        self._coalesced.append(bool(stamps) and stamps[-1] == now_ns)
        stamps.append(now_ns)
        count = None
        if delta.usage is not None:
            count = delta.usage.completion_tokens
        if count is None and delta.timings is not None:
            count = count_of(delta.timings.get("predicted_n"))
        self._counts.append(-1 if count is None else count)
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
