"""The event loop to measure with."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from .interrupt import asked, cancelled_by, held

T = TypeVar("T")


class LoopRunner(Protocol):
    """What is used of ``asyncio.Runner``: a context manager that runs coroutines on one loop."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
    def run(self, coro: Coroutine[Any, Any, T]) -> T: ...


def loop_runner() -> LoopRunner:
    """A runner on uvloop where it can be imported, else on the standard loop.

    uvloop halves the client's CPU time per event, which matters where client and server share cores. Where the
    calling thread runs an event loop already (a notebook cell), the runner works in a thread of its own.
    """
    runner = _runner()
    return _ThreadRunner(runner) if asyncio._get_running_loop() is not None else runner


def _runner() -> _Runner:
    try:
        import uvloop
    except ImportError:
        return _Runner(asyncio.Runner())
    return _Runner(asyncio.Runner(loop_factory=uvloop.new_event_loop))


class _Runner:
    """asyncio.Runner whose tasks have no result: when it puts signal handlers back, Python makes a text of the whole
    task twice, and of a block with a million stamps in it that takes half a second."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner

    def __enter__(self) -> Self:
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        with held():
            self._runner.close()

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Raises KeyboardInterrupt where an end was asked for meanwhile; the coroutine was then cancelled."""
        got: list[T] = []
        work = _Cancellable()

        async def main() -> None:
            work.begin()
            got.append(await coro)

        try:
            with cancelled_by(work.cancel):
                if not asked():
                    self._runner.run(main())
        except asyncio.CancelledError:
            if not work.wished:
                raise
        finally:
            # One that was begun is not closed here, outside of its loop: what is left of it ends with the loop.
            if inspect.getcoroutinestate(coro) == inspect.CORO_CREATED:
                coro.close()
        if work.wished or not got:
            raise KeyboardInterrupt
        return got[0]


class _Cancellable:
    """The task of one `run`, which may be cancelled before it exists, and from another thread."""

    def __init__(self) -> None:
        self.wished = False
        self._task: asyncio.Task[Any] | None = None

    def begin(self) -> None:
        """Called in the task. Raises CancelledError where it is not wanted any more."""
        self._task = asyncio.current_task()
        if self.wished:
            raise asyncio.CancelledError

    def cancel(self) -> None:
        self.wished = True
        if self._task is not None and not self._task.done():
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)


class _ThreadRunner:
    """Drives a runner in one other thread. Ctrl-C, which reaches the calling thread, cancels the coroutine there."""

    def __init__(self, runner: _Runner) -> None:
        self._runner = runner
        self._pool = ThreadPoolExecutor(1, "bakeoff-loop")

    def __enter__(self) -> Self:
        self._pool.submit(self._runner.__enter__).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.submit(self._runner.__exit__).result()
        self._pool.shutdown()

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        task: list[asyncio.Task[Any]] = []

        async def main() -> T:
            current = asyncio.current_task()
            assert current is not None  # noqa: S101 - a coroutine that a loop runs is in a task
            task.append(current)
            return await coro

        future = self._pool.submit(self._runner.run, main())
        try:
            return future.result()
        except KeyboardInterrupt:
            while not future.done():
                if task:
                    task[0].get_loop().call_soon_threadsafe(task[0].cancel)
                wait([future], timeout=0.5)
            raise
