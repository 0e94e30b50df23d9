"""A workload's prompts, by its source: what is read, which of it is used, and who makes the bodies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from ..model import Workload
from .bodies import BodyMaker
from .jsonl import JsonlPrompts
from .problems import WorkloadError
from .recorded import RecordedBodies
from .sharegpt import ShareGptPrompts
from .synthetic import SyntheticBodies, TraceBodies
from .traces import Trace
from .windows import Sampler, TraceWindows, subset

_DEFAULT_STRIDE = 64  # prompts a round moves on through a file, when blocks are measured by time

#: What was read of a workload's file; None where there is none.
ReadSource = JsonlPrompts | ShareGptPrompts | Trace | None


def read_source(workload: Workload) -> ReadSource:
    """Reads and checks the workload's file. Raises WorkloadError with every bad place in it."""
    prompts = workload.prompts
    if prompts.source == "synthetic":
        return None
    if prompts.path is None:
        raise WorkloadError("no file of prompts is named", where=workload.name, remedy="set prompts.path")
    path = Path(prompts.path)
    if prompts.source == "jsonl":
        return JsonlPrompts(path, workload.api, conversations=prompts.turns > 1)
    if prompts.source == "sharegpt":
        return ShareGptPrompts(path, turns=prompts.turns)
    return Trace(path, prompts.source)


def make_bodies(
    workload: Workload, source: ReadSource, seed: int, *, turns: int
) -> tuple[BodyMaker, TraceWindows | None, Sequence[str]]:
    """(who makes the bodies, the windows of a trace, what is to be noted). turns: most turns of a conversation."""
    if source is None:
        return SyntheticBodies(workload, seed, turns=turns), None, _reuse_note(workload)
    notes: list[str] = list(_reuse_note(workload))
    if isinstance(source, Trace):
        kept = _kept_rows(workload, source, seed, notes)
        windows = _windows(workload, source, kept)
        if windows.empty and workload.load.kind == "replay":
            notes.append(f"{windows.empty} of the trace's {windows.windows} windows hold no request: passed over")
        return TraceBodies(workload, seed, source, kept, windows), windows, notes
    chosen = _sampled(workload, range(len(source)), seed)
    stride = max(1, math.ceil(_per_round(workload) / source.mean_turns))
    sampler = Sampler(len(chosen), stride=stride, seed=seed)
    return RecordedBodies(workload, source, chosen, sampler, turns=turns), None, notes


def _kept_rows(workload: Workload, trace: Trace, seed: int, notes: list[str]) -> list[int]:
    """The requests of a trace that are used, in its order."""
    prompts = workload.prompts
    numbers: Sequence[int] = range(len(trace))
    most = prompts.max_input_tokens
    if most is not None:
        overlong = sum(tokens > most for tokens in trace.inputs)
        what = "cut" if prompts.overlong == "truncate" else "skipped"
        if overlong:
            notes.append(f"{overlong} of the trace's {len(trace)} prompts are longer than {most} tokens: {what}")
        if prompts.overlong == "skip":
            numbers = [number for number, tokens in enumerate(trace.inputs) if tokens <= most]
    if not numbers:
        raise WorkloadError(
            f"every prompt is longer than max_input_tokens: {most}",
            where=workload.name,
            remedy="raise prompts.max_input_tokens, or set overlong: truncate",
        )
    return list(_sampled(workload, numbers, seed))


def _sampled(workload: Workload, numbers: Sequence[int], seed: int) -> Sequence[int]:
    sample = workload.prompts.sample
    if sample is None or sample >= len(numbers):
        return numbers
    return [numbers[place] for place in subset(len(numbers), sample, seed)]


def _windows(workload: Workload, trace: Trace, kept: Sequence[int]) -> TraceWindows:
    first = trace.arrivals_ns[kept[0]]
    arrivals = [trace.arrivals_ns[number] - first for number in kept]
    block, load = workload.block, workload.load
    if load.kind == "replay" and block.seconds is not None:
        speeds = load.levels or (1.0,)
        return TraceWindows(arrivals, seconds=block.seconds * max(speeds), least=block.seconds * min(speeds))
    return TraceWindows(arrivals, requests=_per_round(workload))


def _per_round(workload: Workload) -> int:
    """Requests that a round uses, where that is known."""
    block, load = workload.block, workload.load
    if block.requests is not None:
        return block.requests
    if load.kind == "open" and load.levels and block.seconds is not None:
        return max(1, math.ceil(max(load.levels) * block.seconds))
    return _DEFAULT_STRIDE


def _reuse_note(workload: Workload) -> Sequence[str]:
    """Says where a nonce for every prompt keeps the cache from what the workload itself shares."""
    prompts = workload.prompts
    if workload.cache == "unique" and (prompts.shared_prefix or prompts.turns > 1 or prompts.source == "mooncake"):
        return ("cache: unique keeps the server from reusing what these prompts share; cache: declared allows it",)
    return ()
