"""One answer being generated: what is sent, and when."""

from __future__ import annotations

import time
from collections.abc import Callable
from time import monotonic_ns

from .alarm import Alarm
from .asks import Ask
from .composing import SOUND, Answer, Dress, compose, ending_of
from .counters import Meter
from .events import Answered, Ending, Events, events_for
from .fault_table import FaultKind
from .latency import LatencyModel, Timing
from .sendlog import SendRecord
from .wire import Exchange

_BURST = 64  # most chunks in one write: others get their turn between
_CLOGGED_NS = 1_000_000  # pause while the client does not read
_EVENT_STREAM = "text/event-stream; charset=utf-8"
_PREFIX = {"completions": "cmpl-mock_", "chat": "chatcmpl-mock_", "responses": "resp_mock_", "messages": "msg_mock_"}


class Generation:
    """A request from its arrival to its last byte. Waits in line until `begin`, then sends on its deadlines."""

    __slots__ = (
        "_alarm", "_answer", "_chunk_ns", "_chunk_tokens", "_dress", "_effect", "_events", "_exchange", "_meter",
        "_model", "_on_end", "_on_ending", "_parts", "_record", "_said", "_sent", "_size", "_start_ns", "_step",
        "_stop_at", "_timing", "ask", "cached_tokens", "ended", "fault", "index",
    )  # fmt: skip

    def __init__(self, index: int, ask: Ask, exchange: Exchange, fault: FaultKind | None, model: LatencyModel) -> None:
        self.ask = ask
        self.index = index
        self.fault = fault
        self.ended = False
        self.cached_tokens = 0
        self._exchange = exchange
        self._effect = fault or SOUND
        self._answer: Answer = compose(ask, model, self._effect)
        self._model = model
        self._size = self._effect.tokens_per_chunk or model.tokens_per_chunk
        self._step = self._size * model.coalesce
        self._meter: Meter
        self._alarm: Alarm
        self._timing: Timing
        self._on_ending: Callable[[], None]
        self._on_end: Callable[[Generation], None]
        self._record: SendRecord | None = None
        self._start_ns: int | None = None
        self._events: Events = events_for(ask, Answered(f"{_PREFIX[ask.api]}{index}", int(time.time())))
        self._dress = Dress(self._effect, self._events, self._answer.count) if fault is not None else None
        self._chunk_ns: list[int] = []
        self._chunk_tokens: list[int] = []
        self._parts: list[bytes] = []  # of a chunk that goes out in parts, the next one last
        self._said: list[str] | None = [] if model.prefix_cache else None
        self._sent = 0  # tokens handed out
        self._stop_at = self._cut_point()
        exchange.on_lost = self

    @property
    def output_tokens(self) -> int:
        """Tokens that the whole answer has."""
        return self._answer.count

    @property
    def sent_tokens(self) -> int:
        """Tokens sent so far."""
        return self._sent

    @property
    def said(self) -> str:
        """The text sent so far; only kept for a prefix cache."""
        return "".join(self._said or ())

    def _cut_point(self) -> int:
        """After how many tokens a fault cuts the stream: half of them and at least one, or none."""
        if self._effect.cut is None:
            return self.output_tokens
        return 0 if self._effect.at_start else max(1, self.output_tokens // 2)

    def open(self, on_ending: Callable[[], None], on_end: Callable[[Generation], None], meter: Meter) -> None:
        """The request has arrived: headers go out, as those of servers that stream do. `on_ending` is called before
        the last bytes are sent, `on_end` after."""
        self._on_ending, self._on_end, self._meter = on_ending, on_end, meter
        if self.ask.stream:
            headers = (("Cache-Control", "no-cache"), *self._effect.headers)
            self._exchange.head(200, _EVENT_STREAM, length=None, headers=headers, effect=self._effect)

    def begin(self, timing: Timing, start_ns: int, alarm: Alarm, *, at_once: bool) -> None:
        """It holds a slot: the deadlines are set. `at_once`: what is due already goes out before this returns."""
        self._timing, self._start_ns, self._alarm = timing, start_ns, alarm
        if self.ask.stream:
            opening = self._events.opening()
            if (self.ask.api == "chat" and self._model.role_chunk) or self._effect.insert == "role":
                opening += self._events.role()
            if opening:
                self._exchange.write(self._shaped(opening))
        if at_once and self._next_due() <= monotonic_ns():
            self.fire()
            return
        self._exchange.flush()
        alarm.set(self._next_due(), self)

    def fire(self) -> None:
        """The next deadline has passed: sends what is due, all of it in one write but for the first token."""
        if self.ended:
            return
        if not self.ask.stream:
            self._send_whole()
            return
        if self._parts:
            self._send_part()
            return
        now = monotonic_ns()
        if self._exchange.clogged:
            self._alarm.set(now + _CLOGGED_NS, self)
            return
        if self._sent == 0 < self._stop_at and self._send_due(now):
            return
        if 0 < self._sent < self._stop_at and self._send_due(now):
            return
        if self._sent >= self._stop_at and self._next_due() <= now:
            self._finish_stream([]) if self._effect.cut is None else self._cut()
            return
        # Not earlier than now, so that a server which is late reads new requests between its writes.
        self._alarm.set(max(monotonic_ns(), self._next_due()), self)

    def lost(self) -> None:
        """The client has left."""
        self._end("cancelled")

    def abandon(self) -> None:
        """The server shuts down."""
        self._end("shutdown")

    # --- sending ---

    def _next_due(self) -> float:
        """When the last token of the next write is due (of the whole answer, where it is not streamed)."""
        last, sent = self.output_tokens - 1, self._sent
        if not self.ask.stream:
            return self._timing.due(max(0, last))
        if sent >= self._stop_at:
            return self._timing.due(max(0, sent - 1))
        return self._timing.due(min(sent + self._step - 1, last) if sent else 0)

    def _send_due(self, now: int) -> bool:
        """Sends the chunks whose deadlines have passed; the first token goes alone. True: the rest is taken care of,
        because the answer has ended, or because its chunks go out in parts, each of which sets the alarm."""
        timing, answer, size, stop_at = self._timing, self._answer, self._size, self._stop_at
        events: list[bytes] = []
        sizes: list[int] = []
        sent, total, step = self._sent, answer.count, self._step
        while sent < stop_at and len(sizes) < _BURST:
            until = min(sent + step, total) if sent else 1
            if timing.due(until - 1) > now:
                break
            while sent < until:
                tokens = min(size, until - sent)
                text, kind = answer.take(tokens)
                sent += tokens
                event = self._events.content(text, sent, kind)
                if self._said is not None:
                    self._said.append(text)
                if self._dress is None:
                    events.append(event)
                    sizes.append(tokens)
                else:
                    self._dress.chunk(event, tokens, events, sizes)
            if sent == 1 or self._dress is not None:
                break
        if not events:
            return False
        self._meter.sent(sum(sizes), None if self._sent else self._exchange.request.recv_ns)
        self._sent = sent
        self._chunk_tokens += sizes
        if sent >= total and self._effect.shape not in ("drip", "split"):
            self._finish_stream(events)  # what ends the answer goes out with its last token
            return True
        framed = self._exchange.framed(events)
        if self._dress is not None and (parts := self._dress.parts(framed)):
            self._exchange.flush()
            self._parts = parts
            self._send_part()
            return True
        stamp = monotonic_ns()
        self._exchange.send(framed)
        self._chunk_ns += [stamp] * len(sizes)
        return False

    def _send_part(self) -> None:
        """Sends the next part of a chunk that goes out in parts. Its stamp is that of the last part, before which no
        client can see the chunk."""
        part = self._parts.pop()
        if self._parts:
            assert self._dress is not None  # noqa: S101  # only dressed chunks go out in parts
            due: float = monotonic_ns() + self._dress.part_gap_ns
        else:
            missing = len(self._chunk_tokens) - len(self._chunk_ns)
            self._chunk_ns += [monotonic_ns()] * missing
            due = max(monotonic_ns(), self._next_due())
        self._exchange.send(part)
        self._alarm.set(due, self)

    def _shaped(self, data: bytes) -> bytes:
        return data if self._dress is None else self._dress.shaped(data)

    def _ending(self) -> Ending:
        return ending_of(self._answer, self._effect, self.ask.input_tokens, self.cached_tokens)

    def _finish_stream(self, events: list[bytes]) -> None:
        """Ends the answer, with the events of its last chunks if those have not gone out."""
        ending = self._ending()
        last = self._events.closing(ending) if self._dress is None else self._dress.closing(ending, self._answer)
        self._end(self._answer.finish, [*events, last] if last else events)

    def _send_whole(self) -> None:
        parts = [self._answer.take(1) for _ in range(self.output_tokens)]
        body = self._events.whole([(kind, text) for text, kind in parts], self._ending())
        cut = self._effect.cut
        if self._said is not None:
            self._said += [text for text, _ in parts]
        if cut == "error event":
            body = self._events.failure().partition(b"data: ")[2].strip()
        elif self.output_tokens:
            self._sent = self.output_tokens
            self._chunk_tokens = [self._sent]
            self._meter.sent(self._sent, self._exchange.request.recv_ns)
        self._exchange.head(200, "application/json", length=len(body), effect=self._effect)
        if cut in (None, "error event"):
            self._end(self._answer.finish if cut is None else "fault", [body])
            return
        self._chunk_ns = [monotonic_ns()]
        self._exchange.write(body[: len(body) // 2])
        self._cut()

    def _cut(self) -> None:
        """What the fault does in mid-answer."""
        cut = self._effect.cut
        if cut == "hang":
            self._exchange.flush()
            return  # keeps its slot, as a stuck sequence does, until the client leaves
        if cut in ("error event", "end"):
            last = self._events.failure() + self._events.closing(Ending(None, None)) if cut == "error event" else b""
            self._end("fault", [self._shaped(last)] if last else [])
            return
        if cut == "bad framing":
            self._exchange.flush()
            self._exchange.send(b"this is no size\r\n")
        self._exchange.cut(reset=cut == "reset")
        self._end("fault")

    # --- the end ---

    def _end(self, finish: str, last: list[bytes] | None = None) -> None:
        """Ends once: sends the last parts of the body, logs, and frees the slot."""
        if self.ended:
            return
        self.ended = True
        exchange = self._exchange
        exchange.on_lost = None  # no cycle is left: no collection of garbage has to find it, and to delay tokens
        self._on_ending()
        if last is not None:
            exchange.closes = self._effect.closes
            data = exchange.final(last)
            missing = len(self._chunk_tokens) - len(self._chunk_ns)
            stamp = monotonic_ns()
            exchange.send(data)
            self._chunk_ns += [stamp] * missing
        self._record = self._make_record(finish, monotonic_ns())
        self._on_end(self)
        if last is not None:
            exchange.done()

    @property
    def record(self) -> SendRecord:
        """Its line of the send log; only once it has ended."""
        assert self._record is not None  # noqa: S101  # callers are told of the end by `on_end`
        return self._record

    def _make_record(self, finish: str, end_ns: int) -> SendRecord:
        request, begun = self._exchange.request, self._start_ns is not None
        stamps = tuple(self._chunk_ns)
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
            first_send_ns=stamps[0] if stamps else None,
            chunk_ns=stamps,
            chunk_tokens=tuple(self._chunk_tokens[: len(stamps)]),
            end_ns=end_ns,
            finish=finish,
            fault=self.fault.name if self.fault else None,
            input_tokens=self.ask.input_tokens,
            output_tokens=self._sent,
            cached_tokens=self.cached_tokens,
        )
