"""What the server says of one block: its counters before and after, its gauges meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean

from ..client import HttpClient
from ..model import Endpoint, Sample
from .counters import Counts, difference, fetch_counts
from .gauges import GaugePoll, gauge_names
from .telemetry import Telemetry


class BlockCounters:
    """Follows one block: `begin`, `watching` around the load, `end`."""

    def __init__(self, endpoint: Endpoint, telemetry: Telemetry) -> None:
        self._endpoint = endpoint
        self._telemetry = telemetry
        self._path = endpoint.capabilities.metrics_path
        self._http = HttpClient(endpoint)  # outside a `with`: a connection per call, none is open during the block
        self._before: Counts | None = None

    async def begin(self) -> None:
        """Reads the counters; never an error."""
        self._before = await fetch_counts(self._http, self._path)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Meanwhile the gauges go to the telemetry, of a server that has some."""
        names = gauge_names(self._before.server) if self._before else {}
        if not names or self._path is None:
            yield
            return
        poll = GaugePoll(self._endpoint, self._path, names, self._telemetry.note_gauges)
        poll.start()
        try:
            yield
        finally:
            poll.stop()

    async def end(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Differences of the counters; of the gauges the means `running` and `waiting` and the peak `kv_use`."""
        found = difference(self._before, await fetch_counts(self._http, self._path))
        if "restarts" in found:
            return found
        running = [s.server_running for s in samples if s.server_running is not None]
        waiting = [s.server_waiting for s in samples if s.server_waiting is not None]
        kv_use = [s.server_kv_use for s in samples if s.server_kv_use is not None]
        if running:
            found["running"] = fmean(running)
        if waiting:
            found["waiting"] = fmean(waiting)
        if kv_use:
            found["kv_use"] = max(kv_use)
        return found


def whole(value: float | None) -> int | None:
    """A counter as the whole number that it is; None where it was not told."""
    return None if value is None else round(value)
