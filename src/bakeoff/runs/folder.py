"""The run folder itself: create, open, write block by block, read back."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec

from ..errors import RunFolderError
from ..model import SCHEMA, Answer, Block, BlockData, Experiment, RequestRecord, Result, Sample, Start
from . import atomic, parts
from .answers import read_answers, write_answers
from .columns import from_table
from .documents import read_document, write_document
from .info import RUN_SCHEMA, RunInfo, new_id, slug, stamp_of
from .locking import alone, is_held

T = TypeVar("T")


class RunFolder:
    """One run on disk; a `Sink`. Reading never changes it; hold `lock()` while writing into one that others may see."""

    def __init__(self, path: Path, info: RunInfo) -> None:
        """Use `create` or `open`."""
        self._path = path
        self._info = info
        self._starts: dict[int, Start] | None = None
        self._skipped: list[str] = []
        self._measuring = False  # the lock is held: what fails can be gone on with

    # ── making and opening ────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def create(
        cls, root: Path, experiment: Experiment, *, command: Sequence[str], source: str, version: str
    ) -> RunFolder:
        """A new run under `root`: ``<YYYYmmdd-HHMMSS>-<name>-<6 hex>``. Raises RunFolderError.

        `command` must already be free of secrets; run.json is written last, so a half-made folder is no run.
        """
        now = datetime.datetime.now(datetime.UTC)
        try:
            path = _new_folder(root, experiment.name, now)
            for name in ("requests", "telemetry", "logs", "traces"):
                (path / name).mkdir()
            info = RunInfo(
                id=path.name,
                created=now.isoformat(timespec="microseconds"),
                bakeoff=version,
                experiment=experiment,
                source=source,
                command=list(command),
            )
            folder = cls(path.resolve(), info)
            folder._write_json("run.json", info)
        except OSError as error:
            raise RunFolderError(
                f"cannot make a run folder ({error.strerror})", where=str(root), remedy="name a folder you can write to"
            ) from error
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Opens a run for reading, or for going on under `lock()`. Raises RunFolderError."""
        try:
            missing = not (path / "run.json").exists()
            inside = sum(1 for _ in path.glob("*/run.json")) if missing and path.is_dir() else 0
        except OSError as error:
            raise _unreadable(path, error) from error
        if missing:
            remedy = (
                f"name one of the {inside} runs inside it" if inside else "name a run folder, for example runs/2025…"
            )
            raise RunFolderError("this is not a run folder: it has no run.json", where=str(path), remedy=remedy)
        return cls(path.resolve(), read_document(path / "run.json", RunInfo, RUN_SCHEMA))

    @staticmethod
    def latest(root: Path) -> Path:
        """The newest run under `root`, by the time in its name (if renamed, its change time); one that never measured
        a block only where there is no other. Raises RunFolderError."""
        try:
            ages = {head.parent: _age_key(head.parent) for head in root.glob("*/run.json")} if root.is_dir() else {}
        except OSError as error:
            raise _unreadable(root, error) from error
        if not ages:
            raise RunFolderError(
                "there is no run here",
                where=str(root),
                remedy="measure one (bakeoff demo, bakeoff run …) or name its folder",
            )
        return max(ages, key=lambda path: (_measured(path), ages[path]))

    @property
    def path(self) -> Path:
        """The folder, absolute."""
        return self._path

    @property
    def info(self) -> RunInfo:
        """run.json as it stands."""
        return self._info

    @property
    def live(self) -> bool:
        """Whether a process is measuring into this run right now."""
        return is_held(self._path / ".lock")

    def update(self, **changes: Any) -> RunInfo:
        """Changes fields of run.json, atomically. Raises TypeError for an unknown field."""
        self._info = msgspec.structs.replace(self._info, **changes)
        self._write_json("run.json", self._info)
        return self._info

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the run for writing, alone, and clears what an interrupted write left. Raises RunFolderError."""
        with alone(self._path):
            with contextlib.suppress(OSError):  # what reads and writes there tells it better
                for folder in (self._path, *(self._path / name for name in ("requests", "telemetry", "quality"))):
                    atomic.remove_temporaries(folder)
            self._starts = None  # another process may have added some since this folder was opened
            self._info = read_document(self._path / "run.json", RunInfo, RUN_SCHEMA)
            self._measuring = True
            try:
                yield
            finally:
                self._measuring = False

    # ── writing (the Sink) ────────────────────────────────────────────────────────────────────────────────────────

    def write_block(self, block: Block, requests: Sequence[RequestRecord], samples: Sequence[Sample]) -> None:
        """Writes a block whole or not at all: telemetry first; the requests file, renamed into place, commits it.

        Raises RunFolderError if that block exists (raw measurements are never overwritten) or the disk refuses.
        """
        path = self._part("requests", block.id)
        if block.id < 0 or path.exists():
            raise RunFolderError(
                f"block {block.id} is already written", where=str(path), remedy="take the id from next_block_id()"
            )
        with self._disk(path):
            parts.write_samples(self._part("telemetry", block.id), samples)
            parts.write_requests(path, block, requests)

    def write_start(self, start: Start) -> None:
        """Adds a start, or replaces the one of the same id. Raises RunFolderError."""
        known = {**self._known_starts(), start.id: start}
        with self._disk(self._starts_path):
            parts.write_starts(self._starts_path, [known[key] for key in sorted(known)])
        self._starts = known

    def write_answers(self, answers: Sequence[Answer]) -> None:
        """Writes the answers of one visit, whole or not at all. Raises RunFolderError."""
        with self._disk(self._path / "quality"):
            write_answers(self._path, answers)

    def log_path(self, start_id: int, variant: str) -> tuple[Path, str]:
        """(absolute path, path relative to the run folder) of a start's log."""
        name = f"logs/{start_id:03d}-{slug(variant)}.log"
        return self._path / name, name

    def write_result(self, result: Result) -> Path:
        """Writes result.json, atomically; returns its path."""
        return self._write_json("result.json", result)

    def write_report(self, html: str) -> Path:
        """Writes report.html, atomically; returns its path."""
        path = self._path / "report.html"
        with self._disk(path):
            atomic.write_bytes(path, html.encode("utf-8", "replace"))
        return path

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def blocks(self, *, skip_broken: bool = False) -> list[BlockData]:
        """All blocks with their requests as columns, by id. Raises RunFolderError.

        With `skip_broken` a bad file is left out instead, and `skipped` lists it.
        """
        return self._each(_block_data, skip_broken)

    def block_infos(self, *, skip_broken: bool = False) -> list[Block]:
        """All blocks without their requests: reads only the footers. As `blocks` for broken files."""
        return self._each(parts.read_block, skip_broken)

    @property
    def skipped(self) -> tuple[str, ...]:
        """What the last read with `skip_broken` left out, one message a file."""
        return tuple(self._skipped)

    def records(self, block_id: int) -> list[RequestRecord]:
        """The requests of one block as they were written. Raises RunFolderError."""
        return parts.read_rows(self._part("requests", block_id), RequestRecord)

    def samples(self, block_id: int) -> list[Sample]:
        """The telemetry of one block; empty if there is none. Raises RunFolderError."""
        path = self._part("telemetry", block_id)
        return parts.read_rows(path, Sample) if path.exists() else []

    def all_samples(self, *, skip_broken: bool = False) -> dict[int, list[Sample]]:
        """The telemetry of every block, by block id. As `blocks` for broken files."""
        return dict(self._each(lambda path: (int(path.stem), self.samples(int(path.stem))), skip_broken))

    def answers(self, *, skip_broken: bool = False) -> list[Answer]:
        """Answers to quality tasks, in the order of time. As `blocks` for broken files."""
        skipped: list[str] = []
        found = read_answers(
            self._path, (lambda p, e: skipped.append(f"{p.name}: {e.message}")) if skip_broken else None
        )
        self._skipped = [f"quality/{text}" for text in skipped]
        return found

    def starts(self, *, skip_broken: bool = False) -> list[Start]:
        """All starts, by id. As `blocks` for a broken file."""
        self._skipped, known = [], {}
        try:
            known = self._known_starts()
        except RunFolderError as error:
            if not skip_broken:
                raise
            self._skipped.append(f"{self._starts_path.name}: {error.message}")
        return [known[key] for key in sorted(known)]

    def read_result(self) -> Result:
        """result.json. Raises RunFolderError if there is none, or of another schema."""
        return read_document(self._path / "result.json", Result, SCHEMA)

    def next_block_id(self) -> int:
        """The first id that no block file has, broken ones included."""
        return max((block_id for block_id, _ in self._block_files()), default=-1) + 1

    def next_start_id(self) -> int:
        """The first id that no start has. A log counts too: its start was killed before it could be written."""
        ids = list(self._known_starts())
        for log in (self._path / "logs").glob("*-*.log"):
            head = log.name.partition("-")[0]
            ids += [int(head)] if head.isdecimal() else []
        return max(ids, default=-1) + 1

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _starts_path(self) -> Path:
        return self._path / "starts.parquet"

    def _part(self, kind: str, block_id: int) -> Path:
        return self._path / kind / f"{parts.part_name(block_id)}.parquet"

    def _block_files(self) -> list[tuple[int, Path]]:
        found = (self._path / "requests").glob("*.parquet")
        return sorted((int(path.stem), path) for path in found if path.stem.isdecimal())

    def _each(self, read: Callable[[Path], T], skip_broken: bool) -> list[T]:
        self._skipped, results = [], []
        for _, path in self._block_files():
            try:
                results.append(read(path))
            except RunFolderError as error:
                if not skip_broken:
                    raise
                self._skipped.append(f"{os.path.relpath(error.where or path, self._path)}: {error.message}")
        return results

    def _known_starts(self) -> dict[int, Start]:
        if self._starts is None:
            path = self._starts_path
            rows = parts.read_rows(path, Start) if path.exists() else []
            self._starts = {start.id: _inside(start) for start in rows}
        return self._starts

    def _write_json(self, name: str, value: RunInfo | Result) -> Path:
        path = self._path / name
        with self._disk(path):
            write_document(path, value)
        return path

    @contextlib.contextmanager
    def _disk(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._measuring:
                remedy = "free disk space or fix the permissions, then go on with --resume: what was written is whole"
            else:
                remedy = "name a folder you can write to, or use -o FILE"
            raise RunFolderError(f"cannot write ({error.strerror or error})", where=str(path), remedy=remedy) from error


def _measured(run: Path) -> bool:
    return next((run / "requests").glob("*.parquet"), None) is not None


def _unreadable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(
        f"the folder cannot be read ({error.strerror or error})", where=str(path), remedy="check its permissions"
    )


def _block_data(path: Path) -> BlockData:
    block, table = parts.read_requests(path)
    try:
        return BlockData(block=block, columns=from_table(table))
    except (msgspec.MsgspecError, ValueError) as error:
        raise RunFolderError(
            f"a value does not fit: {error}", where=str(path), remedy="restore it from a copy"
        ) from error


def _inside(start: Start) -> Start:
    """A log path that leads out of the folder is forgotten: reports show logs, and the folder may be a stranger's."""
    if start.log is not None and (PurePosixPath(start.log).is_absolute() or ".." in PurePosixPath(start.log).parts):
        return msgspec.structs.replace(start, log=None)
    return start


def _new_folder(root: Path, name: str, now: datetime.datetime) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for _ in range(100):  # 24 random bits a try: the second one is already improbable
        path = root / new_id(name, now)
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path
    raise RunFolderError("cannot find a free name for the run", where=str(root), remedy="name another folder")


def _age_key(path: Path) -> tuple[str, float]:
    changed = (path / "run.json").stat().st_mtime
    fallback = datetime.datetime.fromtimestamp(changed, datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return stamp_of(path.name) or fallback, changed
