"""How many processes send a cell's requests: decided once from what its warm-up cost, and then kept for every arm."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..client import ClientBlock
from ..errors import UsageError
from .health import quantile
from .plan import Step

if TYPE_CHECKING:
    from ..client import Shards

VARIABLE = "BAKEOFF_CLIENT_PROCESSES"
# Of one core: an event loop that is busy half of the time keeps about every second read waiting for another one.
_BUSY = 0.5
# A loop that is late by more than this stamps late by it; with so little work as this, others made it late.
_LATE_S = 0.010
_IDLE = 0.2
# Beside a server on the same machine the client takes a quarter of the cores at most, half where it cannot keep up.
_SHARE_BESIDE, _SHARE_LATE = 4, 2


def processes_wanted(environ: dict[str, str] | None = None) -> int | None:
    """The number that the environment asks for; None: to be decided. Raises UsageError for nonsense."""
    value = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    if value in ("", "auto"):
        return None
    if value.isascii() and value.isdigit() and 1 <= int(value) <= 1024:
        return int(value)
    raise UsageError(f"{value[:40]!r} is no number of processes", where=VARIABLE, remedy="write a number, or auto")


class Sending:
    """Decides per cell, and owns the worker processes; `close` ends them."""

    def __init__(self, cores: int, wanted: int | None = None) -> None:
        self._cores = cores
        self._wanted = processes_wanted() if wanted is None else wanted
        self._seen: dict[str, list[ClientBlock]] = {}
        self._decided: dict[str, int] = {}
        self.shards: Shards | None = None
        self.processes = 1  # of the block at hand

    def keep(self, processes: Mapping[str, int]) -> None:
        """The numbers that the blocks of an interrupted run were measured with, by cell: they hold for the rest."""
        self._decided.update(processes)

    def note(self, step: Step, client: ClientBlock) -> None:
        """A warm-up of the cell, as it went in this process."""
        if step.cell.key not in self._decided:
            self._seen.setdefault(step.cell.key, []).append(client)

    async def prepare(self, step: Step, *, local: bool) -> int:
        """The number of processes for a block of this cell; they are up when it returns.

        local: whether the server is on this machine. The first arm that measures a cell decides for all of them: two
        arms measured by two different instruments could not be compared.
        """
        key = step.cell.key
        if key not in self._decided:
            self._decided[key] = self._wanted or self.needed(step, self._seen.pop(key, []), local=local)
        self.processes = self._decided[key]
        if self.processes > 1:
            from ..client import Shards

            self.shards = self.shards or Shards()
            await self.shards.ready(self.processes)
        return self.processes

    def needed(self, step: Step, seen: list[ClientBlock], *, local: bool) -> int:
        """How many it takes to keep each below half a core, within what the machine can spare."""
        share = self._share(step, seen)
        late_s = quantile([lag / 1e9 for block in seen for lag in block.loop_lag_ns], 0.99) or 0.0
        late = late_s > _LATE_S and share > _IDLE
        need = max(math.ceil(share / _BUSY), 2 if late else 1)
        beside = self._cores // (_SHARE_LATE if late else _SHARE_BESIDE)
        most = beside if local else self._cores - 1
        if step.cell.kind == "closed":
            most = min(most, round(step.cell.level))
        return max(1, min(need, most))

    def _share(self, step: Step, seen: list[ClientBlock]) -> float:
        """CPU seconds a second that the client needs at the cell's load, from what it needed so far."""
        requests = sum(len(block.records) for block in seen)
        busy_s = sum(block.cpu_s for block in seen)
        time_s = sum(block.ended_ns - block.started_ns for block in seen) / 1e9
        if not requests or time_s <= 0:
            return 0.0
        # A warm-up has the concurrency of its cell; an open loop's rate it has not.
        return busy_s / requests * step.cell.level if step.cell.kind == "open" else busy_s / time_s

    def close(self) -> None:
        """Ends the workers. Idempotent."""
        if self.shards is not None:
            self.shards.close()
            self.shards = None
