"""Token counts that cannot be right. Nothing follows from them, and what is divided by them is worth nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ...model import Workload
from ..extract import Floats, Requests
from . import limits

#: How far the number of chunks may lie from a length that it shows: merged first chunks, an end-of-sequence token.
_SLACK_CHUNKS, _SLACK_SHARE = 2.0, 0.10


class Miscount(NamedTuple):
    """The impossible counts of one arm in one cell [tokens, means over those answers].

    kind: above the limit that was sent, or below the chunks that came. share: of the answers. seen: the stream shows
    the length that was asked for, so that only the count is wrong; else the limit may not have been kept either.
    """

    kind: Literal["above", "below"]
    share: float
    told: float
    asked: float
    seen: bool


def miscount(workload: Workload, blocks: Sequence[Requests]) -> Miscount | None:
    """None where the counts could be right, but for a stray answer."""
    told, asked, chunks, surplus = (np.concatenate(part) for part in zip(*(_answers(r) for r in blocks), strict=True))
    asked = np.where(np.isfinite(asked), asked, float(workload.output_tokens))
    answers = int(np.isfinite(told).sum())
    off = np.abs(told - asked) > limits.SHORTFALL.value * asked
    nearer = np.abs(chunks - asked) <= np.abs(chunks - told)  # a stream that bears the count out is a longer answer
    length = np.abs(chunks - asked) <= np.maximum(_SLACK_CHUNKS, _SLACK_SHARE * asked)
    above = (surplus == 1) & off & (told > asked) & (nearer | ~np.isfinite(chunks))
    # More chunks than tokens may also be repeated ones: only a stream of just the length that both were to write
    # contradicts the count.
    below = (surplus == -1) & off & (told < asked) & nearer & length & (workload.length == "fixed")
    for kind, wrong in (("above", above), ("below", below)):
        share = float(wrong.sum()) / answers if answers else 0.0
        if share > limits.MISCOUNTED.value:
            seen = bool(length[wrong].mean() >= 1 - limits.MISCOUNTED.value)
            means = float(told[wrong].mean()), float(asked[wrong].mean())
            return Miscount("above" if kind == "above" else "below", share, *means, seen)
    return None


def _answers(r: Requests) -> tuple[Floats, Floats, Floats, Floats]:
    """(tokens told, tokens asked for, chunks with content, 1 for surplus tokens and −1 for surplus chunks)."""
    count = r.ok.size
    chunks = [len(times) for times in r.columns["chunk_ns"]] if "chunk_ns" in r.columns else [np.nan] * count
    oddities = r.columns["oddities"] if "oddities" in r.columns else [None] * count
    surplus = [_surplus(found) for found in oddities]
    columns = np.where(r.ok, np.array([chunks, surplus], dtype=np.float64).reshape(2, count), np.nan)
    return r.numbers("output_tokens"), r.numbers("asked_output_tokens"), columns[0], columns[1]


def _surplus(oddities: object) -> float:
    """The client's own finding: usage is of all choices together, and where there are several it says nothing."""
    if not isinstance(oddities, Mapping):
        return 0.0
    return 1.0 if "surplus_tokens" in oddities else -1.0 if "surplus_chunks" in oddities else 0.0
