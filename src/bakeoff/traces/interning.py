"""Texts that repeat, as numbers: each different text is kept once."""

from __future__ import annotations

from .limits import Limits, TraceError


class Names(dict[str, int]):
    """text → its number. A text beyond the bounds is cut; too many different ones are refused."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits
        self.texts: list[str] = []

    def __missing__(self, text: str) -> int:
        if len(self.texts) >= self._limits.names:
            raise TraceError(
                f"there are more than {self._limits.names:,} different names in it",
                remedy="profile a shorter window, without Python stacks",
            )
        if len(text) > self._limits.name_chars:
            return self[text[: self._limits.name_chars]]
        number = self[text] = len(self.texts)
        self.texts.append(text)
        return number
