"""What the mock counts of itself: truth, in its own words. `exposition` tells it in the words of a real server."""

from __future__ import annotations

from bisect import bisect_left
from time import monotonic_ns, time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .generation import Generation
    from .sendlog import SendRecord

_NS = 1e9
# Upper bounds of the buckets of all time histograms [s]: three a decade.
BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
#: Upper bounds of the histograms of token counts.
TOKEN_BOUNDS = (1.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5)


class Histogram:
    """Observations in buckets, as Prometheus counts them."""

    __slots__ = ("bounds", "buckets", "count", "total")

    def __init__(self, bounds: tuple[float, ...] = BOUNDS) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.count += 1
        self.total += value


class Meter:
    """Counters of one server. `running` and `waiting` are those of the service."""

    def __init__(self) -> None:
        self.started_s = time()
        self.running: set[Generation] = set()
        self.waiting = 0
        self.prompt_tokens = self.cached_tokens = 0  # of requests that got a slot
        self.queried_tokens = 0  # of them: looked up in the prefix cache
        self.generated_tokens = 0  # sent, from first to last
        self.decode_calls = 0.0  # steps of a batch in which every running request gets its token
        self.longest = 0  # prompt and answer together
        self.received = 0
        self.ended: dict[str, int] = {}  # finish → generation requests
        # [s]; of the requests that were answered to the end: but for the first, as soon as it is known
        self.ttft, self.itl = Histogram(), Histogram()
        self.queue, self.prefill, self.decode, self.e2e, self.tpot = (Histogram() for _ in range(5))
        self.prompt_lengths, self.answer_lengths = Histogram(TOKEN_BOUNDS), Histogram(TOKEN_BOUNDS)

    def began(self, input_tokens: int, cached_tokens: int | None) -> None:
        """A request got its slot. `cached_tokens`: found in the prefix cache, None where it was not looked up."""
        self.prompt_tokens += input_tokens
        if cached_tokens is not None:
            self.queried_tokens += input_tokens
            self.cached_tokens += cached_tokens

    def sent(self, tokens: int, first_of_ns: int | None) -> None:
        """Tokens went out; `first_of_ns`: the arrival of the request, where they were its first."""
        self.generated_tokens += tokens
        self.decode_calls += tokens / (len(self.running) or 1)
        if first_of_ns is not None:
            self.ttft.observe((monotonic_ns() - first_of_ns) / _NS)

    def finished(self, record: SendRecord) -> None:
        """A generation request has ended, whatever its end."""
        self.ended[record.finish] = self.ended.get(record.finish, 0) + 1
        self.longest = max(self.longest, record.input_tokens + record.output_tokens)
        if record.finish not in ("stop", "length") or record.start_ns is None or not record.chunk_ns:
            return
        first, last = record.chunk_ns[0], record.chunk_ns[-1]
        self.queue.observe((record.start_ns - record.recv_ns) / _NS)
        self.prefill.observe((first - record.start_ns) / _NS)
        self.decode.observe((last - first) / _NS)
        self.e2e.observe((last - record.recv_ns) / _NS)
        self.prompt_lengths.observe(record.input_tokens)
        self.answer_lengths.observe(record.output_tokens)
        gaps = len(record.chunk_ns) - 1
        if gaps:
            # One observation a gap, all in the bucket of their mean: looking at each would delay other requests.
            self.itl.buckets[bisect_left(BOUNDS, (last - first) / gaps / _NS)] += gaps
            self.itl.count += gaps
            self.itl.total += (last - first) / _NS
        if record.output_tokens > 1:
            self.tpot.observe((last - first) / (record.output_tokens - 1) / _NS)

    @property
    def running_tokens(self) -> int:
        """Tokens that the running requests hold: their prompts and what they have said."""
        return sum([generation.ask.input_tokens + generation.sent_tokens for generation in self.running])
