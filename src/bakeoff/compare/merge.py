"""Several runs of one experiment as one: more pairs, and more machines as strata. Says first what differs between them.

Runs in one environment are pairs of one kind. Runs in other environments become strata, if the user wants them merged
at all: each counts alike in the mean, and what they differ by is no noise (see `stats.strata`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ..errors import TooFewData, UsageError
from ..model import BlockData, Environment, Experiment, Start

_STRUCT = msgspec.structs.replace
#: What an experiment asks; a difference here makes another question. The rest says only how much and in which order.
_QUESTION = ("gates", "margin", "margins", "method", "confidence", "start_every")
_CONDITIONS = ("resident", "warmup")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One run to merge. Order in time is that of the parts."""

    name: str
    experiment: Experiment
    environment: Environment
    blocks: Sequence[BlockData]
    starts: Sequence[Start]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One entry in which runs differ: its value in each, in the order of the runs (None: it has none)."""

    entry: str
    values: tuple[str | None, ...]

    def __str__(self) -> str:
        return f"{self.entry}: " + " | ".join("–" if v is None else _short(v) for v in self.values)


@dataclass(frozen=True, kw_only=True)
class Merged:
    """The runs as one. strata: round → environment; None where all have one."""

    experiment: Experiment
    blocks: tuple[BlockData, ...]
    starts: tuple[Start, ...]
    strata: Mapping[int, int] | None
    rounds: tuple[int, ...]  # of each part
    differences: tuple[Difference, ...] = ()


def merge(parts: Sequence[Part], *, anyway: bool = False) -> Merged:
    """Raises UsageError, with one line for each entry that differs, for runs of different questions; and for runs in
    different environments unless `anyway`."""
    if not parts:
        raise TooFewData("there is no run to merge", remedy="name one run or more")
    other = question_differences(parts)
    if other:
        raise UsageError(
            _listed("these runs ask different questions", other),
            remedy="compare them one by one; only runs of one experiment are merged",
        )
    apart = environment_differences(parts)
    if apart and not anyway:
        raise UsageError(
            _listed("these runs are not comparable: their environments differ", apart),
            remedy="compare them one by one, or merge them as separate machines with --merge-anyway",
        )
    return _joined(parts, apart)


def question_differences(parts: Sequence[Part]) -> tuple[Difference, ...]:
    """What makes the runs different experiments."""
    shared = set.intersection(*({w.name for w in part.experiment.workloads} for part in parts))
    return _differences([_question(part.experiment, shared) for part in parts])


def environment_differences(parts: Sequence[Part]) -> tuple[Difference, ...]:
    """Where and on what the runs were measured: machines, variants' settings and fingerprints, conditions."""
    return _differences([_surroundings(part) for part in parts])


def _question(experiment: Experiment, shared: set[str]) -> dict[str, str]:
    """What is asked, entry by entry; of workloads that not all runs have only their names."""
    plain = msgspec.to_builtins(experiment)
    found = {name: _text(plain[name]) for name in _QUESTION}
    found["variants"] = ", ".join(f"{v.name} ({v.engine})" for v in experiment.variants)
    found["workloads"] = ", ".join(w.name for w in experiment.workloads)
    for workload in plain["workloads"]:
        if workload["name"] not in shared:
            continue
        prompts = {key: value for key, value in workload["prompts"].items() if key not in ("path", "seed")}
        entries = {**workload, "prompts": prompts}
        found |= {f"workloads.{workload['name']}.{key}": _text(value) for key, value in entries.items()}
    return found


def _surroundings(part: Part) -> dict[str, str]:
    plain = msgspec.to_builtins(part.experiment)
    found = {f"machine.{key}": value for key, value in part.environment.machine.items()}
    for name, entries in part.environment.variants.items():
        found |= {f"{name}.{key}": value for key, value in entries.items()}
    for variant in part.experiment.variants:
        found |= {f"variants.{variant.name}.{key}": _text(value) for key, value in variant.settings.items()}
    for workload in part.experiment.workloads:
        found[f"workloads.{workload.name}.prompts.path"] = workload.prompts.path or ""
    return found | {name: _text(plain[name]) for name in _CONDITIONS}


def _differences(tables: Sequence[Mapping[str, str]]) -> tuple[Difference, ...]:
    keys = dict.fromkeys(key for table in tables for key in table)
    rows = [Difference(entry=key, values=tuple(table.get(key) for table in tables)) for key in keys]
    return tuple(row for row in rows if len(set(row.values)) > 1)


def _joined(parts: Sequence[Part], apart: tuple[Difference, ...]) -> Merged:
    blocks: list[BlockData] = []
    starts: list[Start] = []
    strata: dict[int, int] = {}
    rounds: list[int] = []
    kinds: dict[str, int] = {}
    next_round = next_group = next_start = 0
    for part in parts:
        whole = _whole_groups(part)
        stratum = kinds.setdefault(_text(_surroundings(part)), len(kinds))
        used = {data.block.round for data in whole}
        strata |= {number + next_round: stratum for number in used}
        rounds.append(len(used))
        for data in whole:
            block = data.block
            moved = _STRUCT(
                block,
                id=len(blocks),
                round=block.round + next_round,
                group=block.group + next_group,
                start_id=block.start_id + next_start if block.start_id >= 0 else block.start_id,
            )
            blocks.append(replace(data, block=moved))
        starts += [
            _STRUCT(s, id=s.id + next_start, round=s.round + next_round, group=s.group + next_group)
            for s in part.starts
        ]
        next_round = max((b.block.round for b in blocks), default=-1) + 1
        next_group = max([*(b.block.group for b in blocks), *(s.group for s in starts)], default=-1) + 1
        next_start = max([*(b.block.start_id for b in blocks), *(s.id for s in starts)], default=-1) + 1
    first = parts[0].experiment
    pairs = sum(part.experiment.budget.max_pairs for part in parts)
    return Merged(
        experiment=_STRUCT(first, budget=_STRUCT(first.budget, max_pairs=pairs)),
        blocks=tuple(blocks),
        starts=tuple(starts),
        strata=strata if len(kinds) > 1 else None,
        rounds=tuple(rounds),
        differences=apart,
    )


def _whole_groups(part: Part) -> list[BlockData]:
    """A run's blocks without those of a last start group that is not whole: another run's rounds cannot complete it."""
    blocks = sorted((data for data in part.blocks if data.block.kind != "probe"), key=lambda data: data.block.id)
    every = part.experiment.start_every
    if every < 2 or not blocks:
        return blocks
    members: dict[int, set[int]] = defaultdict(set)
    for data in blocks:
        members[data.block.group].add(data.block.round)
    last = max(members)
    return blocks if len(members[last]) >= every else [data for data in blocks if data.block.group != last]


def _listed(head: str, rows: Sequence[Difference]) -> str:
    return "\n".join([head, *(f"    {row}" for row in rows)])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _short(value: str, limit: int = 60) -> str:
    line = " ".join(value.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
