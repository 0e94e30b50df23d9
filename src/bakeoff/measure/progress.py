"""What the measuring tells while it goes on. The base class is silent; the terminal draws it."""

from __future__ import annotations

from .plan import Step


class Progress:
    """Events of a run, in order. Override what you want to show; calls must return at once."""

    def phase(self, text: str) -> None:
        """A short text of what happens now, for example ``starting flash``."""

    def block_started(self, step: Step, requests: int) -> None:
        """A block begins; it will send that many requests (0: unknown)."""

    def request_done(self) -> None:
        """One measured request of the block has ended."""

    def block_done(self, step: Step) -> None:
        """The block is saved."""

    def round_done(self, rounds: int, remaining_s: float | None, estimate: tuple[str, ...]) -> None:
        """A look at the data: rounds so far, predicted seconds to the end, the running estimate, a line a gate."""

    def note(self, text: str) -> None:
        """Something worth a line that stays: a server that died, an arm that was dropped."""
