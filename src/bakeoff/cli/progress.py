"""The live display on stderr: what happens now, how far, and the running estimate.

Drawing costs a few milliseconds of interpreter time, in the very process that stamps arrivals. So there is no
refresh thread: the display is drawn at events, and within a block at most once a second.
"""

from __future__ import annotations

import math
import sys
import time

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..measure.plan import Step
from ..measure.progress import Progress
from ..units import seconds

_SHOWN = 12  # gates in the live display


class TerminalProgress(Progress):
    """Live on a terminal; plain lines, one a round, otherwise."""

    def __init__(self, *, max_rounds: int, quiet: bool = False) -> None:
        self._console = Console(file=sys.stderr, highlight=False)
        self._quiet = quiet
        self._live: Live | None = None
        self._max_rounds = max_rounds
        self._round = 0
        self._phase = ""
        self._total = 0
        self._count = 0
        self._estimate: tuple[str, ...] = ()
        self._remaining: float | None = None
        self._looked_at = time.monotonic()
        self._drawn_at = 0.0

    def __enter__(self) -> TerminalProgress:
        if self._console.is_terminal and not self._quiet:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def phase(self, text: str) -> None:
        self._phase, self._total, self._count = text, 0, 0
        self._draw()

    def block_started(self, step: Step, requests: int) -> None:
        self._round = step.round + 1
        self._phase = f"measuring {step.variant} · {step.cell.key}" + (" · A/A" if step.kind == "aa" else "")
        self._total, self._count = requests, 0
        self._draw()

    def request_done(self) -> None:
        self._count += 1
        if time.monotonic() - self._drawn_at >= 1.0:
            self._draw()

    def round_done(self, rounds: int, remaining_s: float | None, estimate: tuple[str, ...]) -> None:
        self._round, self._estimate, self._remaining = rounds, estimate, remaining_s
        self._looked_at = time.monotonic()
        if self._live is None and not self._quiet:
            left = () if not remaining_s else (f"about {_whole(remaining_s)} left",)
            self._console.print(" · ".join((f"round {rounds}", *left, *estimate)), markup=False, soft_wrap=True)
        self._draw()

    def note(self, text: str) -> None:
        if not self._quiet:
            self._console.print(f"! {text}", markup=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self._console.print(text, markup=False, soft_wrap=True)

    def _draw(self) -> None:
        if self._live is None:
            return
        self._drawn_at = time.monotonic()
        count = f"  {self._count}/{self._total}" if self._total else ""
        text = Text(f"round {max(self._round, 1)} (at most {self._max_rounds})  {self._phase}{count}")
        if self._remaining is not None:
            left = max(0.0, self._remaining - (time.monotonic() - self._looked_at))
            text.append(f"\nabout {_whole(left)} left", style="dim")
        for i, line in enumerate(self._estimate[:_SHOWN]):
            text.append(f"\n{'so far' if i == 0 else '      '}  {line}", style="dim")
        if len(self._estimate) > _SHOWN:
            text.append(f"\n        and {len(self._estimate) - _SHOWN} more gates", style="dim")
        text.no_wrap = True
        text.overflow = "ellipsis"
        self._live.update(text, refresh=True)


def _whole(left_s: float) -> str:
    """A time to come: what is foretold is not known to fractions of a second."""
    return seconds(left_s) if left_s >= 120 else f"{math.ceil(left_s)} s"
