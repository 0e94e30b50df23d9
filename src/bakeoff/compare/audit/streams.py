"""What was odd in the answers without being a failure: it makes some number less certain, and must not stay unsaid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...model import Caution
from ..extract import Requests
from . import limits
from .bench import Bench, count_of, percent

# oddity of a record → what is said of so many answers
_WORDS = {
    "surplus_chunks": "have more chunks with content than the server counts tokens (chunks are repeated, or its count "
    "is wrong)",
    "untrue_counts": "carry counts in their chunks that contradict each other or the total",
    "surplus_tokens": "have more tokens than were asked for",
    "content_after_finish": "go on after their finish_reason",
    "events_after_end": "go on after the end of the stream (not read)",
    "other_choices": "hold further choices, whose chunks count as content",
    "no_finish_reason": "do not say why they end",
    "no_end": "end without the mark of the stream's end",
}
_RESENT = "resent"


class _Arm(NamedTuple):
    """All answers of one variant, and how many of them show each oddity."""

    answers: int
    odd: Counter[str]

    def share(self, name: str) -> float:
        return self.odd[name] / self.answers if self.answers else 0.0


def odd_streams(bench: Bench) -> Iterator[Caution]:
    """Oddities of the answers by arm: told of each, a warning where the arms differ."""
    arms = _arms(bench, succeeded=True)
    base = arms.get(bench.base, _Arm(0, Counter()))
    told: dict[str, set[str]] = {name: set() for name in arms}
    for (_, name), wrong in bench.miscounts.items():  # told as what they mean
        told[name].add("surplus_tokens" if wrong.kind == "above" else "surplus_chunks")
    said = {name: frozenset(odds) for name, odds in told.items()}
    for name, arm in arms.items():
        known = said[name] | said.get(bench.base, frozenset())
        apart = [odd for odd in _WORDS if name != bench.base and odd not in known and _differ(base, arm, odd)]
        if not apart:
            continue
        told[name].update(apart)
        told[bench.base].update(apart)
        parts = [
            f"{percent(arm.share(odd))} of the answers of {name} and {percent(base.share(odd))} of those of "
            f"{bench.base} {_WORDS[odd]}"
            for odd in apart
        ]
        yield Caution(
            code="odd-streams",
            message="; ".join(parts),
            remedy="see what differs between the servers, or what stands between them and the client: tokens and times "
            "of these answers are less certain in one arm",
            variant=name,
        )
    for name, arm in arms.items():
        rest = [odd for odd in _WORDS if arm.odd[odd] and odd not in told[name]]
        if rest:
            parts = [f"{arm.odd[odd]} of {count_of(arm.answers, 'answer')} {_WORDS[odd]}" for odd in rest]
            yield Caution(
                code="odd-streams",
                message=f"{name}: {'; '.join(parts)}",
                remedy="harmless for a comparison where every arm does it",
                severity="note",
                variant=name,
            )


def resent(bench: Bench) -> Iterator[Caution]:
    """Requests that left twice, because the server had closed their kept connection before it saw them."""
    arms = _arms(bench, succeeded=False)
    if not any(arm.odd[_RESENT] for arm in arms.values()):
        return
    counts = ", ".join(f"{arm.odd[_RESENT]} of {count_of(arm.answers, 'request')} of {n}" for n, arm in arms.items())
    base = arms.get(bench.base, _Arm(0, Counter()))
    uneven = any(_differ(base, arm, _RESENT) for name, arm in arms.items() if name != bench.base)
    yield Caution(
        code="resent",
        message=f"sent anew, because the server had closed an idle connection before it saw the request: {counts}; "
        "their latency counts from the first time",
        remedy="raise the server's keep-alive time",
        severity="warning" if uneven else "note",
    )


def _arms(bench: Bench, *, succeeded: bool) -> Mapping[str, _Arm]:
    blocks: dict[str, list[Requests]] = {}
    for _, name, measured in bench.arms():
        blocks.setdefault(name, []).extend(measured)
    return {name: _count(measured, succeeded=succeeded) for name, measured in blocks.items()}


def _count(blocks: Sequence[Requests], *, succeeded: bool) -> _Arm:
    odd: Counter[str] = Counter()
    answers = 0
    for r in blocks:
        counted = r.ok if succeeded else np.ones_like(r.ok)
        answers += int(counted.sum())
        if "oddities" not in r.columns:  # a run of an earlier version
            continue
        for found, counts in zip(r.columns["oddities"], counted, strict=True):
            if counts and isinstance(found, Mapping):
                odd.update(found.keys())
    return _Arm(answers, odd)


def _differ(base: _Arm, other: _Arm, name: str) -> bool:
    """Whether an oddity is of one arm: more than some points apart, and more than chance."""
    if abs(other.share(name) - base.share(name)) <= limits.ODD_STREAMS.value:
        return False
    from scipy import stats

    table = np.array([[arm.odd[name], arm.answers - arm.odd[name]] for arm in (base, other)])
    return float(stats.fisher_exact(table)[1]) < limits.ODD_P.value
