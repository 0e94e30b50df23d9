"""From a run folder to verdict, view and report: recomputed from the raw data at any time."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from ..compare.view import Material, View, build_view
from ..compare.view_redact import redacted_result
from ..errors import RunFolderError, UsageError
from ..model import Caution, Result
from ..runs import RunFolder
from .damage import Damage, Readable, read_all, told
from .divergence import divergence_of
from .profiles import profile_findings, profile_notes
from .verdict import Evidence, conclude

Format = Literal["terminal", "html", "markdown", "json"]


def compare(path: str | Path, *more: str | Path, merge_anyway: bool = False) -> Result:
    """Recomputes the verdict of a run from its raw data, and saves result.json (a note says where it cannot). Raises
    RunFolderError.

    Of several runs of one experiment it is the verdict of all their pairs together, and nothing is saved. Raises
    UsageError, with one line for each entry, where they differ; differing environments are merged with `merge_anyway`,
    each as a machine of its own.
    """
    if more:
        from .merging import compare_runs

        return compare_runs([path, *more], merge_anyway=merge_anyway)[0]
    folder = RunFolder.open(Path(path))
    result = _conclude(folder, read_all(folder))
    try:
        folder.write_result(result)
    except RunFolderError as error:  # a shared or archived run: the verdict is as good
        return msgspec.structs.replace(result, warnings=(*result.warnings, _unsaved(error)))
    return result


def _unsaved(error: RunFolderError) -> Caution:
    return Caution(
        code="not-saved",
        message=f"result.json is not renewed: {error.message}",
        remedy="nothing is wrong with the verdict; use -o FILE, or copy the run to a folder that you can write to",
        severity="note",
    )


def describe(path: str | Path, *, redact: bool = False, result: Result | None = None) -> View:
    """The view of a run that reports are rendered from, recomputed from the raw data.

    `result`: the run's verdict where it was computed just now; it is not computed again.
    """
    folder = RunFolder.open(Path(path))
    if result is not None:
        return _view(folder, result, redact=redact)
    data = read_all(folder)
    return _view(folder, _conclude(folder, data), data, redact=redact)


def report(path: str | Path, fmt: Format = "html", *, redact: bool = False) -> str:
    """A run's report as text in one of the formats. `redact` leaves out prompts, outputs, hosts and paths."""
    if fmt == "json":
        from ..report import render_json

        folder = RunFolder.open(Path(path))
        result = _conclude(folder, read_all(folder))
        return render_json(redacted_result(result, folder.info.experiment) if redact else result)
    return render(describe(path, redact=redact), fmt)


def render(view: View, fmt: Format, *, color: bool = False, width: int = 100, full: bool = False) -> str:
    """Renders a view. Raises UsageError for an unknown format."""
    if fmt == "terminal":
        from ..report import render_terminal

        return render_terminal(view, color=color, width=width, full=full)
    if fmt == "markdown":
        from ..report import render_markdown

        return render_markdown(view)
    if fmt == "html":
        from ..report import render_html

        return render_html(view)
    raise UsageError(f"unknown format {fmt!r}", remedy="terminal, html, markdown or json")


def save(folder: RunFolder, result: Result) -> None:
    """Writes result.json and report.html."""
    folder.write_result(result)
    folder.write_report(render(_view(folder, result), "html"))


def _conclude(folder: RunFolder, data: Readable) -> Result:
    info = folder.info
    killed = info.state == "running" and not folder.live
    result = conclude(
        info.experiment,
        Evidence(
            blocks=data.blocks,
            starts=data.starts,
            traced=profile_findings(info.experiment, folder),
            answers=data.answers,
            divergence=divergence_of(info.experiment, folder),
            notes=profile_notes(info.experiment, folder) if info.state == "complete" else (),
        ),
        run=str(folder.path),
        state="interrupted" if killed else info.state,
        reason="the measuring process was killed; go on with --resume" if killed else info.stop_reason,
        quality_note=info.quality_note,
    )
    return told(result, data.damage)


def _view(folder: RunFolder, result: Result, data: Readable | None = None, *, redact: bool = False) -> View:
    """data: what of the folder is read already."""
    info = folder.info
    blocks = data.blocks if data is not None else folder.blocks(skip_broken=True)
    known = set(data.damage.skipped if data is not None else folder.skipped)  # the result tells of these already
    samples = folder.all_samples(skip_broken=True)
    broken = tuple(message for message in folder.skipped if message not in known)
    return build_view(
        told(result, Damage(skipped=broken)),
        info.experiment,
        Material(
            blocks=blocks,
            starts=data.starts if data is not None else folder.starts(skip_broken=True),
            samples=samples,
            environment=info.environment,
            command=" ".join(info.command) or None,
            run_path=str(folder.path),
        ),
        redact=redact,
    )
