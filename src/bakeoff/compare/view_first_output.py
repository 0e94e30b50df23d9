"""Where an arm thinks before it shows anything: its time to first token (TTFT) is then not that of its first output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..model import Comparison, Interval


class FirstOutput(NamedTuple):
    """TTFT and TTFO of one candidate in one cell, where an arm's two differ by more than the margin."""

    token: Comparison
    output: Comparison
    base_thinks: bool
    candidate_thinks: bool


def first_outputs(rows: Sequence[Comparison]) -> Iterator[FirstOutput]:
    """Every candidate and cell in which an arm shows its first output later than its first token says."""
    tokens = {_place(row): row for row in rows if (row.metric, row.statistic) == ("ttft_s", "p50")}
    for row in rows:
        token = tokens.get(_place(row))
        if (row.metric, row.statistic) == ("ttfo_s", "p50") and token is not None:
            thinks = [_later(token.base, row.base, row.margin), _later(token.value, row.value, row.margin)]
            if any(thinks):
                yield FirstOutput(token, row, *thinks)


def _place(row: Comparison) -> tuple[object, ...]:
    return row.candidate, row.workload, *sorted(row.load.items())


def _later(token: Interval, output: Interval, margin: float) -> bool:
    return bool(token.point and output.point and output.point > token.point * (1 + margin))
