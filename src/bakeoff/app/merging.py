"""One verdict from several runs of an experiment. Their folders are read, never written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ..compare.merge import Merged, Part, merge
from ..compare.view import Material, View, build_view
from ..errors import UsageError
from ..model import Answer, Caution, Result
from ..runs import RunFolder
from .damage import Damage, Readable, read_all, told
from .divergence import divergence_of
from .verdict import Evidence, conclude


def compare_runs(paths: Sequence[str | Path], *, merge_anyway: bool = False) -> tuple[Result, View]:
    """(verdict, view) of several runs together, in the order in which they were measured.

    merge_anyway: also where environments differ; each then counts as a machine of its own. Raises UsageError with one
    line for each entry that differs, and for a run named twice; RunFolderError.
    """
    folders = sorted((RunFolder.open(Path(path)) for path in paths), key=lambda folder: folder.info.created)
    names = [folder.path.name for folder in folders]
    if len({folder.info.id for folder in folders}) < len(folders):
        raise UsageError("a run is named twice", where=", ".join(names), remedy="name each run once")
    read = [read_all(folder) for folder in folders]
    parts = [
        Part(
            name=folder.path.name,
            experiment=folder.info.experiment,
            environment=folder.info.environment,
            blocks=data.blocks,
            starts=data.starts,
        )
        for folder, data in zip(folders, read, strict=True)
    ]
    merged = merge(parts, anyway=merge_anyway)
    result = conclude(
        merged.experiment,
        Evidence(
            blocks=merged.blocks,
            starts=merged.starts,
            strata=merged.strata,
            answers=_answers(read),
            # Probabilities hang on no clock and no load: those of one run say as much as those of several.
            divergence=next((rows for f in folders if (rows := divergence_of(merged.experiment, f))), ()),
        ),
        run=" + ".join(names),
        state="complete",
        reason=f"{len(parts)} runs merged",
        quality_note=next((f.info.quality_note for f in folders if f.info.quality_note), None),
    )
    result = msgspec.structs.replace(result, warnings=(*result.warnings, *_told(merged, folders)))
    result = told(result, _together(folders, read))
    material = Material(blocks=merged.blocks, starts=merged.starts, one_clock=False)
    return result, build_view(result, merged.experiment, material)


def _together(folders: Sequence[RunFolder], read: Sequence[Readable]) -> Damage:
    """What is lost in any of the runs, with the run's name before the file's."""

    def named(texts: Callable[[Damage], Sequence[str]]) -> tuple[str, ...]:
        return tuple(
            f"{folder.path.name}/{text}"
            for folder, data in zip(folders, read, strict=True)
            for text in texts(data.damage)
        )

    return Damage(skipped=named(lambda damage: damage.skipped), missing=named(lambda damage: damage.missing))


def _answers(read: Sequence[Readable]) -> list[Answer]:
    """The answers of all runs; what one run asked, the next one asked again, so that they are repeats."""
    return [
        msgspec.structs.replace(answer, repeat=answer.repeat + _MOST_REPEATS * number)
        for number, data in enumerate(read)
        for answer in data.answers
    ]


_MOST_REPEATS = 1000  # of one run


def _told(merged: Merged, folders: Sequence[RunFolder]) -> list[Caution]:
    parts = [
        f"{folder.path.name} ({rounds} rounds" + (f", {folder.info.state})" if folder.info.state != "complete" else ")")
        for folder, rounds in zip(folders, merged.rounds, strict=True)
    ]
    found = [
        Caution(
            code="merged",
            message=f"one verdict from {len(folders)} runs: {', '.join(parts)}",
            remedy="`bakeoff compare RUN` gives that of one",
            severity="note",
        )
    ]
    if merged.differences:
        found.append(
            Caution(
                code="environments-differ",
                message="merged although the environments differ: " + "; ".join(map(str, merged.differences[:_TOLD])),
                remedy="read each run alone where this could matter",
            )
        )
    return found


_TOLD = 8
