"""One block being sent: connections, slots, the schedule, and the watch over the server."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ..model import Endpoint, ErrorKind, RequestRecord
from .address import frame, join_url, request_head, split_url
from .block import ClientBlock, Timeouts
from .clock import Clock
from .exchange import StreamExchange
from .failures import Mask
from .pool import Pool
from .request import PreparedRequest
from .timing import Backoff, LagMeter, Metronome, Pacer

_CHECK_S = 1.0
# After a lost connection the server is looked at soon, but its process needs a moment to be gone.
_CHECK_SOON_S = 0.1
# Open loop: connections are opened this long before they are needed, so that no handshake is in a latency, and not
# much earlier, because an idle connection holds a thread in some servers.
AHEAD_NS = 250_000_000
_LEAD_NS = 5_000_000  # between the start of an open loop's metronome and its first instant
_RECONNECT_PAUSE_S = 0.05  # keeps a closed loop from spinning against a server that is gone


class BlockRun:
    """The state of one `run_requests`; good for one use."""

    def __init__(
        self,
        endpoint: Endpoint,
        requests: Sequence[PreparedRequest],
        timeouts: Timeouts,
        deadline_ns: int | None,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._now = clock.monotonic_ns
        self._loop = asyncio.get_running_loop()
        self._origin = split_url(endpoint.base_url)[0]
        heads = {
            path: request_head("POST", self._origin, split_url(join_url(endpoint.base_url, path))[1], endpoint.headers)
            for path in {request.path for request in requests}
        }
        # Whole messages, made before the clock starts: a slot that comes free has only to send.
        self._messages = [frame(heads[request.path], request.body) for request in requests]
        self._mask = Mask(endpoint)
        self._requests = requests
        self._deadline_ns = deadline_ns
        self._pacer = Pacer(endpoint.requests_per_minute)
        self._pool = Pool(
            self._origin,
            connect_timeout_s=timeouts.connect_s,
            request_timeout_s=timeouts.request_s,
            now=self._now,
        )
        self._next = 0
        self._stopping = False
        self._active: dict[StreamExchange, asyncio.Future[None] | None] = {}
        self._finished: list[StreamExchange] = []
        self._records: list[RequestRecord] = []
        self._started_ns = 0
        self._trouble: asyncio.Future[None] = self._loop.create_future()
        self._connection_lost = asyncio.Event()
        self._quiet = asyncio.Event()  # open loop: all has been fired and has ended
        self._to_fire = 0
        self._due_soon = 0
        self.on_record: Callable[[RequestRecord], None] | None = None

    async def execute(
        self, connections: int, work: Callable[[], Awaitable[None]], check: Callable[[], None] | None
    ) -> ClientBlock:
        lag = LagMeter(self._clock)
        tasks: list[asyncio.Future[None]] = []
        try:
            await self._pool.open(connections)
            self._started_ns = self._now()
            lag.start()
            working = asyncio.ensure_future(work())
            tasks.append(working)
            if check is not None:
                tasks.append(asyncio.ensure_future(self._watch(check)))
            await asyncio.wait([*tasks, self._trouble], return_when=asyncio.FIRST_COMPLETED)
            self._stopping = True
            died = _exception(tasks[-1]) if check is not None else None
            failure = died or _exception(working) or _exception(self._trouble)
            if failure is not None:
                self._abandon("server_died" if died else "cancelled", failure)
            self._drain()
            block = self._block(lag)
            failure = failure or _exception(self._trouble)  # the last record's listener may have failed
            if failure is not None:
                failure.partial = block  # type: ignore[attr-defined]  # read by who keeps what was measured
                raise failure
            return block
        finally:
            lag.stop()
            self._stopping = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._pool.close()
            _exception(self._trouble)  # told or not, it has been seen
            self._trouble.cancel()

    # The two loops.

    async def closed(self, slots: int) -> None:
        """N slots; each takes the next request when its last one has ended."""
        await asyncio.gather(*(self._slot() for _ in range(slots)))

    async def _slot(self) -> None:
        backoff = Backoff()
        ready_ns = self._started_ns
        while (at_ns := await self._turn(ready_ns)) is not None:
            done = self._loop.create_future()
            exchange = self._begin(self._next, at_ns, done)
            await done
            ready_ns = exchange.end_ns or self._now()
            if exchange.rate_limited:
                wait = backoff.after_limit(exchange.retry_after_s)
                ready_ns += round(wait * 1e9)
            elif exchange.no_connection:
                ready_ns += round(_RECONNECT_PAUSE_S * 1e9)
            else:
                backoff.reset()

    async def _turn(self, ready_ns: int) -> int | None:
        """Waits until a slot that is ready then may send; returns its scheduled time, or None at the end."""
        if self._over(ready_ns):
            return None
        at_ns = self._pacer.turn(ready_ns)
        if self._over(at_ns):
            return None
        left = at_ns - self._now()
        if left > 0:
            await self._clock.sleep(left / 1e9)
            if self._over(at_ns):  # another slot took the last request
                return None
            return self._now()  # no arrival was due before: a timer's rounding is not a delay of the request
        return at_ns

    def _over(self, at_ns: int) -> bool:
        late = self._deadline_ns is not None and max(at_ns, self._now()) >= self._deadline_ns
        return late or self._stopping or self._next >= len(self._requests)

    async def open(self, offsets: Sequence[int]) -> None:
        """Fires each request at its instant, and waits until all have ended."""
        self._started_ns = self._now() + _LEAD_NS
        instants = [self._started_ns + offset for offset in offsets]
        if self._deadline_ns is not None:
            instants = [instant for instant in instants if instant < self._deadline_ns]
        if not instants:
            return
        self._to_fire = len(instants)
        ahead = [(instant - AHEAD_NS, self._expect) for instant in instants]
        fire = [(instant, partial(self._fire, position, instant)) for position, instant in enumerate(instants)]
        metronome = Metronome(self._loop, self._clock, list(heapq.merge(ahead, fire, key=lambda tick: tick[0])))
        metronome.start()
        try:
            await self._quiet.wait()
        finally:
            metronome.stop()

    def _expect(self) -> None:
        self._due_soon += 1
        self._pool.ensure(self._due_soon)

    def _fire(self, position: int, instant_ns: int) -> None:
        if self._stopping:
            return
        self._due_soon -= 1
        self._to_fire -= 1
        try:
            self._begin(position, instant_ns, None)
        except Exception as error:  # a bug of ours must end the block, not vanish in the event loop
            self._crashed(error)

    # Requests.

    def _begin(self, position: int, scheduled_ns: int, done: asyncio.Future[None] | None) -> StreamExchange:
        self._next = position + 1
        exchange = StreamExchange(
            self._requests[position],
            self._messages[position],
            scheduled_ns,
            mask=self._mask,
            on_end=self._ended,
            on_crash=self._crashed,
        )
        self._active[exchange] = done
        self._pool.dispatch(exchange)
        return exchange

    def _ended(self, exchange: StreamExchange) -> None:
        done = self._active.pop(exchange, None)
        if done is not None and not done.done():
            done.set_result(None)  # first: its slot sends the next request before the record is made
        if not self._finished:
            self._loop.call_soon(self._drain)
        self._finished.append(exchange)
        if exchange.no_connection:
            self._connection_lost.set()
        if not self._active and not self._to_fire:
            self._quiet.set()

    def _drain(self) -> None:
        finished, self._finished = self._finished, []
        try:
            for exchange in finished:
                record = exchange.record()
                self._records.append(record)
                if self.on_record is not None:
                    self.on_record(record)
        except Exception as error:  # whoever listens failed: the block must not go on unseen
            self._crashed(error)

    def _crashed(self, error: BaseException) -> None:
        if not self._trouble.done():
            self._trouble.set_exception(error)

    # The server's life.

    async def _watch(self, check: Callable[[], None]) -> None:
        while True:
            try:
                async with asyncio.timeout(_CHECK_S):
                    await self._connection_lost.wait()
                await asyncio.sleep(_CHECK_SOON_S)
            except TimeoutError:
                pass
            self._connection_lost.clear()
            check()

    def _abandon(self, kind: ErrorKind, failure: BaseException) -> None:
        """Ends all requests in flight: the server is gone, or we cannot go on."""
        message = str(getattr(failure, "message", failure))
        for exchange in tuple(self._active):
            exchange.on_failure(kind, message, self._now())

    def _block(self, lag: LagMeter) -> ClientBlock:
        return ClientBlock(
            records=sorted(self._records, key=lambda record: record.index),
            started_ns=self._started_ns,
            ended_ns=self._now(),
            loop_lag_ns=lag.values,
        )


def _exception(future: asyncio.Future[None]) -> BaseException | None:
    return future.exception() if future.done() and not future.cancelled() else None
