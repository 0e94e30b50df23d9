"""Progress over several steps of known weight, as one share that never falls."""

from __future__ import annotations

from collections.abc import Callable

_WORDS = {"check": "checking", "make": "preparing"}


class Steps:
    """Adds steps up. A step found later (a cached file turned out bad) makes the rest longer, never the bar shorter."""

    def __init__(self, progress: Callable[[str, float], None]) -> None:
        self._progress = progress
        self._weights: dict[tuple[str, str], float] = {}
        self._done: dict[tuple[str, str], float] = {}
        self._shown = 0.0

    def expect(self, kind: str, name: str, weight: float) -> None:
        """Announces a step; weights are in any one unit, here bytes that are read."""
        self._weights[kind, name] = weight

    def skip(self, kind: str, name: str) -> None:
        """A step that is not needed after all."""
        self._weights.pop((kind, name), None)

    def reporter(self, kind: str, name: str, end: float = 1.0, *, start: float = 0.0) -> Callable[[float], None]:
        """A function that takes the share (0..1) of the part from `start` to `end` of a step."""

        def report(share: float) -> None:
            self._done[kind, name] = start + (end - start) * share
            self._show(f"{_WORDS[kind]} {name}")

        return report

    def finish(self) -> None:
        """Everything is done."""
        self._shown = 1.0
        self._progress("ready", 1.0)

    def _show(self, text: str) -> None:
        total = sum(self._weights.values()) or 1.0
        done = sum(weight * self._done.get(step, 0.0) for step, weight in self._weights.items())
        self._shown = max(self._shown, min(1.0, done / total))
        self._progress(text, self._shown)
