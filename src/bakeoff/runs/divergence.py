"""Divergence in the run folder: ``quality/divergence.json`` (the texts, and who walked along them) and one part a walk.

``quality/divergence-NNN.parquet`` holds the next-token probabilities of one walk, a row a position. The JSON is written
after the part that it names, so what it names exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..errors import RunFolderError
from ..model import Distribution, DivergencePass, ForcedText
from . import parts
from .documents import read_document, write_document

SCHEMA = "bakeoff.divergence/1"
_FOLDER = "quality"
_NAME = "divergence.json"


class _Divergence(msgspec.Struct, frozen=True, kw_only=True):
    schema: str = SCHEMA
    texts: tuple[ForcedText, ...] = ()
    passes: tuple[DivergencePass, ...] = ()


class DivergenceStore:
    """What a run knows about divergence. Every method raises RunFolderError; writing also OSError."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._path = run / _FOLDER / _NAME

    def texts(self) -> tuple[ForcedText, ...]:
        """The base's answers; none before they were asked for."""
        return self._read().texts

    def passes(self) -> tuple[DivergencePass, ...]:
        """The walks so far, in the order in which they were made."""
        return self._read().passes

    def write_texts(self, texts: Sequence[ForcedText]) -> None:
        """Keeps the texts; whole or not at all."""
        self._write(msgspec.structs.replace(self._read(), texts=tuple(texts)))

    def write_pass(self, walked: DivergencePass, rows: Sequence[Distribution]) -> None:
        """Adds a walk with its rows, or one that came to nothing (no rows)."""
        known = self._read()
        part = None
        if rows:
            (self._run / _FOLDER).mkdir(exist_ok=True)
            part = f"{_FOLDER}/divergence-{parts.part_name(self._next())}.parquet"
            parts.write_distributions(self._run / part, rows)
        told = msgspec.structs.replace(walked, part=part)
        self._write(msgspec.structs.replace(known, passes=(*known.passes, told)))

    def rows(self, walked: DivergencePass) -> list[Distribution]:
        """The probabilities of one walk, by text and position; none where it has no part."""
        if walked.part is None:
            return []
        path = self._run / walked.part
        # The name comes from a file that may be a stranger's.
        if path.parent != self._run / _FOLDER or not path.name.startswith("divergence-"):
            raise RunFolderError(
                "it names a part outside its folder", where=str(self._path), remedy="restore it from a copy"
            )
        found = parts.read_rows(path, Distribution)
        if not all(len(row.ids) == len(row.logprobs) and _known([row.token_logprob, *row.logprobs]) for row in found):
            raise RunFolderError("a row's probabilities are none", where=str(path), remedy="restore it from a copy")
        return sorted(found, key=lambda row: (row.prompt, row.position))

    def _next(self) -> int:
        found = (path.stem.removeprefix("divergence-") for path in (self._run / _FOLDER).glob("divergence-*.parquet"))
        return max((int(number) for number in found if number.isdecimal()), default=-1) + 1

    def _read(self) -> _Divergence:
        return read_document(self._path, _Divergence, SCHEMA) if self._path.exists() else _Divergence()

    def _write(self, value: _Divergence) -> None:
        self._path.parent.mkdir(exist_ok=True)
        write_document(self._path, value)


def _known(logprobs: Sequence[float]) -> bool:
    """Whether they can be logarithms of probabilities (rounding leaves 1e-7 above zero; NaN is none)."""
    return all(value <= 1e-3 for value in logprobs)
