"""The pilot of a run with searched loads: probes every variant alone, then fixes the levels that all are compared at.

Probe blocks are saved like others, under the kind ``probe``, and are never compared: their levels were chosen by what
they showed, so they would flatter. What counts of them is the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from ..errors import UsageError
from ..model import BlockSize, Cell, Experiment, Search, Workload
from .budget import Ledger
from .plan import Step
from .search import Found, Hunt, Reading, find, find_grid, probe_requests, steady_requests, sweep, sweep_grid

#: Share of every budget that the pilot may use; the comparison is what the run is for.
SHARE = 1 / 3
#: Probes of a usual search: some doublings, then four halvings of one of them (or doublings until nothing is added).
PROBES = 6


class Prober(Protocol):
    """What measures for the pilot."""

    def typical_s(self, step: Step, workload: Workload) -> float:
        """Warms the server for this cell; the typical time of one request alone [s]."""

    def probe(self, step: Step, workload: Workload) -> Reading | None:
        """Measures one block; None where the time budget ended in it."""

    def note(self, text: str) -> None:
        """Tells the user."""


def searches(experiment: Experiment) -> bool:
    """Whether there are levels to be found before the comparison."""
    return any(_open(workload) for workload in experiment.workloads)


def _open(workload: Workload) -> bool:
    return workload.load.search is not None and not workload.load.levels


class Pilot:
    """Resolves an experiment. `known`: readings of an earlier, interrupted pilot, by (variant, cell)."""

    def __init__(
        self,
        experiment: Experiment,
        ledger: Ledger,
        prober: Prober,
        known: Mapping[tuple[str, str], Reading] | None = None,
    ) -> None:
        self._experiment = experiment
        self._ledger = ledger
        self._prober = prober
        self._known = known or {}
        self._left = 0  # searches still to come, the present one included

    def resolve(self) -> Experiment:
        """The experiment with all levels filled in.

        Raises EngineError where a variant answers nothing, and UsageError where the search's share of the budget ends
        before it knows of a single level: a comparison at a guessed load would answer another question.
        """
        wanted = [workload for workload in self._experiment.workloads if _open(workload)]
        self._left = len(wanted) * len(self._experiment.variants)
        found: dict[str, list[Found]] = {workload.name: [] for workload in wanted}
        for position, variant in enumerate(self._experiment.variants):
            for workload in wanted:
                found[workload.name].append(self._hunt(position, variant.name, workload))
                self._left -= 1
        resolved = [_resolved(w, found[w.name]) if w.name in found else w for w in self._experiment.workloads]
        return msgspec.structs.replace(self._experiment, workloads=tuple(resolved))

    def _hunt(self, position: int, variant: str, workload: Workload) -> Found:
        search = workload.load.search
        assert search is not None  # noqa: S101 - by `_open`
        allowance = _Allowance(self._ledger, self._left)
        hunt = self._begin(position, variant, workload, search)
        level, number = next(hunt), 0
        while True:
            step = self._step(number, position, variant, workload, level)
            number += 1
            try:
                level = hunt.send(self._reading(step, workload, allowance))
            except StopIteration as ended:
                found: Found = ended.value
                break
        if found.edge is None and found.ended == "budget":
            raise self._too_little(variant, _sized(workload, level), level, found)
        self._prober.note(_sentence(variant, workload, found))
        return found

    def _too_little(self, variant: str, sized: Workload, level: float, found: Found) -> UsageError:
        """The error for a share that was used before any level held; `level` is the one that had no room."""
        budget, probe = self._ledger.budget, _needs(self._ledger, variant, sized, level)
        searches = sum(_open(w) for w in self._experiment.workloads) * len(self._experiment.variants)
        wholes = {"seconds": budget.seconds, "requests": budget.requests}
        wholes["spent"] = budget.spend.amount if budget.spend else None
        # The budget that holds the smallest part of what the searches need.
        name, whole = min(
            ((name, whole) for name, whole in wholes.items() if whole is not None and probe[name] > 0),
            key=lambda item: item[1] / probe[item[0]],
            default=("seconds", budget.seconds or 0.0),
        )
        need, share = probe[name] * PROBES * searches, SHARE * whole
        told: dict[str, Callable[[float], str]] = {
            "seconds": lambda s: f"{s / 60:.3g} min" if s >= 90 else f"{s:.3g} s",
            "requests": lambda n: f"{n:.0f} requests",
            "spent": lambda amount: f"{amount:.2g} {budget.spend.currency if budget.spend else ''}",
        }
        key, say = {"seconds": "minutes", "requests": "requests", "spent": "spend"}[name], told[name]
        tried = f" after {len(found.tried)} levels that do not hold" if found.tried else " before a single level"
        return UsageError(
            f"the search of {sized.name} ends{tried}: it needs about {say(need)}, and its share of the budget is "
            f"{say(share)}",
            where=f"budget.{key}",
            remedy=f"raise budget.{key} to about {say(need / SHARE)}, shorten the blocks, or give the levels yourself",
        )

    def _begin(self, position: int, variant: str, workload: Workload, search: Search) -> Hunt:
        if workload.load.kind == "closed":
            return sweep(search, whole=True)
        # One request alone takes its time, and a server follows at least one after the other.
        first = self._step(0, position, variant, workload, search.low)
        near = 1 / max(self._prober.typical_s(first, workload), 1e-6)
        return find(search, near=near) if search.kind == "find" else sweep(search, whole=False, near=near)

    def _reading(self, step: Step, workload: Workload, allowance: _Allowance) -> Reading | None:
        if (known := self._known.get((step.variant, step.cell.key))) is not None:
            return known
        sized = _sized(workload, step.cell.level)
        if not allowance.holds(step.variant, sized, step.cell.level):
            self._prober.note(
                f"{step.variant}: the search of {workload.name} ends early, its share of the budget is used"
            )
            return None
        return self._prober.probe(step, sized)

    def _step(self, number: int, position: int, variant: str, workload: Workload, level: float) -> Step:
        """Probes stand in rounds beyond those of the comparison, whose prompts and schedules stay unseen."""
        cell = Cell(workload=workload.name, kind=workload.load.kind, level=level)
        return Step(self._experiment.budget.max_pairs + number, position, variant, "probe", cell, 0)


class _Allowance:
    """What one search may use: an equal part of what is left of the pilot's share of each budget."""

    def __init__(self, ledger: Ledger, searches_left: int) -> None:
        self._ledger = ledger
        budget, part = ledger.budget, max(1, searches_left)
        self._limits = {
            "seconds": _until(budget.seconds, ledger.elapsed_s, part),
            "requests": _until(budget.requests, ledger.requests, part),
            "spent": _until(budget.spend.amount if budget.spend else None, ledger.spent, part),
        }

    def holds(self, variant: str, workload: Workload, level: float) -> bool:
        """Whether one more probe fits: by its schedule, its requests and its price at full length."""
        needs = _needs(self._ledger, variant, workload, level)
        used = {
            "seconds": self._ledger.elapsed_s,
            "requests": self._ledger.requests,
            "spent": self._ledger.spent,
        }
        return all((limit := self._limits[name]) is None or used[name] + needs[name] <= limit for name in needs)


def _needs(ledger: Ledger, variant: str, workload: Workload, level: float) -> dict[str, float]:
    """What one probe takes: seconds by its schedule (closed loops: unknown, 0), requests, money at full length."""
    block = workload.block
    count = block.requests or round((block.seconds or 0.0) * max(level, 1.0))
    tokens = workload.prompts.input_tokens or 1000  # unknown prompt lengths: a generous guess
    return {
        "seconds": block.seconds or (count / level if workload.load.kind == "open" else 0.0),
        "requests": float(count),
        "spent": count * ledger.prices[variant].of(tokens, workload.output_tokens),
    }


def _until(budget: float | None, used: float, part: int) -> float | None:
    """How far one of `part` searches may go in a budget of which so much is used."""
    return None if budget is None else used + max(0.0, SHARE * budget - used) / part


def _sized(workload: Workload, level: float) -> Workload:
    """The workload with the block size of a probe."""
    search, block = workload.load.search, workload.block
    closed = workload.load.kind == "closed"
    if search is None or (closed and block.seconds is not None):
        return workload
    asked = block.requests if block.seconds is None else round(block.seconds * level)
    requests = probe_requests(search, level, asked, closed=closed, slo=workload.slo)
    return msgspec.structs.replace(workload, block=BlockSize(requests=requests))


def _resolved(workload: Workload, found: Sequence[Found]) -> Workload:
    """With its levels; a block by number gets as many requests as keep the highest concurrency busy."""
    load, block, search = workload.load, workload.block, workload.load.search
    assert search is not None  # noqa: S101 - by `_open`
    grid = find_grid(search, [one.edge for one in found]) if search.kind == "find" else sweep_grid(search, found)
    if load.kind == "closed" and block.requests is not None:
        block = BlockSize(requests=max(block.requests, steady_requests(grid[-1])))
    return msgspec.structs.replace(workload, load=msgspec.structs.replace(load, levels=grid), block=block)


def _sentence(variant: str, workload: Workload, found: Found) -> str:
    what = "requests/s" if workload.load.kind == "open" else "at a time"
    search = workload.load.search
    tried = f"({len(found.tried)} levels probed)"
    if found.edge is None:
        return f"{variant}: no level of {workload.name} holds {tried}"
    finding = search is not None and search.kind == "find"
    if found.ended == "upper end":
        how = "holds even at" if finding else "is still rising at"
        return (
            f"{variant}: {workload.name} {how} {found.edge:g} {what}, the upper end of the search; raise `high` {tried}"
        )
    if found.ended == "budget":
        how = "holds up to about" if finding else "was probed up to"
        level = found.edge if finding else found.tried[-1]
        return f"{variant}: {workload.name} {how} {level:g} {what}, where the budget ended the search {tried}"
    if finding:
        return f"{variant}: {workload.name} holds up to about {found.edge:g} {what} {tried}"
    return f"{variant}: {workload.name} gains nothing beyond about {found.edge:g} {what} {tried}"
