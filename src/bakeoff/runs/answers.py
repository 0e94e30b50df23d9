"""Answers to quality tasks: ``quality/NNN.parquet``, one part for each visit to a variant in a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import RunFolderError
from ..model import Answer
from . import parts

_FOLDER = "quality"


def write_answers(run: Path, answers: Sequence[Answer]) -> None:
    """Writes one part, whole or not at all. Raises OSError."""
    folder = run / _FOLDER
    folder.mkdir(exist_ok=True)
    parts.write_answers(folder / f"{parts.part_name(_next(folder))}.parquet", answers)


def read_answers(run: Path, on_broken: Callable[[Path, RunFolderError], None] | None = None) -> list[Answer]:
    """All answers, in the order in which they were written; none where nothing was asked.

    Raises RunFolderError for a part that cannot be read; with `on_broken` it is told instead, and left out.
    """
    found: list[Answer] = []
    for path in _files(run / _FOLDER):
        try:
            found += parts.read_rows(path, Answer)
        except RunFolderError as error:
            if on_broken is None:
                raise
            on_broken(path, error)
    return found


def _files(folder: Path) -> list[Path]:
    return sorted((p for p in folder.glob("*.parquet") if p.stem.isdecimal()), key=lambda p: int(p.stem))


def _next(folder: Path) -> int:
    return max((int(path.stem) for path in _files(folder)), default=-1) + 1
