"""Recorded traffic without its texts: when requests came, how long prompt and answer were, and what prompts share.

Azure's traces of 2023 are CSV with the columns TIMESTAMP, ContextTokens, GeneratedTokens. Mooncake's are JSON Lines
with ``timestamp`` [ms], ``input_length``, ``output_length`` [tokens] and ``hash_ids``, one for each block of 512
tokens: two prompts that begin with the same ids begin with the same text.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeGuard

from .lines import BYTE_ORDER_MARK, BadPlaces, numbered_lines, object_of, open_checked, unreadable
from .problems import WorkloadError

BLOCK_TOKENS = 512
MAX_TOKENS = 10_000_000
_MAX_TIME_NS = 10 * 366 * 86_400 * 10**9
_COLUMNS = ("timestamp", "contexttokens", "generatedtokens")
_STAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9})\d*)?(?:Z|[+-]\d\d:?\d\d)?"
)
_COUNT = re.compile(r"\d{1,8}")
_FORMS = {
    "azure": "the columns are TIMESTAMP,ContextTokens,GeneratedTokens, as in 2023-11-16 18:17:03.9799600,4808,10",
    "mooncake": 'write {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, …]}, ms',
}


class Row(NamedTuple):
    """One request of a trace. blocks: ids of the prompt's blocks, in order (empty: it shares nothing)."""

    arrival_ns: int
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


class Trace:
    """One trace, in the order of arrival. Its numbers are held in memory, 24 bytes a request and 8 a block.

    Raises WorkloadError, naming every bad line (the first 20 of them).
    """

    def __init__(self, path: Path, form: Literal["azure", "mooncake"]) -> None:
        self.path = path
        self._arrivals = array("q")
        self._inputs = array("q")
        self._outputs = array("q")
        self._ends = array("Q")  # where the blocks of each request end
        self._blocks = array("q")
        self._read(form)

    def __len__(self) -> int:
        return len(self._arrivals)

    def row(self, number: int) -> Row:
        """The request of that number, from 0. Its arrival counts from the first one of the trace [ns]."""
        first = self._ends[number - 1] if number else 0
        return Row(
            self._arrivals[number],
            self._inputs[number],
            self._outputs[number],
            tuple(self._blocks[first : self._ends[number]]),
        )

    @property
    def arrivals_ns(self) -> array[int]:
        """Arrival of every request [ns from the first one], ascending."""
        return self._arrivals

    @property
    def inputs(self) -> array[int]:
        """Prompt length of every request [tokens]."""
        return self._inputs

    def _read(self, form: Literal["azure", "mooncake"]) -> None:
        bad = BadPlaces(self.path, "1 line is not a request", "{} lines are not requests")
        rows = array("q")  # number in the order of the file
        read = _azure_rows if form == "azure" else _mooncake_rows
        try:
            with open_checked(self.path, "a trace") as file:
                for line, row in read(file):
                    if isinstance(row, str):
                        bad.add(line, row)
                        continue
                    rows.append(len(rows))
                    self._add(row)
        except OSError as error:
            raise unreadable(self.path, error) from error
        bad.raise_any(_FORMS[form])
        if not rows:
            raise WorkloadError("holds no request", where=str(self.path), remedy=_FORMS[form])
        self._sort(rows)

    def _add(self, row: Row) -> None:
        self._arrivals.append(row.arrival_ns)
        self._inputs.append(row.input_tokens)
        self._outputs.append(row.output_tokens)
        self._blocks.extend(row.blocks)
        self._ends.append(len(self._blocks))

    def _sort(self, rows: array[int]) -> None:
        """Into the order of arrival (requests of one instant stay as they were), from zero on."""
        arrivals = self._arrivals
        order = rows
        if any(arrivals[n] < arrivals[n - 1] for n in range(1, len(arrivals))):
            order = array("q", sorted(rows, key=arrivals.__getitem__))
            sorted_rows = [self.row(number) for number in order]
            self._arrivals, self._inputs, self._outputs = array("q"), array("q"), array("q")
            self._ends, self._blocks = array("Q"), array("q")
            for row in sorted_rows:
                self._add(row)
        first = self._arrivals[0]
        self._arrivals = array("q", (arrival - first for arrival in self._arrivals))


def _azure_rows(file: BinaryIO) -> Iterator[tuple[int, Row | str]]:
    places: tuple[int, ...] | None = None
    for number, _, line in numbered_lines(file):
        if line is None:
            yield number, "longer than 1 MiB"
            continue
        cells = [cell.strip() for cell in line.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace").split(",")]
        if places is None:
            names = [cell.strip('"').lower() for cell in cells]
            missing = [name for name in _COLUMNS if name not in names]
            if missing:
                yield number, f"the first line must name the columns; {', '.join(missing)} is missing"
                return
            places = tuple(names.index(name) for name in _COLUMNS)
            continue
        yield number, _azure_row(cells, places)


def _azure_row(cells: list[str], places: tuple[int, ...]) -> Row | str:
    if len(cells) <= max(places):
        return f"has {len(cells)} columns, which is too few"
    stamp, context, generated = (cells[place].strip('"') for place in places)
    arrival = _stamp_ns(stamp)
    if arrival is None:
        return "its TIMESTAMP is not like 2023-11-16 18:17:03.9799600"
    for name, text in (("ContextTokens", context), ("GeneratedTokens", generated)):
        if not _COUNT.fullmatch(text) or int(text) > MAX_TOKENS:
            return f"its {name} must be a whole number of at most {MAX_TOKENS:,}"
    # No server answers with nothing: a request of no tokens is one of a single token.
    return Row(arrival, max(1, int(context)), max(1, int(generated)))


def _stamp_ns(text: str) -> int | None:
    """Nanoseconds since the year 1, exact to the last digit (a float, or a datetime, would lose the seventh)."""
    match = _STAMP.fullmatch(text)
    if not match:
        return None
    try:
        day = date(int(match[1]), int(match[2]), int(match[3])).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None
    seconds = (day * 24 + int(match[4])) * 3600 + int(match[5]) * 60 + int(match[6])
    return seconds * 10**9 + int((match[7] or "0").ljust(9, "0"))


def _mooncake_rows(file: BinaryIO) -> Iterator[tuple[int, Row | str]]:
    for number, _, line in numbered_lines(file):
        yield number, "longer than 1 MiB" if line is None else _mooncake_row(line)


def _mooncake_row(line: bytes) -> Row | str:
    data = object_of(line)
    if isinstance(data, str):
        return data
    stamp = data.get("timestamp")
    if not isinstance(stamp, int | float) or isinstance(stamp, bool) or not 0 <= stamp * 10**6 <= _MAX_TIME_NS:
        return '"timestamp" must be a number of milliseconds from 0 on'
    asked, written = data.get("input_length"), data.get("output_length")
    if not (_is_length(asked) and _is_length(written)):
        return f'"input_length" and "output_length" must be whole numbers of at most {MAX_TOKENS:,}'
    blocks = data.get("hash_ids", [])
    if not isinstance(blocks, list) or not all(_is_id(block) for block in blocks):
        return '"hash_ids" must be a list of whole numbers'
    if len(blocks) > -(-asked // BLOCK_TOKENS):
        return f'has more "hash_ids" than its "input_length" has blocks of {BLOCK_TOKENS} tokens'
    return Row(round(stamp * 10**6), max(1, asked), max(1, written), tuple(blocks))


def _is_length(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
