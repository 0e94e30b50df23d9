"""Prompts from a JSON Lines file: checked whole before anything is measured, then read line by line when needed.

Each line is an object with one of ``prompt`` (text), ``text`` (text) or ``messages`` (OpenAI chat messages), and
optionally ``output_tokens``. Other keys are left alone: data sets carry them.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ..model import Api
from .problems import WorkloadError
from .seeds import derive_seed

MAX_FILE_BYTES = 1 << 30
MAX_LINE_BYTES = 1 << 20
MAX_SHOWN = 20
_KINDS = ("prompt", "text", "messages")
_FORM = 'write one object a line: {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}]}'


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One usable line. `messages` is set only where they are to be sent as messages."""

    text: str
    messages: list[dict[str, Any]] | None = None
    output_tokens: int | None = None


class JsonlPrompts:
    """The prompts of one file, by number. Holds the lines' places, not their text.

    Raises WorkloadError, naming every bad line (the first 20 of them).
    """

    def __init__(self, path: Path, api: Api) -> None:
        self.path = path
        self._api = api
        self._offsets = array("Q")
        self._scan()

    def __len__(self) -> int:
        return len(self._offsets)

    def entry(self, number: int) -> Entry:
        """The prompt of that number, counted from 0 over the lines that are not blank."""
        changed = WorkloadError(
            "the file changed while it was in use", where=str(self.path), remedy="leave it alone during a run"
        )
        try:
            with self.path.open("rb") as file:
                file.seek(self._offsets[number])
                entry = _read_entry(file.readline(MAX_LINE_BYTES), self._api)
        except OSError as error:
            raise changed from error
        if isinstance(entry, str):
            raise changed
        return entry

    def _scan(self) -> None:
        bad: list[str] = []
        bad_count = 0
        try:
            size = self.path.stat().st_size
            if not self.path.is_file():
                raise WorkloadError("is not a file", where=str(self.path), remedy="name a JSON Lines file of prompts")
            if size > MAX_FILE_BYTES:
                raise WorkloadError(
                    f"{size:,} bytes are more than the limit of 1 GiB",
                    where=str(self.path),
                    remedy="take a part of the file: a run uses a few thousand prompts",
                )
            with self.path.open("rb") as file:
                for number, offset, line in _lines(file):
                    entry = "longer than 1 MiB" if line is None else _read_entry(line, self._api)
                    if not isinstance(entry, str):
                        self._offsets.append(offset)
                        continue
                    bad_count += 1
                    if bad_count <= MAX_SHOWN:
                        bad.append(f"  {self.path}:{number}: {entry}")
        except OSError as error:
            raise WorkloadError(
                f"cannot be read: {error.strerror or type(error).__name__}",
                where=str(self.path),
                remedy="check the path and its permissions",
            ) from error
        if bad_count:
            hidden = [f"  … and {bad_count - MAX_SHOWN} more"] if bad_count > MAX_SHOWN else []
            count = "1 line is not a prompt" if bad_count == 1 else f"{bad_count} lines are not prompts"
            raise WorkloadError("\n".join([f"{count}:", *bad, *hidden]), where=str(self.path), remedy=_FORM)
        if not self._offsets:
            raise WorkloadError("holds no prompt", where=str(self.path), remedy=_FORM)


class Sampler:
    """Draws entries without replacement, in an order that depends on the seed alone.

    Round r takes entries from place r × stride on; when all are used, they are shuffled anew.
    """

    def __init__(self, size: int, *, stride: int, seed: int) -> None:
        self._size = size
        self._stride = stride
        self._seed = seed
        self._orders: dict[int, list[int]] = {}

    def numbers(self, round_: int, count: int) -> list[int]:
        """Entry numbers of a round's requests."""
        first = round_ * self._stride
        return [self._number(place) for place in range(first, first + count)]

    def repeats(self, round_: int, count: int) -> bool:
        """Whether this round needs a prompt that an earlier request has had."""
        return round_ * self._stride + count > self._size

    def _number(self, place: int) -> int:
        epoch, rest = divmod(place, self._size)
        if epoch not in self._orders:
            while len(self._orders) > 1:  # two epochs can meet in a block; older ones are done with
                del self._orders[min(self._orders)]
            self._orders[epoch] = _shuffled(self._size, derive_seed(self._seed, "order", epoch))
        return self._orders[epoch][rest]


def _shuffled(size: int, seed: int) -> list[int]:
    # Fisher–Yates over random(): the one draw whose stream Python promises to keep.
    draw = random.Random(seed).random
    order = list(range(size))
    for last in range(size - 1, 0, -1):
        other = int(draw() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes | None]]:
    """(line number from 1, offset, line) of every line that is not blank; None for one that is too long."""
    number = offset = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        length = len(line)
        too_long = length > MAX_LINE_BYTES
        while too_long and not line.endswith(b"\n") and (line := file.readline(MAX_LINE_BYTES)):
            length += len(line)
        if too_long:
            yield number, offset, None
        elif line.strip(b" \t\r\n\xef\xbb\xbf"):
            yield number, offset, line
        offset += length


def _read_entry(line: bytes, api: Api) -> Entry | str:
    """The entry, or what is wrong with the line (in words that do not repeat its content)."""
    try:
        data = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "not valid JSON"
    if not isinstance(data, dict):
        return "not an object"
    kinds = [kind for kind in _KINDS if data.get(kind) is not None]
    if len(kinds) != 1:
        return f"has {' and '.join(kinds) or 'none of prompt, text, messages'}; exactly one is needed"
    limit = data.get("output_tokens")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        return '"output_tokens" must be a whole number from 1 on'
    value = data[kinds[0]]
    if kinds[0] == "messages":
        problem = _messages_problem(value, api)
        if problem:
            return problem
        text = "\n\n".join(filter(None, (message_text(message) for message in value)))
        return Entry(text=text, messages=value if api == "chat" else None, output_tokens=limit)
    if not isinstance(value, str) or not value.strip():
        return f'"{kinds[0]}" must be text that is not empty'
    return Entry(text=value, output_tokens=limit)


def _messages_problem(messages: object, api: Api) -> str | None:
    if not isinstance(messages, list) or not messages:
        return '"messages" must be a list that is not empty'
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return f'"messages"[{place}] must be an object with a "role"'
        content = message.get("content")
        if isinstance(content, list):
            if not all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in content):
                return f'"messages"[{place}]: each part of its content must be an object with a "type"'
            if api == "completions" and not all(isinstance(part.get("text"), str) for part in content):
                return f'"messages"[{place}] has parts that are not text; they need api: chat'
        elif content is not None and not isinstance(content, str):
            return f'"messages"[{place}]: its content must be text or a list of parts'
    if not any(message_text(message).strip() for message in messages):
        return '"messages" hold no text'
    return None


def message_text(message: dict[str, Any]) -> str:
    """All text of one chat message."""
    content = message.get("content")
    if isinstance(content, list):
        texts = (part.get("text") for part in content)
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""
