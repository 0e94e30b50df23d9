"""Where a key stands, and one list of everything that is wrong, in the order of the file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from ..errors import ConfigError
from ..model import Problem

Key = tuple[str, ...]
_MAX_SHOWN_TEXT = 60
_MAX_PROBLEMS = 200


@dataclass(frozen=True)
class Spot:
    """A place to point at. label: as the printed line starts; brief: as Problem.message starts (may be empty)."""

    order: tuple[int, ...]
    label: str
    brief: str = ""
    names_key: bool = False  # the label says already which key it is


class Places(Protocol):
    """Finds the place of a key (or of the nearest section around it)."""

    def spot(self, key: Key, *, on_key: bool) -> Spot:
        """on_key: the place of the key itself, not that of its value."""

    def remedy(self, text: str) -> str:
        """A remedy, which is worded for a file, as it is worded where this experiment comes from."""


class Ledger:
    """Collects problems; :meth:`raise_any` raises one ConfigError with all of them."""

    def __init__(self, source: str, places: Places) -> None:
        self.source = source
        self._places = places
        self._found: dict[tuple[Key, str], tuple[Spot, str]] = {}
        self._unread: set[Key] = set()

    def add(self, key: Key, message: str, remedy: str = "", *, on_key: bool = False) -> None:
        """Notes a problem of `key`. The same message for the same key counts once."""
        if key in self._unread:
            return  # nothing more can be said of a value that could not be read
        self._found.setdefault((key, message), (self._places.spot(key, on_key=on_key), self._places.remedy(remedy)))

    def add_unread(self, key: Key, message: str, remedy: str = "") -> None:
        """Notes that the value of `key` could not be read; whatever else is noted of it would only be an echo."""
        self.add(key, message, remedy)
        self._unread.add(key)

    def has(self, key: Key) -> bool:
        """Whether this key has a problem already."""
        return any(known == key for known, _ in self._found)

    def __len__(self) -> int:
        return len(self._found)

    def raise_any(self) -> None:
        """Raises ConfigError if there is any problem."""
        if self._found:
            self._raise()

    def _raise(self) -> NoReturn:
        entries = _once(sorted(self._found.items(), key=lambda entry: entry[1][0].order))
        problems, lines = [], []
        for (key, message), (spot, remedy) in entries[:_MAX_PROBLEMS]:
            brief = f"{spot.brief}: {message}" if spot.brief else message
            problems.append(Problem(key=key, message=brief, remedy=remedy))
            path = "" if spot.names_key else f"{dotted(key)}: " if key else ""
            lines.append(f"{spot.label}: {path}{message}")
            if remedy:
                lines.append(f"    → {remedy}")
        if len(entries) > _MAX_PROBLEMS:
            lines.append(f"… and {len(entries) - _MAX_PROBLEMS} more")
        count = "1 problem" if len(entries) == 1 else f"{len(entries)} problems"
        raise ConfigError("\n".join([f"{count} in {self.source}:", *lines]), problems=problems)


_Entry = tuple[tuple[Key, str], tuple[Spot, str]]


def _once(entries: list[_Entry]) -> list[_Entry]:
    """Without those that a label which names its key tells already: one option may set a key of several variants."""
    seen: set[tuple[str, str]] = set()
    kept = []
    for (key, message), (spot, remedy) in entries:
        if spot.names_key and (spot.label, message) in seen:
            continue
        seen.add((spot.label, message))
        kept.append(((key, message), (spot, remedy)))
    return kept


def dotted(key: Key) -> str:
    """``workloads.chat.load`` (parts that could confuse a terminal are quoted)."""
    return ".".join(part if part.isprintable() and len(part) <= _MAX_SHOWN_TEXT else shown(part) for part in key)


def shown(value: Any) -> str:
    """A value as a message may show it: as written (references unresolved), short, harmless to a terminal."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    text = repr(value)  # escapes control characters
    return text if len(text) <= _MAX_SHOWN_TEXT else text[: _MAX_SHOWN_TEXT - 1] + "…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    near = difflib.get_close_matches(word.lower()[:_MAX_SHOWN_TEXT], list(known), n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'concurrency'?`` for the nearest known word, or the empty text."""
    near = nearest(word, known)
    return f"; did you mean {near!r}?" if near else ""
