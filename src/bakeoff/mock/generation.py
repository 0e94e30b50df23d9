"""One answer being generated: what is sent, and when."""

from __future__ import annotations

import time
from collections.abc import Callable
from time import monotonic_ns

import msgspec

from .alarm import Alarm
from .asks import Ask
from .encoding import DONE, ERROR_EVENT, StreamEncoder, escaped, json_bytes, usage_of, whole_answer
from .faults import FaultKind
from .latency import LatencyModel, Timing
from .sendlog import SendRecord
from .wire import Exchange, Request
from .words import answer_source, gibberish, natural_length, pieces

_SOUND = FaultKind(name="none", says="answers as it should")


class Answer(msgspec.Struct, frozen=True):
    """What will be said: pieces of one token each, and why it ends."""

    pieces: list[str]
    finish: str


def compose(ask: Ask, model: LatencyModel, fault: FaultKind) -> Answer:
    """The answer to a request: the same for the same seed and prompt."""
    source = answer_source(model.seed, ask.prompt, model.nonce_tokens)
    wanted = max(ask.least, natural_length(source, model.natural_tokens_mean * model.talkative))
    if ask.ignore_eos and ask.limit is not None:
        wanted = ask.limit
    count = wanted if ask.limit is None else min(wanted, ask.limit)
    finish = "length" if count == ask.limit else "stop"
    if fault.text == "none":
        return Answer([], "stop")
    if fault.text == "gibberish":
        return Answer(gibberish(source, count), finish)
    texts = pieces(source, count)
    return Answer([texts[0]] * count if fault.text == "one token" else texts, finish)


class Generation:
    """A request from its arrival to its last byte. Waits in line until `begin`, then sends on its deadlines."""

    def __init__(self, index: int, ask: Ask, exchange: Exchange, fault: FaultKind | None, model: LatencyModel) -> None:
        self.ask = ask
        self.index = index
        self.fault = fault
        self.ended = False
        self.cached_tokens = 0
        self._exchange = exchange
        self._effect = fault or _SOUND
        self._answer = compose(ask, model, self._effect)
        self._model = model
        self._alarm: Alarm
        self._timing: Timing
        self._on_end: Callable[[Generation], None]
        self._record: SendRecord | None = None
        self._start_ns: int | None = None
        self._created = int(time.time())
        name = f"{'chatcmpl' if ask.chat else 'cmpl'}-mock-{index}"
        self._answer_id = name
        self._encoder = StreamEncoder(ask, name, self._created) if ask.stream else None
        self._chunk_ns: list[int] = []
        self._chunk_tokens: list[int] = []
        self._sent = 0  # tokens handed out
        self._cut_at = self._cut_point()
        exchange.on_lost = self

    @property
    def output_tokens(self) -> int:
        """Tokens that the whole answer has."""
        return len(self._answer.pieces)

    def _cut_point(self) -> int | None:
        """After how many tokens a fault cuts the stream: half of them, and at least one."""
        return None if self._effect.cut is None else max(1, self.output_tokens // 2)

    def open(self, on_end: Callable[[Generation], None]) -> None:
        """The request has arrived: headers go out at once, as servers that stream do."""
        self._on_end = on_end
        if self._encoder is not None:
            self._exchange.head(
                200, "text/event-stream; charset=utf-8", length=None, headers=(("Cache-Control", "no-cache"),)
            )

    def begin(self, timing: Timing, start_ns: int, alarm: Alarm) -> None:
        """It holds a slot: the deadlines are set."""
        self._timing, self._start_ns, self._alarm = timing, start_ns, alarm
        if self._encoder is not None and self.ask.chat and self._model.role_chunk:
            self._exchange.write(self._encoder.role())
        alarm.set(self._next_due(), self)

    def fire(self) -> None:
        """The next deadline has passed: sends what is due."""
        if self.ended:
            return
        if self._encoder is None:
            self._send_whole()
            return
        while self._sent < self.output_tokens:
            due = self._next_due()
            if due > monotonic_ns():
                self._alarm.set(due, self)
                return
            self._send_chunks(self._encoder)
            if self._cut_at is not None and self._sent >= self._cut_at:
                self._cut()
                return
        self._finish_stream(self._encoder)

    def lost(self) -> None:
        """The client has left."""
        self._end("cancelled")

    def abandon(self) -> None:
        """The server shuts down."""
        self._end("shutdown")

    # --- what is due when ---

    def _next_chunks(self) -> list[int]:
        """Tokens of each chunk of the next write: the first token alone, then `coalesce` full chunks."""
        if self._sent == 0:
            return [1]
        sizes: list[int] = []
        left = self.output_tokens - self._sent
        while left > 0 and len(sizes) < self._model.coalesce:
            sizes.append(min(left, self._model.tokens_per_chunk))
            left -= sizes[-1]
        return sizes

    def _next_due(self) -> float:
        """When the last token of the next write is due (of the whole answer, where it is not streamed)."""
        if self._encoder is None:
            return self._timing.due(max(0, self.output_tokens - 1))
        if self._sent == 0:
            return self._timing.due(0)
        step = self._model.coalesce * self._model.tokens_per_chunk
        return self._timing.due(min(self._sent + step, self.output_tokens) - 1)

    # --- sending ---

    def _send_chunks(self, encoder: StreamEncoder) -> None:
        sizes, events, at = self._next_chunks(), [], self._sent
        for size in sizes:
            events.append(encoder.content(escaped("".join(self._answer.pieces[at : at + size]))))
            at += size
        data = events[0] if len(events) == 1 else b"".join(events)
        self._chunk_ns.extend([monotonic_ns()] * len(sizes))
        self._exchange.write(data)
        self._chunk_tokens.extend(sizes)
        self._sent = at

    def _usage(self) -> dict[str, object] | None:
        return usage_of(self.ask.input_tokens, self.output_tokens, self.cached_tokens) if self._effect.usage else None

    def _finish_stream(self, encoder: StreamEncoder) -> None:
        last = encoder.finish(self._answer.finish)
        usage = self._usage()
        if self.ask.include_usage and usage is not None:
            last += encoder.usage(usage)
        if self._effect.done:
            last += DONE
        self._end(self._answer.finish, last)

    def _send_whole(self) -> None:
        count = self.output_tokens
        body = whole_answer(
            self.ask, self._answer_id, self._created, self._answer.pieces, (self._answer.finish, self._usage())
        )
        cut = self._effect.cut
        if cut == "error event":
            body = ERROR_EVENT.removeprefix(b"data: ").strip()
        elif count:
            self._chunk_ns, self._chunk_tokens, self._sent = [monotonic_ns()], [count], count
        self._exchange.head(200, "application/json", length=len(body))
        if cut in (None, "error event"):
            self._end(self._answer.finish if cut is None else "fault", body)
            return
        self._exchange.write(body[: len(body) // 2])
        self._cut()

    def _cut(self) -> None:
        """What the fault does in mid-answer."""
        cut = self._effect.cut
        if cut == "hang":
            return  # keeps its slot, as a stuck sequence does, until the client leaves
        if cut == "error event":
            self._end("fault", ERROR_EVENT + (DONE if self._effect.done else b""))
            return
        self._exchange.cut(reset=cut == "reset")
        self._end("fault")

    # --- the end ---

    def _end(self, finish: str, last: bytes | None = None) -> None:
        """Ends once: logs, frees the slot, and sends the last bytes."""
        if self.ended:
            return
        self.ended = True
        # Logged before the end marker goes out, so that a client which has its answer finds it in the log.
        self._record = self._make_record(finish, monotonic_ns())
        self._on_end(self)
        if last is not None:
            self._exchange.end(last)

    @property
    def record(self) -> SendRecord:
        """Its line of the send log; only once it has ended."""
        assert self._record is not None  # noqa: S101  # callers are told of the end by `on_end`
        return self._record

    def _make_record(self, finish: str, end_ns: int) -> SendRecord:
        request, begun = self._exchange.request, self._start_ns is not None
        return SendRecord(
            request_id=request.headers.get("x-request-id", str(self.index))[:200],
            index=self.index,
            path=request.path,
            stream=self.ask.stream,
            status=self._exchange.status,
            recv_ns=request.recv_ns,
            start_ns=self._start_ns,
            due_first_ns=round(self._timing.due(0)) if begun else None,
            due_last_ns=round(self._timing.due(max(0, self.output_tokens - 1))) if begun else None,
            first_send_ns=self._chunk_ns[0] if self._chunk_ns else None,
            chunk_ns=tuple(self._chunk_ns),
            chunk_tokens=tuple(self._chunk_tokens),
            end_ns=end_ns,
            finish=finish,
            fault=self.fault.name if self.fault else None,
            input_tokens=self.ask.input_tokens,
            output_tokens=self._sent,
            cached_tokens=self.cached_tokens,
        )


class FixedAnswer:
    """A request that a fault answers with something else, or with silence."""

    def __init__(self, index: int, exchange: Exchange, fault: FaultKind) -> None:
        self._index, self._exchange, self._fault = index, exchange, fault
        self._on_end: Callable[[SendRecord], None] | None = None

    def send(self, on_end: Callable[[SendRecord], None]) -> None:
        if self._fault.silent:
            self._on_end, self._exchange.on_lost = on_end, self
            return
        fault, status = self._fault, self._fault.status or 500
        on_end(self._record("fault", status))
        if fault.content_type == "text/event-stream":
            self._exchange.head(status, fault.content_type, length=None, headers=fault.headers)
            self._exchange.end(fault.body)
        else:
            self._exchange.whole(status, fault.body, fault.content_type, fault.headers)

    def lost(self) -> None:
        if self._on_end is not None:
            self._on_end(self._record("cancelled", 0))

    def _record(self, finish: str, status: int) -> SendRecord:
        return plain_record(self._index, self._exchange.request, (finish, status), self._fault.name)


def plain_record(index: int, request: Request, outcome: tuple[str, int], fault: str | None = None) -> SendRecord:
    """The log line of a request that generated nothing; `outcome` = (finish, HTTP status)."""
    return SendRecord(
        request_id=request.headers.get("x-request-id", str(index))[:200],
        index=index,
        path=request.path,
        stream=False,
        status=outcome[1],
        recv_ns=request.recv_ns,
        end_ns=monotonic_ns(),
        finish=outcome[0],
        fault=fault,
    )


def error_body(message: str, kind: str = "invalid_request_error", code: int = 400) -> bytes:
    """An error as OpenAI sends it."""
    return json_bytes({"error": {"message": message, "type": kind, "param": None, "code": code}})
