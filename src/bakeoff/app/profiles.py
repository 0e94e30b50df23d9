"""Profiled passes of a run: taken after the measuring, told as findings, kept with the traces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .. import __version__
from ..errors import BakeoffError
from ..model import Caution, Experiment, Finding, Profile
from ..runs import RunFolder
from ..runs.documents import read_document, write_document
from ..runs.profiles import read_profiles, write_profiles

if TYPE_CHECKING:
    from ..measure.progress import Progress
    from ..measure.runner import Attempt, Runner

_SCHEMA = "bakeoff.trace-findings/1"
_NAME = "findings.json"
# Engines whose servers write a profile only where the setting `profile` says how they are told to.
_TOLD = ("openai", "command")


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Findings with what they were made of: other files or another version make them anew."""

    schema: str = _SCHEMA
    bakeoff: str
    files: dict[str, int]
    findings: tuple[Finding, ...]


def take_profiles(
    experiment: Experiment, runner: Runner, attempt: Attempt, folder: RunFolder, progress: Progress
) -> None:
    """Profiles every variant that has no trace yet, and writes the differences beside the traces.

    A pass that fails or is interrupted costs its trace only: the measured verdict stands without it.
    """
    traces = _traces(folder)
    taken = {profile.variant: profile for profile in read_profiles(traces)}

    def save(profile: Profile) -> None:
        taken[profile.variant] = profile
        write_profiles(traces, tuple(taken.values()))

    try:
        runner.profile(
            attempt,
            traces=traces,
            known={name for name, profile in taken.items() if profile.files},
            save=save,
        )
        progress.phase("comparing the profiles")
        _compare(experiment, folder)
    except KeyboardInterrupt:
        progress.note("the profiled pass was interrupted; the comparison stands without it")
    except (BakeoffError, OSError) as error:
        progress.note(f"no profile: {error}")


def profile_warnings(experiment: Experiment) -> Iterator[str]:
    """One sentence for all variants that, by their settings, have no profiler: said before the run."""
    without = [v.name for v in experiment.variants if v.engine in _TOLD and not v.settings.get("profile")]
    if experiment.profile and without:
        are, their = ("is", "its") if len(without) == 1 else ("are", "their")
        yield (
            f"{' and '.join(without)} {are} not profiled, unless {their} answers tell timings as llama.cpp's do: "
            "`profile: true` needs the setting `profile: {folder: …}` of each variant"
        )


def profile_notes(experiment: Experiment, folder: RunFolder) -> tuple[Caution, ...]:
    """A note on the variants of a complete run that were to be profiled and have no trace; none where all have."""
    if not experiment.profile:
        return ()
    try:
        taken = {profile.variant: profile for profile in read_profiles(_traces(folder))}
    except BakeoffError:
        return ()
    reasons: dict[str, list[str]] = {}
    for variant in experiment.variants:
        profile = taken.get(variant.name)
        if profile is None or not profile.files:
            reason = profile.problem if profile is not None else None
            reasons.setdefault(reason or "the profiled pass did not come to it", []).append(variant.name)
    if not reasons:
        return ()
    message = "; ".join(f"{' and '.join(names)}: {reason}" for reason, names in reasons.items())
    return (
        Caution(
            code="not-profiled",
            message=f"asked for by `profile: true`, and not profiled: {message}",
            remedy="set `profile: {folder: …}` of each variant whose server has a profiler; no number depends on it",
            severity="note",
        ),
    )


def profile_findings(experiment: Experiment, folder: RunFolder) -> tuple[Finding, ...]:
    """What the profiles of a run tell, as findings; kept ones where their files are still the same."""
    try:
        profiles = read_profiles(_traces(folder))
        if not any(profile.files for profile in profiles):
            return ()
        kept = read_document(_traces(folder) / _NAME, _Kept, _SCHEMA) if (_traces(folder) / _NAME).exists() else None
    except BakeoffError:
        return ()
    if kept is not None and kept.bakeoff == __version__ and kept.files == _sizes(profiles, folder.path):
        return kept.findings
    from ..explain.traces import trace_diffs, trace_findings

    return trace_findings(profiles, trace_diffs(experiment, profiles, folder.path))


def _compare(experiment: Experiment, folder: RunFolder) -> None:
    """Writes ``traces/findings.json`` and, for each candidate, ``traces/diff-NAME.json`` and ``.html``."""
    from ..explain.traces import trace_diffs, trace_findings
    from ..report.trace_diff_html import render_trace_diff_html
    from ..traces.diff import TraceDiff, as_json

    traces = _traces(folder)
    profiles = read_profiles(traces)
    diffs = trace_diffs(experiment, profiles, folder.path)
    for name, told in diffs.items():
        if isinstance(told, TraceDiff):
            text = json.dumps(as_json(told), indent=2, ensure_ascii=False, allow_nan=False)
            (traces / f"diff-{name}.json").write_text(text + "\n", encoding="utf-8")
            (traces / f"diff-{name}.html").write_text(render_trace_diff_html(told), encoding="utf-8")
    if diffs:
        findings = trace_findings(profiles, diffs)
        kept = _Kept(bakeoff=__version__, files=_sizes(profiles, folder.path), findings=findings)
        write_document(traces / _NAME, kept)


def _traces(folder: RunFolder) -> Path:
    return folder.path / "traces"


def _sizes(profiles: Sequence[Profile], path: Path) -> dict[str, int]:
    """Bytes of each trace; −1 where it is gone."""
    names = [name for profile in profiles for name in profile.files]
    return {name: (path / name).stat().st_size if (path / name).is_file() else -1 for name in names}
