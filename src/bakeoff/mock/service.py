"""The endpoints of the mock, its slots, and its prefix cache."""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Callable
from time import monotonic_ns, time

from .alarm import Alarm
from .asks import PATHS, MockApi, Refused, error_body, read_ask, read_tokenize
from .connection import Connection, KnownHead
from .counters import Meter
from .events import json_bytes
from .exposition import CONTENT_TYPE, MetricsDialect, expose
from .faults import LOADING, FaultPlan
from .fixed import FixedAnswer, plain_record
from .generation import Generation
from .latency import LatencyModel, Pace
from .prefixes import PrefixCache
from .sendlog import SendLog, SendRecord
from .wire import Exchange, Request
from .words import tokenize

_OPEN = ("/health", "/metrics")  # answered without a key, as by vLLM and llama.cpp


class MockService:
    """Answers requests by the latency model. One per server; all calls come from the event loop's thread."""

    def __init__(
        self,
        pace: Pace,
        alarm: Alarm,
        faults: FaultPlan,
        *,
        model_name: str,
        api_key: str | None,
        dialect: MetricsDialect = "vllm",
    ) -> None:
        self.connections: set[Connection] = set()
        self.heads: dict[bytes, KnownHead] = {}
        self.closing = False  # connections close after the answer that they carry
        self.on_record: Callable[[SendRecord], None] = lambda _record: None
        self.on_idle: Callable[[], None] = lambda: None
        self.on_death: Callable[[], None] = lambda: None
        self.on_refusal: Callable[[], None] = lambda: None
        self._pace, self._alarm, self._faults = pace, alarm, faults
        self._model: LatencyModel = pace.model
        self._model_name, self._dialect = model_name, dialect
        self._api_key = api_key.encode() if api_key else None
        self._ended = 0
        self._meter = Meter()
        self._active = self._meter.running
        self._waiting: deque[Generation] = deque()
        self._silent: list[FixedAnswer] = []  # never answered
        self._cache = PrefixCache(pace.model.prefix_block, pace.model.kv_tokens) if pace.model.prefix_cache else None

    @property
    def idle(self) -> bool:
        """Nothing is being generated and nothing waits."""
        return not self._active and not self._waiting

    def log_to(self, log: SendLog) -> None:
        """Every record goes to this log from now on."""
        self.on_record = log.write

    def respond(self, request: Request, exchange: Exchange) -> None:
        """Answers one request, at once or on its deadlines."""
        if not self._faults.ready:
            exchange.whole(503, LOADING)
            return
        api = PATHS.get(request.path)
        if self._api_key is not None and not self._allowed(request):
            exchange.whole(401, error_body("Incorrect API key provided.", "authentication_error", 401, api))
            return
        if api is not None and request.method == "POST":
            self._generate(request, exchange, api)
            return
        if request.path not in _OPEN and (fault := self._faults.draw_beside()) is not None:
            exchange.whole(fault.status or 500, fault.body, fault.content_type, fault.headers)
            return
        self._answer_plain(request, exchange, known=api is not None)

    def _allowed(self, request: Request) -> bool:
        """Whether the key is right, as OpenAI's APIs take it or as Anthropic's does."""
        if self._api_key is None or request.path in _OPEN:
            return True
        bearer = request.headers.get("authorization", "").encode("latin-1")
        given = request.headers.get("x-api-key", "").encode("latin-1")
        right = hmac.compare_digest(bearer, b"Bearer " + self._api_key)
        return hmac.compare_digest(given, self._api_key) or right

    # --- plain endpoints ---

    def _answer_plain(self, request: Request, exchange: Exchange, *, known: bool) -> None:
        method, path = request.method, request.path
        if path == "/health" and method in ("GET", "HEAD"):
            self._send_text(exchange, json_bytes({"status": "ok"}), head_only=method == "HEAD")
        elif path == "/v1/models" and method == "GET":
            card = {"id": self._model_name, "object": "model", "created": int(time()), "owned_by": "bakeoff"}
            exchange.whole(200, json_bytes({"object": "list", "data": [card]}))
        elif path == "/metrics" and method == "GET":
            exchange.whole(200, self.metrics().encode(), CONTENT_TYPE)
        elif path == "/tokenize" and method == "POST":
            self._tokenize(request, exchange)
        elif known or path in ("/health", "/v1/models", "/metrics", "/tokenize"):
            exchange.whole(405, error_body(f"{method} is not allowed here", code=405))
        else:
            exchange.whole(404, error_body("no such path", "NotFoundError", 404))

    def _send_text(self, exchange: Exchange, body: bytes, *, head_only: bool) -> None:
        exchange.head(200, "application/json", length=len(body))
        exchange.end(b"" if head_only else body)

    def _tokenize(self, request: Request, exchange: Exchange) -> None:
        try:
            text, vllm = read_tokenize(request.body)
        except Refused as problem:
            exchange.whole(400, error_body(str(problem)))
            return
        tokens = tokenize(text)
        answer: dict[str, object] = {"tokens": tokens}
        if vllm:
            answer = {"count": len(tokens), "max_model_len": 1_000_000, "tokens": tokens}
        exchange.whole(200, json_bytes(answer))

    def metrics(self) -> str:
        """Counters in Prometheus' text format, under the names of the server that was chosen."""
        self._meter.waiting = len(self._waiting)
        return expose(self._meter, self._dialect, self._model_name, self._model.kv_tokens)

    # --- generation ---

    def _generate(self, request: Request, exchange: Exchange, api: MockApi) -> None:
        index, self._meter.received = self._meter.received, self._meter.received + 1
        fault = self._faults.draw()
        if fault is not None and fault.fixed:
            fixed = FixedAnswer(index, exchange, fault)
            fixed.send(self._fixed_ended)
            if fault.silent:
                self._silent = [other for other in self._silent if not other.ended] + [fixed]
            return
        try:
            ask = read_ask(request.body, api)
        except Refused as problem:
            self._fixed_ended(plain_record(index, request, ("refused", 400)))
            exchange.whole(400, error_body(str(problem), api=api))
            return
        generation = Generation(index, ask, exchange, fault, self._model)
        generation.open(self._ending, self._generation_ended, self._meter)
        if self._model.slots and len(self._active) >= self._model.slots:
            exchange.flush()
            self._waiting.append(generation)
        else:
            # Its time runs from its arrival, and not from the end of this code: reading a long body is our own cost.
            self._begin(generation, request.recv_ns, at_once=True)

    def _begin(self, generation: Generation, start_ns: int, *, at_once: bool) -> None:
        ask = generation.ask
        cached: int | None = None
        if self._cache is not None and ask.use_cache:
            cached = generation.cached_tokens = self._cache.begin(ask.prompt, ask.salt)
        self._active.add(generation)
        self._meter.began(ask.input_tokens, cached)
        timing = self._pace.timing(start_ns, ask.input_tokens - (cached or 0), generation.output_tokens)
        generation.begin(timing, start_ns, self._alarm, at_once=at_once)

    def _generation_ended(self, generation: Generation) -> None:
        record = generation.record
        if self._cache is not None and generation.ask.use_cache and record.output_tokens:
            self._cache.end(generation.ask.prompt, generation.ask.salt, generation.said)
        if generation in self._active:
            self._active.discard(generation)
            if self._waiting:
                self._begin(self._waiting.popleft(), monotonic_ns(), at_once=False)
        else:
            self._waiting.remove(generation)
        self._count_ended(record)

    def _ending(self) -> None:
        """A request is about to end."""
        if self._faults.refuses_after is not None and (self._ended + 1) % self._faults.refuses_after == 0:
            self.on_refusal()

    def _fixed_ended(self, record: SendRecord) -> None:
        self._ending()
        self._count_ended(record)

    def _count_ended(self, record: SendRecord) -> None:
        self._ended += 1
        self._meter.finished(record)
        self.on_record(record)
        if self._faults.dies_after is not None and self._ended >= self._faults.dies_after:
            self.on_death()
        if not self._active and not self._waiting:
            self.on_idle()

    def abandon(self) -> None:
        """Ends what is still being generated, waits, or is kept waiting (logged as `shutdown`)."""
        for generation in (*self._waiting, *self._active):
            generation.abandon()
        for silent in tuple(self._silent):
            silent.abandon()
