"""One block being sent from this process: connections, slots, the schedule, and the watch over the server.

Nothing in the data path is a coroutine: the end of an answer calls the next send of its slot.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from functools import partial

from ..model import ErrorKind, RequestRecord
from .alarm import Alarm
from .block import ClientBlock, Timeouts
from .clock import Clock
from .exchange import StreamExchange
from .inbox import Inbox
from .pool import Pool
from .request import PreparedRequest
from .share import AHEAD_NS, Instants, Player, Slots
from .target import Target
from .timing import LagMeter, Pacer
from .watching import exception_of, watch_server
from .work import Chain, Work, unsent

LEAD_NS = 5_000_000  # between the start of an open loop and its first instant
_RECONNECT_PAUSE_NS = 50_000_000  # keeps a closed loop from spinning against a server that is gone


class BlockRun:
    """The state of one block in one process; good for one use: `open`, `play`, `close`."""

    def __init__(
        self,
        target: Target,
        work: Work,
        share: Slots | Instants,
        timeouts: Timeouts,
        deadline_ns: int | None,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._now = clock.monotonic_ns
        self._loop = asyncio.get_running_loop()
        self._work = work
        self._share = share
        self._mask = target.mask
        self._deadline_ns = deadline_ns
        self._pacer = Pacer(target.requests_per_minute)
        self._inbox = Inbox(self._loop, self._now)
        self._pool = Pool(target.origin, timeouts, self._now, proxy=target.proxy, inbox=self._inbox)
        self._alarm = Alarm(self._loop, clock, self.crashed)
        self._lag = LagMeter(clock)
        self._stopping = False
        self._active: dict[StreamExchange, Player] = {}
        self._finished: list[tuple[StreamExchange, RequestRecord | None]] = []
        self._records: list[RequestRecord] = []
        self._started_ns = 0
        self._working = 0  # slots, or conversations of an open loop, that are not through
        self._quiet: asyncio.Future[None] = self._loop.create_future()
        self._trouble: asyncio.Future[None] = self._loop.create_future()
        self._connection_lost = asyncio.Event()
        self._due_soon = 0
        self.on_record: Callable[[RequestRecord], None] | None = None
        self.on_lost: Callable[[], None] = self._connection_lost.set

    # The life of a block.

    async def open(self) -> None:
        """Opens the connections that are needed at the start."""
        await self._pool.open(self._share.at_start)

    async def play(self, started_ns: int | None, check: Callable[[], None] | None = None) -> ClientBlock:
        """Sends everything and waits for the end of all that was sent. `started_ns`: the block's start; default, now
        (an open loop: in 5 ms). An exception takes the block so far along as its attribute `partial`."""
        cpu_s = time.process_time()
        watch: asyncio.Future[None] | None = None
        try:
            self._lag.start()
            self._start(started_ns)
            waiting: list[asyncio.Future[None]] = [self._quiet, self._trouble]
            if check is not None:
                watch = asyncio.ensure_future(watch_server(check, self._connection_lost))
                waiting.append(watch)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            died = exception_of(watch)
            failure = died or exception_of(self._trouble)
            if failure is not None:
                self.abandon("server_died" if died else "cancelled", str(getattr(failure, "message", failure)))
            self._stopping = True
            self._drain()
            block = self._block(time.process_time() - cpu_s)
            failure = failure or exception_of(self._trouble)  # the last record's listener may have failed
            if failure is not None:
                failure.partial = block  # type: ignore[attr-defined]  # read by who keeps what was measured
                raise failure
            return block
        finally:
            if watch is not None:
                watch.cancel()
                await asyncio.gather(watch, return_exceptions=True)

    async def close(self) -> None:
        """Closes everything at once and waits until the sockets are closed."""
        self._stopping = True
        self._alarm.close()
        self._lag.stop()
        await self._pool.close()
        exception_of(self._trouble)  # told or not, it has been seen
        self._trouble.cancel()
        self._quiet.cancel()

    def abandon(self, kind: ErrorKind, message: str) -> None:
        """Ends all requests in flight and starts none: the server is gone, or we cannot go on."""
        self._stopping = True
        self._alarm.close()
        for exchange in tuple(self._active):
            exchange.on_failure(kind, message, self._now())
        if not self._quiet.done():
            self._quiet.set_result(None)

    # Starting.

    def _start(self, started_ns: int | None) -> None:
        now = self._now()
        if isinstance(self._share, Slots):
            self._started_ns = now if started_ns is None else started_ns
            starts = self._share.starts_ns
            self._expect_work(len(starts))
            for offset in starts:
                at_ns = self._started_ns + offset
                player = Player(slot=True)
                if at_ns <= now:
                    self._next(player, at_ns)
                else:
                    self._alarm.at(at_ns, partial(self._next, player, at_ns))
            return
        self._started_ns = now + LEAD_NS if started_ns is None else started_ns
        instants = [(self._started_ns + offset, chain) for offset, chain in self._share]
        if self._deadline_ns is not None:
            instants = [(instant, chain) for instant, chain in instants if instant < self._deadline_ns]
        self._expect_work(len(instants))
        ahead = [(instant - AHEAD_NS, self._expect) for instant, _ in instants]
        fire = [(instant, partial(self._fire, chain, instant)) for instant, chain in instants]
        self._alarm.load(heapq.merge(ahead, fire, key=lambda tick: tick[0]))

    def _expect_work(self, count: int) -> None:
        self._working = count
        if not count:
            self._quiet.set_result(None)

    def _expect(self) -> None:
        self._due_soon += 1
        self._pool.ensure(self._due_soon)

    def _fire(self, chain: Chain, instant_ns: int) -> None:
        self._due_soon -= 1
        player = Player(slot=False)
        player.position, player.end = chain
        self._turn(player, instant_ns)

    # Slots and turns.

    def _next(self, player: Player, ready_ns: int) -> None:
        """A slot that is ready then plays its next chain."""
        if self._over(ready_ns):
            self._retire()
            return
        at_ns = self._pacer.turn(ready_ns)
        if at_ns <= self._now():
            self._claim(player, at_ns)
        elif self._over(at_ns):
            self._retire()
        else:
            self._alarm.at(at_ns, partial(self._claim, player))

    def _claim(self, player: Player, at_ns: int | None = None) -> None:
        """`at_ns` None: after a wait, before whose end no arrival was due; its rounding is no delay of the request."""
        at_ns = self._now() if at_ns is None else at_ns
        chain = None if self._over(at_ns) else self._work.claim()
        if chain is None:
            self._retire()
            return
        player.position, player.end = chain
        self._turn(player, at_ns)

    def _over(self, at_ns: int) -> bool:
        late = self._deadline_ns is not None and max(at_ns, self._now()) >= self._deadline_ns
        return late or self._stopping or self._work.exhausted

    def _turn(self, player: Player, scheduled_ns: int) -> None:
        self._work.fetch(player.position, player.answers, partial(self._begin, player, scheduled_ns))

    def _begin(self, player: Player, scheduled_ns: int, request: PreparedRequest, message: bytes) -> None:
        if self._stopping:
            self._retire()
            return
        exchange = StreamExchange(
            request, message, scheduled_ns, mask=self._mask, on_end=self._ended, on_crash=self.crashed
        )
        self._active[exchange] = player
        self._pool.dispatch(exchange)

    def _ended(self, exchange: StreamExchange) -> None:
        try:
            self._follow(self._active.pop(exchange), exchange)
        except Exception as error:  # a bug of ours must end the block, not vanish in the event loop
            self.crashed(error)

    def _follow(self, player: Player, exchange: StreamExchange) -> None:
        """After the end of an answer: the next turn, or the slot's next chain, and only then the record."""
        if not self._finished:
            self._loop.call_soon(self._drain)
        if player.position + 1 < player.end:
            record = exchange.record()  # now: whether there is a next turn depends on it
            self._finished.append((exchange, record))
            if self._continued(player, record):
                return
        else:
            self._finished.append((exchange, None))
        if exchange.no_connection:
            self.on_lost()
        if not player.slot:
            self._retire()
            return
        player.answers.clear()
        ready_ns = exchange.end_ns or self._now()
        if exchange.rate_limited:
            ready_ns += round(player.backoff.after_limit(exchange.retry_after_s) * 1e9)
        elif exchange.no_connection:
            ready_ns += _RECONNECT_PAUSE_NS
        else:
            player.backoff.reset()
        self._next(player, ready_ns)

    def _continued(self, player: Player, record: RequestRecord) -> bool:
        """Whether a next turn of the conversation follows; what a failure leaves unsent is recorded."""
        if record.error is not None:
            for position in range(player.position + 1, player.end):
                self._records.append(unsent(self._work.request(position), record))
                self._tell(self._records[-1])
            return False
        player.answers.append(record.text)
        player.position += 1
        at_ns = (record.end_ns or self._now()) + self._work.request(player.position).think_ns
        if self._stopping or (self._deadline_ns is not None and max(at_ns, self._now()) >= self._deadline_ns):
            return False
        # Fetched now and not when it is due: a body with answers in it has to be built first.
        self._work.fetch(player.position, player.answers, partial(self._hold, player, at_ns))
        return True

    def _hold(self, player: Player, at_ns: int, request: PreparedRequest, message: bytes) -> None:
        """Sends a turn when it is due."""
        if at_ns <= self._now():
            self._begin(player, at_ns, request, message)
        else:
            self._alarm.at(at_ns, partial(self._begin, player, at_ns, request, message))

    def _retire(self) -> None:
        self._working -= 1
        if not self._working and not self._quiet.done():
            self._quiet.set_result(None)

    # Records.

    def _drain(self) -> None:
        finished, self._finished = self._finished, []
        try:
            for exchange, made in finished:
                record = exchange.record() if made is None else made
                self._records.append(record)
                self._tell(record)
        except Exception as error:  # whoever listens failed: the block must not go on unseen
            self.crashed(error)

    def _tell(self, record: RequestRecord) -> None:
        if self.on_record is not None:
            self.on_record(record)

    def crashed(self, error: BaseException) -> None:
        """Ends the block with that exception."""
        if not self._trouble.done():
            self._trouble.set_exception(error)

    def _block(self, cpu_s: float) -> ClientBlock:
        return ClientBlock(
            records=sorted(self._records, key=lambda record: record.index),
            started_ns=self._started_ns,
            ended_ns=self._now(),
            loop_lag_ns=self._lag.values,
            backlog_ns=self._inbox.backlog.values,
            cpu_s=cpu_s,
        )
