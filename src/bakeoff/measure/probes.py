"""Probe blocks: measured and saved like any other, and read for what the search wants to know."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from ..errors import EngineError
from ..model import Workload
from .block import MeasuredBlock, OutOfTime
from .budget import Ledger
from .plan import Step
from .progress import Progress
from .residents import Residents
from .search import Reading, read_probe
from .warming import Warmer


class _Run(Protocol):
    def __call__(self, main: Coroutine[Any, Any, Any], /) -> Any: ...


class Probes:
    """The pilot's `Prober` on real servers. run: runs a coroutine in the measuring loop; measure: one block, saved."""

    def __init__(
        self,
        residents: Residents,
        warmer: Warmer,
        ledger: Ledger,
        progress: Progress,
        *,
        run: _Run,
        measure: Callable[[Step, Workload], MeasuredBlock],
    ) -> None:
        self._residents = residents
        self._warmer = warmer
        self._ledger = ledger
        self._progress = progress
        self._run = run
        self._measure = measure
        self._answered: set[str] = set()

    def typical_s(self, step: Step, workload: Workload) -> float:
        """Raises EngineError where nothing answers."""
        resident, start_s = self._residents.get(step)
        if start_s:
            self._ledger.saw_start(step.variant, start_s)
        self._progress.phase(f"warming up {step.variant} · {workload.name}")
        sent = self._run(self._warmer.prepare(resident, step, workload, self._ledger.deadline_ns))
        self._ledger.saw_requests(step.variant, sent, workload.output_tokens)
        return resident.warm[step.cell.key][2]

    def probe(self, step: Step, workload: Workload) -> Reading | None:
        """A server that answered at a lower level and not at this one has collapsed; one that never did is broken."""
        try:
            measured = self._measure(step, workload)
        except OutOfTime:
            return None
        except EngineError as error:
            if step.variant not in self._answered:
                raise
            self._progress.note(f"{step.variant} at {step.cell.key}: {error.message}")
            return Reading(0.0, 0.0, 1.0)
        self._answered.add(step.variant)
        return read_probe(measured.records, measured.block.window_ns, workload.slo)

    def note(self, text: str) -> None:
        self._progress.note(text)
