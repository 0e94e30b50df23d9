"""The fairness audit: is this a comparison at all? Each check is a small function that yields cautions.

A caution of severity `invalid` turns the rows that it touches invalid, with the remedy; findings about one arm
(errors, saturation, longer answers) are told and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from ...model import Caution
from . import cache, client, design, failures, lengths, limits, machine, memory, series, server, steady, streams, tokens
from .bench import Bench, percent
from .outputs import OutputCheck
from .visible import unseen_output

__all__ = ["Bench", "audit"]

CHECKS: tuple[Callable[[Bench], Iterator[Caution]], ...] = (
    failures.errors,
    failures.survivorship,
    tokens.miscounts,
    tokens.output_tokens,
    tokens.shortfall,
    tokens.input_tokens,
    tokens.finish_reasons,
    streams.odd_streams,
    unseen_output,
    cache.cache_hits,
    cache.contamination,
    cache.cache_use,
    server.foreign_traffic,
    server.restarts,
    client.client_bound,
    client.late_reads,
    client.send_delay,
    machine.contention,
    machine.busy_starts,
    machine.repeats,
    series.same_against_same,
    series.stationarity,
    steady.pair_shifts,
    steady.outlier_pairs,
    series.starts,
    design.fixed_n,
    design.machines,
    failures.saturation,
    server.kv_cache,
    server.queueing,
    server.partly_counted,
    tokens.hidden_decode,
    tokens.hidden_gaps,
    tokens.token_source,
    machine.warm_up,
    steady.block_warm_up,
    steady.level_shifts,
    memory.memory_growth,
    memory.page_cache,
    streams.resent,
    failures.server_notes,
    failures.prompt_notes,
    series.too_few,
    tokens.tails,
    lengths.lengths,
)


def audit(bench: Bench, outputs: Mapping[str, OutputCheck]) -> tuple[Caution, ...]:
    """All cautions of a run, invalidities first; those that differ in their metrics alone are joined."""
    found = [caution for check in CHECKS for caution in check(bench)]
    found += [caution for name, check in outputs.items() for caution in _outputs(bench.base, name, check)]
    joined: dict[Caution, tuple[str, ...]] = {}
    for caution in found:
        key = msgspec.structs.replace(caution, metrics=())
        known = joined.get(key)
        if known is None:
            joined[key] = caution.metrics
        else:  # no metrics means all of them
            joined[key] = tuple(dict.fromkeys((*known, *caution.metrics))) if known and caution.metrics else ()
    order = {"invalid": 0, "warning": 1, "note": 2}
    cautions = [msgspec.structs.replace(key, metrics=metrics) for key, metrics in joined.items()]
    return tuple(sorted(cautions, key=lambda c: order[c.severity]))


def _outputs(base: str, candidate: str, check: OutputCheck) -> Iterator[Caution]:
    if check.garbage is not None:
        yield Caution(
            code="garbage-output",
            message=check.garbage,
            remedy="look at the outputs in the report; do not ship this before they are right",
            variant=candidate,
        )
    elif check.compared and check.base_degenerate > limits.BASE_DEGENERATE.value * check.compared:
        yield Caution(
            code="degenerate-outputs",
            message=f"{percent(check.base_degenerate / check.compared)} of the outputs of {base} and "
            f"{percent(check.degenerate / check.compared)} of {candidate} are degenerate on these prompts; quality "
            "cannot be judged from them",
            remedy="use real prompts (`source: jsonl`) to see whether outputs differ",
            severity="note",
            variant=candidate,
        )
