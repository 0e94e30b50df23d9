"""Does the analysis fit how the run went? A fixed number of pairs that was not reached, machines that disagree."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...model import Caution
from ...stats.outcome import log_margin
from ...stats.strata import differ_p_value
from ...units import change
from . import limits
from .bench import Bench, count_of


def fixed_n(bench: Bench) -> Iterator[Caution]:
    """One look is valid for a number of pairs that nothing seen has influenced."""
    wanted, have = bench.experiment.budget.max_pairs, bench.grid.rounds()
    if bench.experiment.method == "fixed" and 0 < have < wanted:
        yield Caution(
            code="fixed-n-short",
            message=f"{count_of(have, 'pair')} of the {wanted} that were fixed beforehand: the intervals hold only if "
            "the run did not end because of what it showed",
            remedy="start again with a larger budget of time, requests or money"
            if bench.complete
            else "go on with --resume",
        )


def machines(bench: Bench) -> Iterator[Caution]:
    """Several machines: the mean over them is told; where they disagree, each should be read by itself."""
    if not bench.grid.strata:
        return
    count = len(set(bench.grid.strata.values()))
    yield Caution(
        code="machines",
        message=f"pairs of {count} machines (or environments) are merged: every one counts alike, and the interval is "
        "that of their mean",
        remedy="it holds for these machines; compare each run alone to see it by itself",
        severity="note",
    )
    for draft in bench.drafts:
        series, target = draft.series, draft.target
        if not target.gate or series.strata is None:
            continue
        means = [float(series.logs[series.strata == label].mean()) for label in np.unique(series.strata)]
        apart = max(means) - min(means)
        limit = limits.DRIFT_OF_MARGIN.value * log_margin(bench.experiment.margin_of(target.metric.name))
        if apart > limit and differ_p_value(series.logs, series.strata) < limits.MACHINES_P.value:
            told = ", ".join(change(math.exp(mean)) for mean in means)
            yield Caution(
                code="machines-differ",
                message=f"the machines disagree on {target.metric.label}: {told}",
                remedy="their mean describes none of them: compare each run alone",
                variant=target.candidate,
                cell=target.cell.key if target.cell is not None else None,
                metrics=(target.metric.name,),
            )
