"""Noise of a pair in earlier runs on this machine: of which run, and of which of its cells."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from .. import __version__
from ..compare.pairs import Grid
from ..compare.targets import Target
from ..errors import BakeoffError
from ..measure.environment import machine_fingerprint
from ..metrics import METRICS
from ..model import LOAD_NAMES, Cell, Experiment, Variant, Workload
from ..runs import RunFolder
from ..stats import power

_LOOK_BACK = 30  # newest runs whose heads are read
_READ = 8  # most runs whose blocks are read: a plan is to take seconds
_LEAST_PAIRS = 4  # of an earlier run, to take noise from
# What makes two machines (or two days of one) different for timing. Versions of Python or of Bakeoff do not.
_MACHINE = ("os", "machine", "cpu", "cores usable", "governor")

_Key = tuple[str, str, str]  # Cell.key, metric, statistic


class EarlierRuns:
    """The newest runs under a folder, of this machine and of the same servers as the experiment's."""

    def __init__(self, experiment: Experiment, root: Path) -> None:
        self._experiment = experiment
        self._folders = list(_comparable(experiment, root))
        self._known: dict[Path, Mapping[_Key, float]] = {}

    def noise(self, target: Target) -> tuple[float, str] | None:
        """(standard deviation of a pair's log ratio, where it was taken from): of the newest run that measured this
        cell with the same settings of every variant, else with others, else of the newest run of another cell."""
        what = (target.metric.name, target.statistic)
        if target.cell is None:
            return None  # blocks do not tell what is measured once a start
        for alike in (True, False):
            for folder in self._folders:
                asked = folder.info.experiment
                if (_settings(asked) == _settings(self._experiment)) is not alike:
                    continue
                for key in self._same_cells(asked, target.cell):
                    sd = self._read(folder).get((key, *what))
                    if sd is not None:
                        return sd, f"{folder.info.id}, this cell{'' if alike else ' with other settings'}"
        for folder in self._folders:
            others = sorted(sd for (_, *rest), sd in self._read(folder).items() if tuple(rest) == what)
            if others:
                return others[len(others) // 2], f"{folder.info.id}, another cell"
        return None

    def _same_cells(self, asked: Experiment, cell: Cell) -> Iterator[str]:
        """Cells of the same traffic at the same level, whatever they are called."""
        wanted = _traffic(self._experiment.workload(cell.workload))
        for other in asked.cells():
            at_it = (other.kind, other.level) == (cell.kind, cell.level)
            if at_it and _traffic(asked.workload(other.workload)) == wanted:
                yield other.key

    def _read(self, folder: RunFolder) -> Mapping[_Key, float]:
        if folder.path not in self._known:
            if len(self._known) >= _READ:
                return {}
            try:
                self._known[folder.path] = _measured(folder)
            except BakeoffError:
                self._known[folder.path] = {}
        return self._known[folder.path]


def _comparable(experiment: Experiment, root: Path) -> Iterator[RunFolder]:
    """Runs of this machine with these servers, newest first."""
    heads = sorted(root.glob("*/run.json"), reverse=True)[:_LOOK_BACK] if root.is_dir() else []
    here = _same_machine(machine_fingerprint(__version__)) if heads else {}
    servers = {_server(variant) for variant in experiment.variants}
    for head in heads:
        try:
            folder = RunFolder.open(head.parent)
        except BakeoffError:
            continue
        at_it = {_server(variant) for variant in folder.info.experiment.variants}
        if at_it == servers and _same_machine(folder.info.environment.machine) == here:
            yield folder


def _same_machine(fingerprint: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in fingerprint.items() if key in _MACHINE or key.startswith("gpu ")}


def _server(variant: Variant) -> tuple[str, ...]:
    """What answers, as far as the settings tell: an engine alone says it only where the engine is the server."""
    settings = variant.settings
    model = str(settings.get("model"))
    if variant.engine == "openai":
        return variant.engine, _address(str(settings.get("url"))), model
    if variant.engine == "command":
        return variant.engine, _program(settings.get("command")), model
    return (variant.engine,)


def _address(url: str) -> str:
    """Host and port; of a socket its path."""
    try:
        parts = urlsplit(url)
        if parts.hostname is None:
            return url
        return f"{parts.hostname}:{parts.port or {'https': 443}.get(parts.scheme, 80)}"
    except ValueError:
        return url


def _program(command: Any) -> str:
    """The program of a command line, or the module that Python runs."""
    try:
        words = [str(word) for word in command] if isinstance(command, list) else shlex.split(str(command))
    except ValueError:
        return str(command)
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    return Path(words[0]).name if words else ""


def _settings(experiment: Experiment) -> list[str]:
    """The settings of the base, then of the candidates in any order; names do not count."""
    base, *others = (json.dumps([v.engine, v.settings], sort_keys=True, default=str) for v in experiment.variants)
    return [base, *sorted(others)]


def _traffic(workload: Workload) -> bytes:
    """What of a workload decides its noise: all but its name and its load levels."""
    load = msgspec.structs.replace(workload.load, levels=())
    return msgspec.json.encode(msgspec.structs.replace(workload, name="", load=load))


def _measured(folder: RunFolder) -> Mapping[_Key, float]:
    """Of every row that is sound: not of invalid ones, and not of cells in which requests failed.

    A run without result.json was not judged, so that nothing of it is known to be sound.
    """
    asked = folder.info.experiment
    blocks = folder.blocks(skip_broken=True)
    grid = Grid(asked, blocks)
    if grid.rounds() < _LEAST_PAIRS:
        return {}
    invalid = {
        (row.candidate, row.workload, tuple(row.load.items()), row.metric, row.statistic)
        for row in folder.read_result().comparisons
        if row.outcome == "invalid"
    }
    failed = {data.block.cell for data in blocks if data.block.errors}
    found: dict[_Key, float] = {}
    base = asked.base.name
    for cell in asked.cells():
        if cell.key in failed:
            continue
        load = ((LOAD_NAMES[cell.kind], cell.level),)
        for metric in METRICS.values():
            for statistic in metric.statistics if metric.scope != "start" else ():
                what = (metric.name, statistic)
                sound = [c.name for c in asked.candidates if (c.name, cell.workload, load, *what) not in invalid]
                series = [grid.series(base, name, cell.key, metric, statistic) for name in sound]
                sd, freedom = power.pooled_sd([s.logs for s in series])
                if freedom >= _LEAST_PAIRS - 1 and sd > 0:
                    found[(cell.key, *what)] = sd
    return found
