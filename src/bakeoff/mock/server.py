"""The server's life: loading, listening, draining, dying."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns

import msgspec

from ..errors import EngineError
from .alarm import Alarm
from .connection import Connection
from .exposition import MetricsDialect
from .faults import Fault, FaultPlan
from .latency import LatencyModel, Pace
from .sendlog import SendLog
from .service import MockService

EXIT_DIED = 3  # exit code of the fault die_after


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is not latency. `api_key` is a secret: it is compared, and never logged or printed."""

    model_name: str = "mock"
    api_key: str | None = None
    send_log: Path | None = None
    faults: tuple[Fault, ...] = ()
    metrics_dialect: MetricsDialect = "vllm"  # whose names /metrics uses
    grace_s: float = 2.0  # how long a stop waits for answers in flight

    def __repr__(self) -> str:
        return f"ServeOptions(model_name={self.model_name!r}, faults={[str(f) for f in self.faults]})"


class MockServer:
    """A mock server on the running event loop: `await start()`, then `port`; `await stop()` drains and closes."""

    def __init__(self, model: LatencyModel, options: ServeOptions = ServeOptions()) -> None:  # noqa: B008  # frozen
        self.model = model
        self.options = options
        self.port = 0
        self.died = asyncio.Event()  # set by the fault die_after
        self._server: asyncio.Server | None = None
        self._alarm: Alarm | None = None
        self._service: MockService | None = None
        self._log: SendLog | None = None
        self._idle = asyncio.Event()
        self._away: asyncio.TimerHandle | None = None  # while nobody listens, by the fault `refused`
        self._returning: asyncio.Task[None] | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Waits out the start delay, listens, and returns the port. Raises EngineError if the port is taken."""
        loop = asyncio.get_running_loop()
        pace = Pace(self.model, monotonic_ns())
        await asyncio.sleep(self.model.start_delay_s * self.model.scale * pace.process_factor)
        pace.listening_ns = monotonic_ns()
        faults = FaultPlan(self.options.faults, self.model.noise_seed)
        self._alarm = Alarm(loop)
        service = MockService(
            pace,
            self._alarm,
            faults,
            model_name=self.options.model_name,
            api_key=self.options.api_key,
            dialect=self.options.metrics_dialect,
        )
        if self.options.send_log is not None:
            self._log = SendLog(self.options.send_log, loop.call_soon)
            service.log_to(self._log)
        service.on_death, service.on_idle = self.died.set, self._idle.set
        service.on_refusal = lambda: self._go_away(faults.refuses_s, host)
        self._service = service
        try:
            self._server = await loop.create_server(lambda: Connection(service), host, port, backlog=1024)
        except OSError as problem:
            self._close()
            raise EngineError(
                f"cannot listen on port {port}: {problem.strerror or problem}",
                where=f"mock on {host}",
                remedy="choose another port, or --port 0 for a free one",
            ) from None
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def _go_away(self, seconds: float, host: str) -> None:
        """Nobody listens for a time. Idle connections are closed, the others after their answers: so a client that has
        its answer meets a refused connection next."""
        if self._away is not None or self._server is None or self._service is None:
            return
        self._server.close()
        self._service.closing = True
        for connection in tuple(self._service.connections):
            connection.idle_close()

        def come_back() -> None:
            self._returning = asyncio.ensure_future(self._listen_again(host))

        self._away = asyncio.get_running_loop().call_later(seconds, come_back)

    async def _listen_again(self, host: str) -> None:
        service = self._service
        if service is not None and self._server is not None:
            service.closing = False
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: Connection(service), host, self.port, backlog=1024)
            self._away = None

    def metrics(self) -> str:
        """The text that GET /metrics answers."""
        return self._service.metrics() if self._service is not None else ""

    async def stop(self, *, grace_s: float | None = None) -> None:
        """Takes no more connections, lets answers in flight end within the grace time, closes. Idempotent."""
        if self._server is None or self._service is None:
            return
        if self._away is not None:
            self._away.cancel()
        if self._returning is not None:
            with suppress(OSError, asyncio.CancelledError):
                await self._returning
        self._server.close()
        for connection in tuple(self._service.connections):
            connection.idle_close()
        if not self._service.idle:
            self._idle.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.options.grace_s if grace_s is None else grace_s):
                    await self._idle.wait()
        self._service.abandon()
        for connection in tuple(self._service.connections):
            connection.cut(reset=connection.exchange is not None)
        await asyncio.sleep(0)  # lets the transports close
        self._server = None
        self._close()

    def _close(self) -> None:
        if self._alarm is not None:
            self._alarm.close()
            self._alarm = None
        if self._log is not None:
            self._log.close()
            self._log = None


async def serve(
    model: LatencyModel,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    options: ServeOptions = ServeOptions(),  # noqa: B008  # frozen
    on_listening: Callable[[int], None] = lambda _port: None,
    stop: asyncio.Event | None = None,
) -> int:
    """Serves until `stop` is set (SIGTERM and SIGINT set it, where this is the main thread) or the mock dies.

    `on_listening` is told the port. Returns the exit code: 0, or 3 after the fault `die_after`.
    """
    stop = stop or asyncio.Event()
    _stop_on_signals(stop)
    server = MockServer(model, options)
    starting = asyncio.ensure_future(server.start(host, port))
    stopping = asyncio.ensure_future(stop.wait())
    dying = asyncio.ensure_future(server.died.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # stopped while loading
            return 0
        on_listening(starting.result())
        await asyncio.wait((stopping, dying), return_when=asyncio.FIRST_COMPLETED)
        return EXIT_DIED if dying.done() else 0
    finally:
        for task in (starting, stopping, dying):
            task.cancel()
        await server.stop(grace_s=0 if server.died.is_set() else None)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Outside of the main thread there are no signals to handle; the caller sets `stop` then.
        with suppress(RuntimeError, ValueError, NotImplementedError):
            loop.add_signal_handler(number, stop.set)
