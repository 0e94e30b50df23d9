"""Is the traffic what was asked for? Lengths of prompts and answers, asked against got, by workload and arm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...model import Caution, Workload
from ..extract import Floats, Requests
from . import limits
from .bench import Bench, percent

#: How a note of a block says what happened to the prompts of its round alone.
PER_ROUND = " of this round's prompts: "
_SKIPPED = re.compile(rf"longer than \d+ tokens and skipped,{PER_ROUND}(\d+)")
_QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """One kind of length of one arm, over the successful requests that have both numbers [tokens]."""

    asked: Floats
    got: Floats
    cut: int = 0  # prompts of them that the workload's own limit cut
    offset: float = 0.0  # tokens that (nearly) every prompt has on top: a chat template

    @property
    def beyond(self) -> float:
        """Share of requests whose length is off by more than 2 % (a template, and own cuts, aside)."""
        if not self.asked.size:
            return 0.0
        off = np.abs(self.got - self.offset - self.asked) > np.maximum(limits.LENGTHS_OFF.value * self.asked, 1.0)
        return max(0.0, float(off.sum() - self.cut) / self.asked.size)


def lengths(bench: Bench) -> Iterator[Caution]:
    """A note with the quantiles where lengths vary; a warning where an arm got others than were asked for."""
    for workload in bench.experiment.workloads:
        arms = dict(_by_arm(bench, workload))
        for name, (prompts, answers) in arms.items():
            yield from _differ(workload, name, "prompts", prompts)
            if workload.length == "fixed" and not _falls_short(answers):
                yield from _differ(workload, name, "answers", answers)
        told = [_quantiles(arms, place, what) for place, what in enumerate(("prompts", "answers"))]
        told += _changed(bench, workload, arms)
        if any(told):
            yield Caution(
                code="lengths",
                message=f"{workload.name}, tokens at p50/p90/p99: {'; '.join(filter(None, told))}",
                remedy="nothing to do: judge by it how well this traffic stands for yours",
                severity="note",
            )


def _by_arm(bench: Bench, workload: Workload) -> Iterator[tuple[str, tuple[Lengths, Lengths]]]:
    for variant in bench.experiment.variants:
        blocks = [
            block
            for cell, name, found in bench.arms()
            if name == variant.name and cell.workload == workload.name
            for block in found
        ]
        if blocks:
            counted = not any(c.workload == workload.name and n == variant.name for c, n in bench.miscounts)
            yield variant.name, (_prompts(workload, blocks), _lengths(blocks if counted else [], "output_tokens"))


def _lengths(blocks: Sequence[Requests], column: str) -> Lengths:
    asked = np.concatenate([np.zeros(0), *(r.numbers(f"asked_{column}") for r in blocks)])
    got = np.concatenate([np.zeros(0), *(r.numbers(column) for r in blocks)])
    both = np.isfinite(asked) & np.isfinite(got)
    return Lengths(asked=asked[both], got=got[both])


def _prompts(workload: Workload, blocks: Sequence[Requests]) -> Lengths:
    found = _lengths(blocks, "input_tokens")
    most = workload.prompts.max_input_tokens
    cut = 0 if most is None else int((found.asked > most).sum())
    whole = found.got - found.asked if most is None else (found.got - found.asked)[found.asked <= most]
    offset = 0.0
    if whole.size:
        values, counts = np.unique(whole, return_counts=True)
        if counts.max() >= limits.SAME_OFFSET.value * whole.size and values[counts.argmax()] > 0:
            offset = float(values[counts.argmax()])
    return Lengths(asked=found.asked, got=found.got, cut=cut, offset=offset)


def _falls_short(answers: Lengths) -> bool:
    """Whether the mean is off: `output-shortfall` says so already."""
    return bool(answers.asked.size) and abs(float(answers.got.sum() / answers.asked.sum()) - 1) > limits.SHORTFALL.value


def _differ(workload: Workload, variant: str, what: str, found: Lengths) -> Iterator[Caution]:
    if found.beyond <= limits.LENGTHS_SHARE.value:
        return
    yield Caution(
        code="lengths-differ",
        message=f"{percent(found.beyond)} of the {what} of {variant} in {workload.name} are not as long as asked for "
        f"(on average {found.got.mean():.4g} tokens, asked {found.asked.mean():.4g})",
        remedy=_REMEDIES[what],
        variant=variant,
    )


_REMEDIES = {
    "prompts": "look for a context limit, truncation, or another tokenizer at the server; the traffic is not the one "
    "that was described",
    "answers": "let the server write the full length (ignore_eos), or say `length: natural`",
}


def _quantiles(arms: dict[str, tuple[Lengths, Lengths]], place: int, what: str) -> str:
    """``prompts asked 1469/5011/7436, base 1470/5012/7437``; empty where one length says it all."""
    known = {name: found[place] for name, found in arms.items() if found[place].asked.size}
    if not known or all(np.ptp(found.asked) == 0 and found.beyond == 0 for found in known.values()):
        return ""
    asked = next(iter(known.values())).asked
    parts = [f"{what} asked {_triple(asked)}", *(f"{name} {_triple(found.got)}" for name, found in known.items())]
    offsets = {found.offset for found in known.values() if found.offset}
    if len(offsets) == 1:
        parts.append(f"of them {offsets.pop():.0f} a template's")
    return ", ".join(parts)


def _triple(values: Floats) -> str:
    return "/".join(f"{value:.0f}" for value in np.quantile(values, _QUANTILES))


def _changed(bench: Bench, workload: Workload, arms: dict[str, tuple[Lengths, Lengths]]) -> list[str]:
    """What was cut and skipped."""
    told = []
    for prompts, _ in list(arms.values())[:1]:
        if prompts.cut:
            told.append(f"{percent(prompts.cut / prompts.asked.size)} of the prompts cut by max_input_tokens")
    skipped: dict[int, int] = {}
    for cell, _, blocks in bench.arms():
        for block in blocks if cell.workload == workload.name else ():
            for note in block.block.notes:
                match = _SKIPPED.fullmatch(note)
                if match:
                    skipped[block.block.round] = max(skipped.get(block.block.round, 0), int(match[1]))
    if skipped:
        told.append(f"{sum(skipped.values())} prompts skipped, in {len(skipped)} rounds")
    return told
