"""Recorded conversations in ShareGPT's form: a JSON array of {"id", "conversations": [{"from", "value"}]}.

Checked whole before anything is measured, one conversation at a time, then read from its place when needed.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import msgspec

from .array_scan import elements
from .entries import Entry, Turn
from .lines import BadPlaces, changed, open_checked, unreadable
from .messages import split_turns
from .problems import WorkloadError

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "system": "system",
}
_FORM = 'write a JSON array of {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}]}'


class ShareGptPrompts:
    """The conversations of one file, by number. Holds their places, not their text.

    turns: most turns of a conversation that are used. Only turns with a recorded answer are. Conversations without
    one (they occur in the public files) are passed over, and `notes` says how many.
    Raises WorkloadError, naming the line of every conversation of another form (the first 20 of them).
    """

    def __init__(self, path: Path, *, turns: int = 1) -> None:
        self.path = path
        self._most = turns
        self._places = array("Q")
        self._sizes = array("Q")
        self._turns = 0
        self._unusable = 0
        self._scan()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was passed over."""
        if not self._unusable:
            return ()
        total = self._unusable + len(self)
        return (f"{self._unusable} of the file's {total} conversations hold no answered question: passed over",)

    @property
    def mean_turns(self) -> float:
        """Turns of a conversation that are used, on average."""
        return self._turns / len(self)

    def entry(self, number: int) -> Entry:
        """The conversation of that number, counted from 0 over those that can be used."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._places[number])
                turns = _read(file.read(self._sizes[number]))
        except OSError as error:
            raise changed(self.path) from error
        if isinstance(turns, str) or not turns:
            raise changed(self.path)
        return Entry(turns=turns[: self._most])

    def _scan(self) -> None:
        bad = BadPlaces(self.path, "1 conversation cannot be read", "{} conversations cannot be read")
        try:
            with open_checked(self.path, "a ShareGPT file") as file:
                for element in elements(file):
                    turns = element.problem if element.data is None else _read(element.data)
                    if isinstance(turns, str):
                        bad.add(element.line, turns)
                    elif turns and element.data is not None:
                        self._places.append(element.offset)
                        self._sizes.append(len(element.data))
                        self._turns += min(self._most, len(turns))
                    else:
                        self._unusable += 1
        except OSError as error:
            raise unreadable(self.path, error) from error
        bad.raise_any(_FORM)
        if not self._places:
            raise WorkloadError("holds no answered question", where=str(self.path), remedy=_FORM)


def _read(data: bytes) -> tuple[Turn, ...] | str:
    """The answered turns, or what is wrong (in words that do not repeat the content)."""
    try:
        entry = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "not valid JSON"
    conversation = entry.get("conversations") if isinstance(entry, dict) else None
    if not isinstance(conversation, list):
        return 'has no list "conversations"'
    messages: list[dict[str, Any]] = []
    for place, part in enumerate(conversation):
        role = part.get("from") if isinstance(part, dict) else None
        if not isinstance(role, str) or role.lower() not in _ROLES:
            return f'"conversations"[{place}] must be an object with "from": human, gpt or system'
        if not isinstance(part.get("value"), str):
            return f'"conversations"[{place}]: its "value" must be text'
        role = _ROLES[role.lower()]
        # A part that begins with an answer is the rest of a longer conversation: the question is not there.
        if role != "assistant" or any(message["role"] == "user" for message in messages):
            messages.append({"role": role, "content": part["value"]})
    turns: list[Turn] = []
    for turn in split_turns(messages):
        if not turn.answer or not turn.answer.strip() or not turn.text.strip():
            break  # what follows would lack its history
        turns.append(turn)
    return tuple(turns)
