"""Did both arms do the same work? Tokens written, tokens read, how answers end, how tokens were counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from ...model import Caution, Cell
from ...stats.paired import t_p_value
from ...units import change
from ..extract import Bools, Floats, Requests
from ..pairs import TAIL_REQUESTS, joined
from . import limits
from .bench import COUNT_METRICS, LENGTH_METRICS, PREFILL_METRICS, Bench, bounded, count_of, percent
from .counts import Miscount


def miscounts(bench: Bench) -> Iterator[Caution]:
    """Counts that cannot be right: more tokens than the limit that was sent, or fewer than came."""
    for (cell, name), found in bench.miscounts.items():
        often = "" if found.share > _ALL else f", in {percent(found.share)} of its answers"
        came = " and as many chunks came" if found.kind == "below" else ""
        cause = "its count cannot be right" if found.seen else "its count is wrong, or it does not keep to the limit"
        yield Caution(
            code="miscount",
            message=f"{name} counts {found.told:.4g} tokens where {found.asked:.4g} were asked{came}{often}: {cause}",
            remedy="mend its `usage`, or set `stream_usage: false` so that outputs are tokenised again; "
            + ("TTFT and E2E need no count" if found.seen else "TTFT needs no count"),
            severity="invalid",
            variant=name,
            cell=cell.key,
            metrics=_counted(bench, cell, name, found),
        )


def _counted(bench: Bench, cell: Cell, variant: str, found: Miscount) -> tuple[str, ...]:
    """Metrics that a wrong count spoils. Where even the length of the answers is unknown, those that depend on it."""
    price, slo = bench.experiment.variant(variant).price, bench.experiment.workload(cell.workload).slo
    billed = ("cost_per_request",) if price is not None and price.output else ()
    limited = ("goodput_rps",) if slo and "tpot_s" in slo else ()
    return tuple(dict.fromkeys((*COUNT_METRICS, *billed, *limited, *(() if found.seen else LENGTH_METRICS))))


_ALL = 0.995


def output_tokens(bench: Bench) -> Iterator[Caution]:
    """Unequal outputs: invalid where the length was to be fixed, a fact where it is natural."""
    for cell, candidate, pairs in bench.pairings():
        a, b = joined(pairs, "output_tokens")
        if not a.size or a.mean() <= 0 or {(cell, bench.base), (cell, candidate)} & bench.miscounts.keys():
            continue
        ratio = float(b.mean() / a.mean())
        told = f"{candidate} writes {b.mean():.4g} tokens an answer, {bench.base} {a.mean():.4g}"
        if bench.experiment.workload(cell.workload).length == "fixed":
            margin = min(bench.experiment.margin_of(name) for name in LENGTH_METRICS)
            allowed = min(limits.OUTPUT_TOKENS.value, margin / 3)
            if abs(ratio - 1) > allowed:
                yield Caution(
                    code="output-tokens",
                    message=f"{told} on the same prompts, though the length was to be fixed",
                    remedy="make both write the full length (ignore_eos), or compare with `length: natural`",
                    severity="invalid",
                    variant=candidate,
                    cell=cell.key,
                    metrics=LENGTH_METRICS,
                )
        elif abs(ratio - 1) > limits.NATURAL_LENGTH.value and _differ(a, b):
            yield Caution(
                code="output-length",
                message=f"{told} ({change(ratio)}): E2E and throughput contain that difference",
                remedy="read TPOT for the speed per token, and E2E for the time of a whole answer",
                severity="note",
                variant=candidate,
                cell=cell.key,
            )


def _differ(a: Floats, b: Floats) -> bool:
    """Answers of one prompt in several rounds are alike, but a note may rest on this all the same."""
    good = (a > 0) & (b > 0)
    return t_p_value(np.log(b[good]) - np.log(a[good])) < limits.NATURAL_LENGTH_P.value


def shortfall(bench: Bench) -> Iterator[Caution]:
    """An arm that does not write the length that was asked for."""
    for cell, variant, blocks in bench.arms():
        workload = bench.experiment.workload(cell.workload)
        tokens = np.concatenate([r.numbers("output_tokens") for r in blocks])
        asked = np.concatenate([r.numbers("asked_output_tokens") for r in blocks])
        asked = np.where(np.isfinite(asked), asked, workload.output_tokens)[np.isfinite(tokens)]
        tokens = tokens[np.isfinite(tokens)]
        if workload.length != "fixed" or not tokens.size or (cell, variant) in bench.miscounts:
            continue
        if abs(float(tokens.mean() / asked.mean()) - 1) > limits.SHORTFALL.value:
            yield Caution(
                code="output-shortfall",
                message=f"{variant} writes {tokens.mean():.4g} tokens on average where {asked.mean():.4g} were "
                f"asked for",
                remedy="the server ends answers early (or counts otherwise): use ignore_eos where the engine has it",
                variant=variant,
                cell=cell.key,
            )


def input_tokens(bench: Bench) -> Iterator[Caution]:
    """The same prompts, counted by both servers."""
    for cell, candidate, pairs in bench.pairings():
        a, b = joined(pairs, "input_tokens")
        if not a.size or a.mean() <= 0 or abs(float(b.mean() / a.mean()) - 1) <= limits.INPUT_TOKENS.value:
            continue
        told = f"the same prompts are {a.mean():.4g} tokens to {bench.base} and {b.mean():.4g} to {candidate}"
        offsets = np.unique(b - a, return_counts=True)[1]
        if float(offsets.max()) / a.size >= limits.SAME_OFFSET.value:
            message = f"{told}: another chat template, system prompt or context limit"
            metrics: tuple[str, ...] = PREFILL_METRICS
        else:
            message = f"{told}: another tokenizer or truncation, so that token-based metrics are not comparable"
            metrics = (*PREFILL_METRICS, "tpot_s", "itl_s")
        yield Caution(
            code="input-tokens",
            message=message,
            remedy="give both the same template and context limit; across tokenizers compare whole tasks instead",
            severity="invalid",
            variant=candidate,
            cell=cell.key,
            metrics=metrics,
        )


def finish_reasons(bench: Bench) -> Iterator[Caution]:
    """How answers end, by arm."""
    from scipy import stats

    for cell, candidate, pairs in bench.pairings():
        arms = [
            Counter(
                text or "none" for r in requests for text, ok in zip(r.texts("finish_reason"), r.ok, strict=True) if ok
            )
            for requests in ([p.base for p in pairs], [p.other for p in pairs])
        ]
        totals = [sum(arm.values()) for arm in arms]
        if not all(totals):
            continue
        for reason in sorted(set(arms[0]) | set(arms[1])):
            counts = [arm[reason] for arm in arms]
            shares = [count / total for count, total in zip(counts, totals, strict=True)]
            table = np.array([[counts[0], totals[0] - counts[0]], [counts[1], totals[1] - counts[1]]])
            if (
                abs(shares[1] - shares[0]) > limits.FINISH_REASONS.value
                and float(stats.fisher_exact(table)[1]) < limits.FINISH_P.value
            ):
                yield Caution(
                    code="finish-reasons",
                    message=f"answers that end with {bounded(reason, 30)!r}: {percent(shares[0])} in {bench.base}, "
                    f"{percent(shares[1])} in {candidate}",
                    remedy="check stop tokens, chat template and the limit of output tokens in both",
                    variant=candidate,
                    cell=cell.key,
                )
                break  # two reasons that trade places are one fact


def token_source(bench: Bench) -> Iterator[Caution]:
    """Tokens not taken from the server's `usage`."""
    for variant in bench.experiment.variants:
        sources = Counter(
            source or "unknown"
            for _, name, blocks in bench.arms()
            if name == variant.name
            for r in blocks
            for source, ok in zip(r.texts("tokens_source"), r.ok, strict=True)
            if ok
        )
        total = sum(sources.values())
        for source, message in (
            ("estimated", "does not report its token counts: its outputs were tokenised again (an estimate)"),
            ("unknown", "does not report its token counts: TPOT and token throughput are undefined"),
        ):
            if sources[source]:
                share = "" if sources[source] == total else f" in {percent(sources[source] / total)} of the requests"
                yield Caution(
                    code=f"tokens-{source}",
                    message=f"{variant.name} {message}{share}",
                    remedy="let the server send `usage` (stream_options: {include_usage: true})",
                    severity="note",
                    variant=variant.name,
                )


def hidden_decode(bench: Bench) -> Iterator[Caution]:
    """Answers of several tokens that arrive in one network read: they have no TPOT, and those that have one differ."""
    for cell, variant, blocks in bench.arms():
        answers, hidden = (
            sum(int(part.sum()) for part in parts) for parts in zip(*map(_decoding, blocks), strict=True)
        )
        if not hidden:
            continue
        share = hidden / answers
        slo = bench.experiment.workload(cell.workload).slo
        yield Caution(
            code="tpot-hidden",
            message=f"{hidden} of {answers} answers of {variant} ({percent(share)}) came in one network read: they "
            "have no time per token, and TPOT is that of the others",
            remedy="let the server send every token when it is made (no buffering on the way), or decide by E2E",
            severity="invalid" if share > limits.TPOT_HIDDEN.value else "note",
            variant=variant,
            cell=cell.key,
            # An answer without TPOT cannot break a limit on it.
            metrics=("tpot_s", "itl_s", *(("goodput_rps",) if slo and "tpot_s" in slo else ())),
        )


def _decoding(requests: Requests) -> tuple[Bools, Bools]:
    return requests.decoding, requests.in_one_read


def hidden_gaps(bench: Bench) -> Iterator[Caution]:
    """Gaps between tokens that cannot be seen: several chunks in one network read, several tokens in one chunk."""
    gated = {
        (d.target.candidate, d.target.cell) for d in bench.drafts if d.target.gate and d.target.metric.name == "itl_s"
    }
    for cell, candidate, pairs in bench.pairings():
        if bench.experiment.workload(cell.workload).output_tokens <= 1:
            continue
        arms = {bench.base: [p.base for p in pairs], candidate: [p.other for p in pairs]}
        shares = {
            name: float(np.median([r.itl_hidden for r in blocks]))
            for name, blocks in arms.items()
            if (cell, name) not in bench.miscounts  # chunks that do not add up to a wrong count hide nothing
        }
        if not shares:
            continue
        worst = max(shares, key=lambda name: shares[name])
        if shares[worst] > limits.HIDDEN_GAPS.value:
            yield Caution(
                code="hidden-gaps",
                message=f"{percent(shares[worst])} of the gaps between tokens of {worst} cannot be seen (tokens arrive "
                "together): ITL is not reported",
                remedy="use TPOT, which does not need them",
                severity="invalid" if (candidate, cell) in gated else "note",
                variant=candidate,
                cell=cell.key,
                metrics=("itl_s",),
            )


def tails(bench: Bench) -> Iterator[Caution]:
    """Says once that blocks are too small for tail quantiles."""
    blocks = [r for _, _, arm in bench.arms() for r in arm if r.completed]
    if not blocks:
        return
    smallest = min(blocks, key=lambda r: (r.completed, -r.ok.size))
    pooled = {draft.target.statistic for draft in bench.drafts if draft.series.pooled is not None}
    missing = [name for name, least in TAIL_REQUESTS.items() if smallest.completed < least and name not in pooled]
    if missing:
        needs = " and ".join(f"{TAIL_REQUESTS[name]} for {name}" for name in missing)
        sent, failed = smallest.ok.size, smallest.ok.size - smallest.completed
        enough = min(r.ok.size for r in blocks) >= max(TAIL_REQUESTS[name] for name in missing)
        larger, mend = "raise `block: {requests: …}` where tails matter", "mend what makes requests fail"
        yield Caution(
            code="tails",
            message=f"{' and '.join(missing)} not reported: a block has {count_of(sent, 'request')}"
            f"{f', of which failures left {smallest.completed}' if failed else ''}, and needs {needs}",
            remedy=larger if not failed else mend if enough else f"{mend}, and {larger}",
            severity="note",
        )
