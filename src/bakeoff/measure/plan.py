"""Rounds and their order.

Variants follow each other in Williams order (E. J. Williams, 1949): over a full cycle every variant stands in
every position equally often and follows every other variant equally often, so that neither drift nor carry-over
of the predecessor (a warm page cache, a hot package) favours an arm. With two variants this is ABBA.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from ..model import BlockKind, Cell, Experiment


def williams_orders(count: int) -> list[tuple[int, ...]]:
    """Williams design for `count` treatments: `count` rows if even, 2·`count` if odd (rows and mirror rows)."""
    first = [0]
    low, high = 1, count - 1
    while len(first) < count:
        first.append(low)
        low += 1
        if len(first) < count:
            first.append(high)
            high -= 1
    rows = [tuple((item + shift) % count for item in first) for shift in range(count)]
    if count % 2:
        rows += [tuple(reversed(row)) for row in rows]
    return rows


class Step(NamedTuple):
    """One block to measure."""

    round: int
    position: int
    variant: str
    kind: BlockKind
    cell: Cell
    group: int

    @property
    def key(self) -> tuple[int, str, str, BlockKind]:
        """Identity within a run: what resuming compares."""
        return (self.round, self.variant, self.cell.key, self.kind)


class Plan:
    """The order of everything, a pure function of the experiment (so that a resumed run continues it)."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self._orders = williams_orders(len(experiment.variants))
        # Which row comes first is drawn, so that experiments do not all begin with the base.
        self._first = random.Random(experiment.seed).randrange(len(self._orders))

    @property
    def rounds_per_group(self) -> int:
        """Rounds that share one start per variant."""
        return self.experiment.start_every or self.experiment.budget.max_pairs

    @property
    def max_rounds(self) -> int:
        return self.experiment.budget.max_pairs

    def group_of(self, round_: int) -> int:
        return round_ // self.rounds_per_group

    def order(self, row: int) -> list[tuple[str, BlockKind]]:
        """The visits of one round (or of one start group): variants in Williams order, A/A visit included."""
        names = [variant.name for variant in self.experiment.variants]
        visits: list[tuple[str, BlockKind]] = [
            (names[i], "measure") for i in self._orders[(row + self._first) % len(self._orders)]
        ]
        if row < self.experiment.aa_pairs:
            # A drawn place: always last would turn drift into an A/A difference.
            place = random.Random(f"{self.experiment.seed}/aa/{row}").randrange(len(visits) + 1)
            visits.insert(place, (names[0], "aa"))
        return visits

    def cells(self, round_: int) -> list[Cell]:
        """The cells of a round in random order, the same for every variant of the round."""
        cells = list(self.experiment.cells())
        random.Random(f"{self.experiment.seed}/cells/{round_}").shuffle(cells)
        return cells

    def groups(self) -> Iterator[list[Step]]:
        """Start groups in order. Looks at the data happen only between groups (or rounds, if all are resident)."""
        size = self.rounds_per_group
        for group, first in enumerate(range(0, self.max_rounds, size)):
            rounds = range(first, min(first + size, self.max_rounds))
            if self.experiment.resident == "all":
                for round_ in rounds:
                    yield [
                        step for visit in enumerate(self.order(round_)) for step in self._visit(visit, [round_], group)
                    ]
            else:
                # One resident at a time: a variant runs all rounds of its start, then the next one starts.
                yield [step for visit in enumerate(self.order(group)) for step in self._visit(visit, rounds, group)]

    def _visit(self, visit: tuple[int, tuple[str, BlockKind]], rounds: range | list[int], group: int) -> Iterator[Step]:
        position, (variant, kind) = visit
        for round_ in rounds:
            for cell in self.cells(round_):
                yield Step(round_, position, variant, kind, cell, group)
