"""What a damaged run folder still holds, and what is told of the rest: a verdict never hides that data are gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from ..errors import RunFolderError
from ..model import Answer, BlockData, Caution, Result, Start
from ..runs import RunFolder
from ..runs.missing import missing_files

_NAMED_FILES = 3


@dataclass(frozen=True, kw_only=True)
class Damage:
    """skipped: one message for each file that cannot be read. missing: files that are gone. written: blocks once
    written."""

    skipped: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    written: int = 0

    @property
    def blocks(self) -> int:
        """Blocks of requests that are lost."""
        return sum(text.startswith("requests/") for text in (*self.skipped, *self.missing))


@dataclass(frozen=True, kw_only=True)
class Readable:
    """The data of a run that can be read."""

    blocks: list[BlockData]
    starts: list[Start]
    answers: list[Answer]
    damage: Damage = field(default_factory=Damage)


def read_all(folder: RunFolder) -> Readable:
    """Raises RunFolderError where blocks were written and none is left."""
    blocks = folder.blocks(skip_broken=True)
    skipped = folder.skipped
    if skipped and not blocks:
        folder.blocks()  # nothing is left to judge: raises, with the file and a remedy
    starts = folder.starts(skip_broken=True)
    skipped += folder.skipped
    answers = folder.answers(skip_broken=True)
    skipped += folder.skipped
    missing = missing_files(folder.path, folder.info.blocks)
    if not blocks and (missing or (folder.info.state == "complete" and not answers)):
        count = f"all {folder.info.blocks} blocks" if folder.info.blocks else "all blocks"
        raise RunFolderError(
            f"{count} of this run are gone: its requests folder is empty",
            where=str(folder.path / "requests"),
            remedy="copy the run folder again from where it was measured",
        )
    written = max(folder.info.blocks, max((data.block.id + 1 for data in blocks), default=0))
    return Readable(
        blocks=blocks, starts=starts, answers=answers, damage=Damage(skipped=skipped, missing=missing, written=written)
    )


def told(result: Result, damage: Damage) -> Result:
    """The result with warnings about files that are left out or gone; its stop line says what the verdict rests on."""
    warnings = list(result.warnings)
    if damage.missing:
        warnings.insert(0, _missing(damage.missing))
    if damage.skipped:
        warnings.insert(0, _broken(damage.skipped))
    reason = result.stop_reason
    if reason and damage.blocks:
        reason += f" (since then lost, and not counted here: {damage.blocks} of {damage.written} blocks)"
    return msgspec.structs.replace(result, warnings=tuple(warnings), stop_reason=reason)


_REMEDY = "copy the run folder again from where it was measured; what is left is whole and counts"


def _missing(files: Sequence[str]) -> Caution:
    return Caution(code="missing-files", message=f"files of this run are gone: {_named(files)}", remedy=_REMEDY)


def _broken(files: Sequence[str]) -> Caution:
    are = "it" if len(files) == 1 else "they"
    return Caution(
        code="broken-files", message=f"left out, because {are} cannot be read: {_named(files)}", remedy=_REMEDY
    )


def _named(files: Sequence[str]) -> str:
    more = f"; and {len(files) - _NAMED_FILES} more" if len(files) > _NAMED_FILES else ""
    return "; ".join(files[:_NAMED_FILES]) + more
