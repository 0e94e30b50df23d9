"""Answers of which nothing can be seen: reasoning alone, up to the limit of tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...model import Caution
from ..extract import Requests
from . import limits
from .bench import Bench, percent


def unseen_output(bench: Bench) -> Iterator[Caution]:
    """Arms whose answers hold reasoning and nothing else: they have no TTFO, and their TTFT is that of a thought."""
    for cell, name, blocks in bench.arms():
        share = _unseen(blocks)
        if share <= limits.UNSEEN_OUTPUT.value:
            continue
        yield Caution(
            code="unseen-output",
            message=f"{percent(share)} of the answers of {name} are reasoning alone: nothing else came within their "
            "limit of tokens, and what users wait for was not measured",
            remedy="raise `output_tokens`, or turn reasoning off, then look at TTFO",
            severity="invalid",
            variant=name,
            cell=cell.key,
            metrics=("ttfo_s",),
        )


def _unseen(blocks: list[Requests]) -> float:
    """Share of the answers with content that have no first output beside reasoning."""
    answered = unseen = 0
    for requests in blocks:
        with_content = np.isfinite(requests.values["ttft_s"])
        answered += int(with_content.sum())
        unseen += int((with_content & ~np.isfinite(requests.values["ttfo_s"])).sum())
    return unseen / answered if answered else 0.0
