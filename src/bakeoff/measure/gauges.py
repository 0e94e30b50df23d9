"""The server's gauges while a block runs: requests running and waiting, and how full its KV cache is.

They are read about once a second by a thread with an event loop and connections of its own, so that neither waiting
for the answer nor reading it happens in the loop that stamps tokens. Of the page only the few lines that matter are
looked at: taking a page of 100 kB apart as a whole would hold the interpreter for milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..client import HttpClient
from ..errors import BakeoffError
from ..model import Endpoint
from .counter_names import GAUGES, ServerKind

_FIRST_S = 0.25  # after the start of a block, so that a short one has a reading too
_TIMEOUT_S = 5.0
_MAX_SERIES = 256  # lines of one gauge (one an engine) that are looked at


class Gauges(NamedTuple):
    """One reading; None where the server does not tell. `kv_use`: share of the fullest engine's KV cache in use."""

    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None


def gauge_names(server: ServerKind) -> dict[str, tuple[str, ...]]:
    """Canonical name → the server's names for it; empty for a server that is not to be asked while it works."""
    return {canonical: names[server] for canonical, names in GAUGES.items() if server in names}


def scan_gauges(body: bytes, names: Mapping[str, tuple[str, ...]]) -> Gauges:
    """Reads the gauges from Prometheus text without taking the rest of it apart."""
    found: dict[str, float] = {}
    for canonical, several in names.items():
        for name in several:
            values = _series(body, name.encode()) or _series(body, name.replace(":", "_").encode())
            if values:
                found[canonical] = max(values) if canonical == "kv_use" else sum(values)
                break
    return Gauges(**found)


def _series(body: bytes, name: bytes) -> list[float]:
    values: list[float] = []
    at = body.find(name)
    while at >= 0 and len(values) < _MAX_SERIES:
        end = at + len(name)
        if (at == 0 or body[at - 1 : at] == b"\n") and body[end : end + 1] in (b" ", b"{", b"\t"):
            line_end = body.find(b"\n", end)
            line = body[end : line_end if line_end >= 0 else len(body)]
            with contextlib.suppress(ValueError, IndexError):
                value = float(line.rpartition(b"}")[2].split()[0])
                if math.isfinite(value):
                    values.append(value)
        at = body.find(name, end)
    return values


class GaugePoll:
    """Asks from `start` to `stop`, each reading to `on_reading` (called in the poll's own thread)."""

    def __init__(
        self,
        endpoint: Endpoint,
        path: str,
        names: Mapping[str, tuple[str, ...]],
        on_reading: Callable[[Gauges], None],
        period_s: float = 1.0,
    ) -> None:
        self._endpoint, self._path, self._names = endpoint, path, names
        self._on_reading = on_reading
        self._period_s = period_s
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="bakeoff-gauges", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the poll, a request under way included; nothing is reported after this."""
        self._stopped.set()
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself meanwhile
                loop.call_soon_threadsafe(task.cancel)
        self._thread.join(timeout=2 * _TIMEOUT_S)

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._poll())

    async def _poll(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        http = HttpClient(self._endpoint, timeout_s=_TIMEOUT_S)
        wait_s = _FIRST_S
        while not self._stopped.is_set():
            await asyncio.sleep(min(wait_s, self._period_s))
            with contextlib.suppress(BakeoffError):
                answer = await http.request("GET", self._path)
                if not self._stopped.is_set():
                    self._on_reading(scan_gauges(answer.body, self._names))
            wait_s = self._period_s
