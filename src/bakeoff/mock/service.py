"""The endpoints of the mock, its slots, and its counters."""

from __future__ import annotations

import hmac
from collections import OrderedDict, deque
from collections.abc import Callable
from hashlib import blake2b
from time import monotonic_ns, time

from .alarm import Alarm
from .asks import Ask, Refused, read_ask, read_tokenize
from .encoding import json_bytes
from .faults import LOADING, FaultPlan
from .generation import FixedAnswer, Generation, error_body, plain_record
from .latency import LatencyModel, Pace
from .sendlog import SendLog, SendRecord
from .wire import Connection, Exchange, Request
from .words import tokenize

_GENERATING = {"/v1/completions": False, "/v1/chat/completions": True}  # path → chat
_OPEN = ("/health", "/metrics")  # answered without a key, as by vLLM and llama.cpp
_REMEMBERED_PROMPTS = 100_000

_METRICS = """\
# HELP llamacpp:prompt_tokens_total Prompt tokens processed, without those taken from the cache.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total {prompt}
# HELP llamacpp:prompt_tokens_cached_total Prompt tokens taken from the cache.
# TYPE llamacpp:prompt_tokens_cached_total counter
llamacpp:prompt_tokens_cached_total {cached}
# HELP llamacpp:tokens_predicted_total Tokens generated.
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total {predicted}
# HELP llamacpp:requests_processing Requests that hold a slot.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing {processing}
# HELP llamacpp:requests_deferred Requests that wait for a slot.
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred {deferred}
"""


class MockService:
    """Answers requests by the latency model. One per server; all calls come from the event loop's thread."""

    def __init__(self, pace: Pace, alarm: Alarm, faults: FaultPlan, *, model_name: str, api_key: str | None) -> None:
        self.connections: set[Connection] = set()
        self.on_record: Callable[[SendRecord], None] = lambda _record: None
        self.on_idle: Callable[[], None] = lambda: None
        self.on_death: Callable[[], None] = lambda: None
        self._pace, self._alarm, self._faults = pace, alarm, faults
        self._model: LatencyModel = pace.model
        self._model_name = model_name
        self._api_key = f"Bearer {api_key}".encode() if api_key else None
        self._received = self._ended = 0
        self._active: set[Generation] = set()
        self._waiting: deque[Generation] = deque()
        self._prompts: OrderedDict[bytes, None] = OrderedDict()  # whole prompts answered before
        self._prompt_tokens = self._cached_tokens = self._predicted_tokens = 0

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
        if not self._allowed(request):
            exchange.whole(401, error_body("Incorrect API key provided.", "authentication_error", 401))
            return
        chat = _GENERATING.get(request.path)
        if chat is not None and request.method == "POST":
            self._generate(request, exchange, chat=chat)
            return
        if request.path not in _OPEN and (fault := self._faults.draw(generation=False)) is not None:
            exchange.whole(fault.status or 500, fault.body, fault.content_type, fault.headers)
            return
        self._answer_plain(request, exchange, known=chat is not None)

    def _allowed(self, request: Request) -> bool:
        if self._api_key is None or request.path in _OPEN:
            return True
        given = request.headers.get("authorization", "").encode("latin-1")
        return hmac.compare_digest(given, self._api_key)

    # --- plain endpoints ---

    def _answer_plain(self, request: Request, exchange: Exchange, *, known: bool) -> None:
        method, path = request.method, request.path
        if path == "/health" and method in ("GET", "HEAD"):
            self._send_text(exchange, json_bytes({"status": "ok"}), head_only=method == "HEAD")
        elif path == "/v1/models" and method == "GET":
            card = {"id": self._model_name, "object": "model", "created": int(time()), "owned_by": "bakeoff"}
            exchange.whole(200, json_bytes({"object": "list", "data": [card]}))
        elif path == "/metrics" and method == "GET":
            exchange.whole(200, self.metrics().encode(), "text/plain; version=0.0.4; charset=utf-8")
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
        """Counters in Prometheus' text format, with llama.cpp's names."""
        return _METRICS.format(
            prompt=self._prompt_tokens,
            cached=self._cached_tokens,
            predicted=self._predicted_tokens,
            processing=len(self._active),
            deferred=len(self._waiting),
        )

    # --- generation ---

    def _generate(self, request: Request, exchange: Exchange, *, chat: bool) -> None:
        index, self._received = self._received, self._received + 1
        fault = self._faults.draw(generation=True)
        if fault is not None and (fault.silent or fault.status is not None):
            FixedAnswer(index, exchange, fault).send(self._count_ended)
            return
        try:
            ask = read_ask(request.body, chat=chat)
        except Refused as problem:
            self._count_ended(plain_record(index, request, ("refused", 400)))
            exchange.whole(400, error_body(str(problem)))
            return
        generation = Generation(index, ask, exchange, fault, self._model)
        generation.open(self._generation_ended)
        if self._model.slots and len(self._active) >= self._model.slots:
            self._waiting.append(generation)
        else:
            # Its time runs from its arrival, and not from the end of this code: reading a long body is our own cost.
            self._begin(generation, request.recv_ns)

    def _begin(self, generation: Generation, start_ns: int) -> None:
        ask = generation.ask
        if self._model.prefix_cache and ask.use_cache and self._seen(ask):
            generation.cached_tokens = ask.input_tokens
        self._active.add(generation)
        self._prompt_tokens += ask.input_tokens - generation.cached_tokens
        self._cached_tokens += generation.cached_tokens
        uncached = ask.input_tokens - generation.cached_tokens
        generation.begin(self._pace.timing(start_ns, uncached, generation.output_tokens), start_ns, self._alarm)

    def _seen(self, ask: Ask) -> bool:
        """Whether this whole prompt came before; remembers it (bounded, the oldest is forgotten first)."""
        text = ask.prompt.encode("utf-8", "surrogatepass") if isinstance(ask.prompt, str) else json_bytes(ask.prompt)
        key = blake2b(text, digest_size=16, person=b"text" if isinstance(ask.prompt, str) else b"ids").digest()
        known = key in self._prompts
        self._prompts[key] = None
        self._prompts.move_to_end(key)
        if len(self._prompts) > _REMEMBERED_PROMPTS:
            self._prompts.popitem(last=False)
        return known

    def _generation_ended(self, generation: Generation) -> None:
        self._predicted_tokens += generation.record.output_tokens
        if generation in self._active:
            self._active.discard(generation)
            if self._waiting:
                self._begin(self._waiting.popleft(), monotonic_ns())
        else:
            self._waiting.remove(generation)
        self._count_ended(generation.record)

    def _count_ended(self, record: SendRecord) -> None:
        self._ended += 1
        self.on_record(record)
        if self._faults.dies_after is not None and self._ended >= self._faults.dies_after:
            self.on_death()
        if self.idle:
            self.on_idle()

    def abandon(self) -> None:
        """Ends what is still being generated or waits (logged as `shutdown`)."""
        for generation in (*self._waiting, *self._active):
            generation.abandon()
