"""How much of a block's prompts a prefix cache could serve: what each has in common with an earlier one."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from ..extract import Requests
from . import limits


def shareable_tokens(block: Requests) -> float | None:
    """An upper bound of the block's prompt tokens that came before in the same block; None without its prompts.

    Each prompt is compared with those due before it; the longest common beginning counts, in characters, as that share
    of its tokens. A later turn may also reuse the answer before it. A few tokens a prompt (the head of a template, a
    partly filled cache block) are allowed on top. The earlier prompt with the longest common beginning is a neighbour
    in the order of the alphabet, so that two comparisons a prompt are enough.
    """
    prompts = block.texts("prompt")
    tokens = block.numbers("input_tokens")
    if not prompts or all(text is None for text in prompts):
        return None
    answers = block.texts("text")
    chats = np.asarray(block.columns.get("conversation", np.full(len(prompts), np.nan)), dtype=np.float64)
    order = np.argsort(block.columns["scheduled_ns"], kind="stable")
    earlier: list[str] = []
    answered: dict[float, int] = {}
    total = 0.0
    for i in order:
        text, size = prompts[i], float(tokens[i])
        if text is None or not np.isfinite(size):
            continue
        place = bisect_left(earlier, text)
        common = max((common_length(text, other) for other in earlier[max(0, place - 1) : place + 1]), default=0)
        common += answered.get(float(chats[i]), 0)
        total += min(size, size * common / len(text) + limits.CACHE_HEAD_TOKENS.value)
        insort(earlier, text)
        if np.isfinite(chats[i]):
            answered[float(chats[i])] = answered.get(float(chats[i]), 0) + len(answers[i] or "")
    return total


def common_length(a: str, b: str) -> int:
    """Length of the common beginning, by bisection over slices (which compare at the speed of memory)."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
