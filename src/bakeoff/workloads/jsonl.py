"""Prompts from a JSON Lines file: checked whole before anything is measured, then read line by line when needed.

Each line is an object with one of ``prompt`` (text), ``text`` (text) or ``messages`` (OpenAI chat messages), and
optionally ``output_tokens``; or a line of OpenAI's batch format, of which ``body`` is taken (its ``messages`` or
``prompt``, and its ``max_tokens``). Other keys are left alone: data sets carry them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model import Api
from .entries import Entry, Turn
from .lines import (
    MAX_LINE_BYTES,
    BadPlaces,
    changed,
    numbered_lines,
    object_of,
    open_checked,
    unreadable,
)
from .messages import messages_problem, one_turn, split_turns
from .problems import WorkloadError

_KINDS = ("prompt", "text", "messages")
_FORM = 'write one object a line: {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}]}'
_LIMITS = ("max_completion_tokens", "max_tokens")  # of a batch line's body


class JsonlPrompts:
    """The prompts of one file, by number. Holds the lines' places, not their text.

    conversations: messages are played turn by turn, and not sent as one prompt.
    Raises WorkloadError, naming every bad line (the first 20 of them).
    """

    def __init__(self, path: Path, api: Api, *, conversations: bool = False) -> None:
        self.path = path
        self.notes: tuple[str, ...] = ()
        self._api = api
        self._conversations = conversations
        self._offsets = array("Q")
        self._turns = 0
        self._scan()

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def mean_turns(self) -> float:
        """Turns of an entry, on average."""
        return self._turns / len(self)

    def entry(self, number: int) -> Entry:
        """The prompt of that number, counted from 0 over the lines that are not blank."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offsets[number])
                entry = self._read(file.readline(MAX_LINE_BYTES))
        except OSError as error:
            raise changed(self.path) from error
        if isinstance(entry, str):
            raise changed(self.path)
        return entry

    def _scan(self) -> None:
        bad = BadPlaces(self.path, "1 line is not a prompt", "{} lines are not prompts")
        try:
            with open_checked(self.path, "a JSON Lines file of prompts") as file:
                for number, offset, line in numbered_lines(file):
                    entry = "longer than 1 MiB" if line is None else self._read(line)
                    if isinstance(entry, str):
                        bad.add(number, entry)
                    else:
                        self._offsets.append(offset)
                        self._turns += len(entry.turns)
        except OSError as error:
            raise unreadable(self.path, error) from error
        bad.raise_any(_FORM)
        if not self._offsets:
            raise WorkloadError("holds no prompt", where=str(self.path), remedy=_FORM)

    def _read(self, line: bytes) -> Entry | str:
        """The entry, or what is wrong with the line (in words that do not repeat its content)."""
        data = object_of(line)
        if isinstance(data, str):
            return data
        limit_name = "output_tokens"
        if isinstance(data.get("body"), dict) and not any(data.get(kind) is not None for kind in _KINDS):
            data = data["body"]
            limit_name = next((name for name in _LIMITS if data.get(name) is not None), _LIMITS[0])
        limit = data.get(limit_name)
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            return f'"{limit_name}" must be a whole number from 1 on'
        return self._of(data, limit)

    def _of(self, data: Mapping[str, Any], limit: int | None) -> Entry | str:
        kinds = [kind for kind in _KINDS if data.get(kind) is not None]
        if len(kinds) != 1:
            return f"has {' and '.join(kinds) or 'none of prompt, text, messages'}; exactly one is needed"
        value = data[kinds[0]]
        if kinds[0] != "messages":
            if not isinstance(value, str) or not value.strip():
                return f'"{kinds[0]}" must be text that is not empty'
            return Entry(turns=(Turn(text=value, output_tokens=limit),))
        problem = messages_problem(value, self._api)
        if problem:
            return problem
        if not self._conversations:
            return Entry(turns=(one_turn(value, limit),))
        turns = split_turns(value, limit)
        if not turns or not turns[0].text.strip():
            return '"messages" hold no turn of a user'
        return Entry(turns=turns)
