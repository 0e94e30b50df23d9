"""Did both arms do the same work? Tokens written, tokens read, how answers end, how tokens were counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from ...model import Caution
from ...stats.paired import t_p_value
from ...units import change
from ..extract import Bools, Floats, Requests
from ..pairs import TAIL_REQUESTS, joined
from . import limits
from .bench import LENGTH_METRICS, PREFILL_METRICS, Bench, bounded, percent


def output_tokens(bench: Bench) -> Iterator[Caution]:
    """Unequal outputs: invalid where the length was to be fixed, a fact where it is natural."""
    for cell, candidate, pairs in bench.pairings():
        a, b = joined(pairs, "output_tokens")
        if not a.size or a.mean() <= 0:
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
        if workload.length != "fixed" or not tokens.size:
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
        shares = {
            bench.base: float(np.median([p.base.itl_hidden for p in pairs])),
            candidate: float(np.median([p.other.itl_hidden for p in pairs])),
        }
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
    sizes = [r.completed for _, _, blocks in bench.arms() for r in blocks if r.completed]
    if not sizes:
        return
    pooled = {draft.target.statistic for draft in bench.drafts if draft.series.pooled is not None}
    missing = [name for name, least in TAIL_REQUESTS.items() if min(sizes) < least and name not in pooled]
    if missing:
        needs = " and ".join(f"{TAIL_REQUESTS[name]} for {name}" for name in missing)
        yield Caution(
            code="tails",
            message=f"{' and '.join(missing)} not reported: a block has {min(sizes)} requests, and needs {needs}",
            remedy="raise `block: {requests: …}` where tails matter",
            severity="note",
        )
