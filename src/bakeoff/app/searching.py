"""What can be said of a searched load before it was searched."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..measure.pilot import SHARE
from ..measure.search import MOST_LEVELS, probe_requests
from ..model import Experiment, Workload


def with_levels(experiment: Experiment) -> Experiment:
    """With as many levels as a search may find, where it is still to be made: each is a cell with gates of its own."""
    levels = tuple(float(1 + number) for number in range(MOST_LEVELS))
    workloads = [
        w if w.load.levels else msgspec.structs.replace(w, load=msgspec.structs.replace(w.load, levels=levels))
        for w in experiment.workloads
    ]
    return msgspec.structs.replace(experiment, workloads=tuple(workloads))


def as_asked(experiment: Experiment) -> tuple[Workload, ...]:
    """The workloads before their loads were searched, as far as that can be told: without levels and block sizes."""
    return tuple(
        w
        if w.load.search is None
        else msgspec.structs.replace(w, load=msgspec.structs.replace(w.load, levels=()), block=type(w.block)())
        for w in experiment.workloads
    )


def search_lines(experiment: Experiment) -> Iterator[str]:
    """What is searched before the comparison, and what that may take."""
    for workload in experiment.workloads:
        search, load = workload.load.search, workload.load
        if search is None or load.levels:
            continue
        unit = "requests/s" if load.kind == "open" else "at a time"
        goal = "where more load gives no more throughput"
        if search.kind == "find":
            limits = ", ".join(f"{name} ≤ {limit:g} s" for name, limit in workload.slo.items())
            goal = f"the highest at which {search.attainment * 100:.4g} % of the requests meet {limits}"
        closed = load.kind == "closed"
        least = probe_requests(search, search.low, workload.block.requests, closed=closed, slo=workload.slo)
        yield f"search    {workload.name}, {search.low:g} to {search.high:g} {unit}: {goal}"
        yield f"          each variant alone, blocks of {least} requests or more; at most {SHARE:.0%} of each budget"


def search_warnings(experiment: Experiment, rounds: int) -> Iterator[str]:
    """One sentence a searched load whose levels will hardly fit what the search leaves of the budget.

    rounds: those that a first decision needs. Each round asks every variant at every level found, so that six levels
    make six times the blocks. Warm-up and starts come on top, so what is told is the least.
    """
    budget = experiment.budget
    remedy = "raise the budget, shorten the blocks, or search a narrower range"
    for workload in experiment.workloads:
        search, size = workload.load.search, workload.block
        if search is None or workload.load.levels:
            continue
        blocks = rounds * MOST_LEVELS * len(experiment.variants)
        what = (
            f"{workload.name}: up to {MOST_LEVELS} levels are found, so that the {rounds} rounds of a first decision "
            f"take {blocks} blocks"
        )
        requests = None if budget.requests is None else (1 - SHARE) * budget.requests
        if requests is not None and size.requests is not None and blocks * size.requests > requests:
            wanted = blocks * size.requests
            yield f"{what}, {wanted:,} requests in all, and the search leaves {requests:,.0f}: {remedy}"
            continue
        seconds = None if budget.seconds is None else (1 - SHARE) * budget.seconds
        if seconds is None:
            continue
        left = f"the search leaves {seconds / 60:.3g} min"
        if size.seconds is not None:
            if blocks * size.seconds > seconds:
                yield f"{what}, {blocks * size.seconds / 60:.3g} min in all, and {left}: {remedy}"
        elif workload.load.kind == "open" and size.requests is not None:
            rate = blocks * size.requests / seconds
            if rate > search.high:
                least = blocks * size.requests / search.high / 60
                yield f"{what}, {least:.3g} min in all, and {left}: {remedy}"
            elif rate > search.low:
                yield f"{what}, and {left}, too little for levels below {rate:.3g} requests/s: {remedy}"
