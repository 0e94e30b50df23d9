"""Where the gap sits, by the profiles of a run: the difference of two traces as a suspected cause.

A profile shows where the time went, not what changing something would do: its findings are suspected, never confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import BakeoffError
from ..model import Experiment, Finding, Profile
from ..traces import Timeline, read
from ..traces.diff import TraceDiff, diff
from ..traces.diff_align import mode_of
from ..traces.diff_words import amount, percent

CAUSE = "trace"
_ROWS = 5
_SMALL = 0.03  # of the gap: smaller rows are not worth a line
_MOST_TRACES = 16


def trace_diffs(
    experiment: Experiment, profiles: Sequence[Profile], folder: Path
) -> dict[str, TraceDiff | BakeoffError]:
    """For each candidate that was profiled as the base was: the difference, or why there is none.

    folder: the run folder, to which the profiles' files are relative.
    """
    known = {profile.variant: profile for profile in profiles}
    base = known.get(experiment.base.name)
    found: dict[str, TraceDiff | BakeoffError] = {}
    if base is None or not base.files:
        return found
    for candidate in experiment.candidates:
        mine = known.get(candidate.name)
        if mine is None or not mine.files:
            continue
        try:
            found[candidate.name] = diff(_timelines(base, folder), _timelines(mine, folder), tokens=_tokens(base, mine))
        except BakeoffError as error:
            found[candidate.name] = error
    return found


def trace_findings(profiles: Sequence[Profile], diffs: Mapping[str, TraceDiff | BakeoffError]) -> tuple[Finding, ...]:
    """One finding a candidate: the largest contribution as its title, the rows as its evidence."""
    places = {profile.variant: profile for profile in profiles}
    return tuple(_finding(name, places[name], told) for name, told in diffs.items() if name in places)


def _finding(candidate: str, profile: Profile, told: TraceDiff | BakeoffError) -> Finding:
    if isinstance(told, BakeoffError) or not told.aligned:
        why, fix = (told.message, told.remedy) if isinstance(told, BakeoffError) else (told.alignment, None)
        return Finding(
            candidate=candidate,
            cause=CAUSE,
            title="the profiles of the two cannot be compared",
            status="cannot attribute",
            evidence=(why,),
            fix=fix,
            workload=profile.workload,
            load=profile.load,
        )
    return Finding(
        candidate=candidate,
        cause=CAUSE,
        title=f"profiled pass: {told.cause}",
        status="suspected",
        evidence=tuple(_evidence(told, profile)),
        workload=profile.workload,
        load=profile.load,
    )


def _evidence(told: TraceDiff, profile: Profile) -> list[str]:
    how = "by the times told with each answer" if profile.source == "timings" else "under the profiler's overhead"
    lines = [f"{how}: {amount(told.gap_ms, told.unit)} ({told.alignment})"]
    for row in told.rows[:_ROWS]:
        if told.gap_ms and abs(row.ms) >= _SMALL * abs(told.gap_ms):
            counts = f"{row.base.events:,} → {row.candidate.events:,}"
            share = percent(row.ms / told.gap_ms)
            lines.append(f"{row.label}: {amount(row.ms, told.unit)}, {share} of the gap, {counts} counted")
    if told.gap_ms and abs(told.residual_ms) >= _SMALL * abs(told.gap_ms):
        lines.append(f"not told by the traces: {amount(told.residual_ms, told.unit)}")
    return [*lines, "the traces lie in the run's folder traces/; `bakeoff trace BASE CANDIDATE` shows every row"]


def _tokens(base: Profile, candidate: Profile) -> tuple[float, float] | None:
    """Tokens to compare by; None where requests are the steps, of which each has its prompt as well."""
    if "timings" in (base.source, candidate.source):
        return None
    if base.output_tokens and candidate.output_tokens:
        return float(base.output_tokens), float(candidate.output_tokens)
    return None


def _timelines(profile: Profile, folder: Path) -> list[Timeline]:
    """The traces of a pass that show its work: all GPU traces (of several ranks), else the one with most operators.

    A server writes traces of its other processes as well (a front end); what is no trace is passed over.
    Raises BakeoffError when none can be read.
    """
    found: list[Timeline] = []
    problem: BakeoffError | None = None
    for name in profile.files[:_MOST_TRACES]:
        try:
            found.append(read(_inside(folder, name)))
        except BakeoffError as error:
            problem = problem or error
    working = [timeline for timeline in found if mode_of(timeline) == "gpu"]
    if working:
        return working
    on_host = [timeline for timeline in found if mode_of(timeline) == "host"]
    if on_host:
        return [max(on_host, key=lambda timeline: len(timeline.host))]
    if problem is not None:
        raise problem
    return found


def _inside(folder: Path, name: str) -> Path:
    """The file, if it lies in the run folder: a run folder from elsewhere must not make us read other files."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise BakeoffError("a profile lies outside of its run folder", where=name)
    return path
