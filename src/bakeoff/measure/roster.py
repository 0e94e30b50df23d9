"""Which variants are still in the run. One that keeps failing is dropped; the others go on."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import EngineError
from ..model import Experiment
from .plan import Step
from .progress import Progress

_CHANCES = 2  # failures in a row of a server that did answer before


class Died(EngineError):
    """Marks an error of a server that did answer and then failed (it gets one more chance)."""

    def __init__(self, error: EngineError) -> None:
        super().__init__(error.message, where=error.where, remedy=error.remedy, log_tail=error.log_tail)
        self.error = error


class Roster:
    """Counts failures in a row, and says when nothing is left to compare."""

    def __init__(self, experiment: Experiment, progress: Progress) -> None:
        self._experiment = experiment
        self._progress = progress
        self._failures: dict[str, int] = {}
        self._dropped: dict[str, EngineError] = {}

    def dropped(self, variant: str) -> bool:
        """Whether it is out."""
        return variant in self._dropped

    def standing(self, steps: Sequence[Step]) -> list[Step]:
        """The steps of variants that are still in."""
        return [step for step in steps if step.variant not in self._dropped]

    def worked(self, variant: str) -> None:
        """A step of it went well: earlier failures no longer count."""
        self._failures[variant] = 0

    def failed(self, variant: str, error: EngineError) -> str | None:
        """Takes in a failure. A text ends the run: there is nothing left to compare."""
        self._failures[variant] = self._failures.get(variant, 0) + 1
        self._progress.note(f"{variant}: {error.message}")
        # A server that never got ready will not do better at once; one that died gets a second chance.
        if isinstance(error, Died) and self._failures[variant] < _CHANCES:
            return None
        self._dropped[variant] = error.error if isinstance(error, Died) else error
        if (failure := self.failure()) is not None:
            several = len(self._experiment.candidates) > 1 and variant != self._experiment.base.name
            return failure.message if several else f"{variant} failed: {failure.message}"
        self._progress.note(f"{variant} is dropped; the others go on")
        return None

    def failure(self) -> EngineError | None:
        """The error that leaves nothing to compare: the base is gone, or every candidate is."""
        base = self._experiment.base.name
        if base in self._dropped:
            return self._dropped[base]
        gone = [self._dropped.get(candidate.name) for candidate in self._experiment.candidates]
        failed = [error for error in gone if error is not None]
        if len(failed) < len(gone):
            return None
        if len(failed) == 1:
            return failed[0]
        names = [candidate.name for candidate in self._experiment.candidates]
        reasons = "; ".join(f"{name}: {error.message}" for name, error in zip(names, failed, strict=True))
        return EngineError(f"every candidate failed: {reasons}", remedy=failed[0].remedy, log_tail=failed[0].log_tail)
