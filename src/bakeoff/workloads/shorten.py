"""Cuts texts to a number of tokens, by any tokenizer, without knowing how it splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from .entries import Turn
from .tokens import Tokenizer, count_or_estimate

_STEPS = 12
_INTERPOLATED = 6  # then bisection
_CLOSE = 0.99  # of the limit: near enough for a text that is cut in any case


@dataclass
class Cut:
    """One text that is too long behind its prefix. Afterwards `keep` is how many of its characters may stay."""

    prefix: str
    text: str
    limit: int  # tokens of prefix and text together
    tokens: int  # of both, uncut
    keep: int = 0
    _kept_tokens: int = 0
    _too_many: int = -1  # fewest characters known to be too many

    def guess(self, step: int) -> int:
        """How many characters to try next."""
        high = len(self.text) if self._too_many < 0 else self._too_many
        share = 0.5
        if step < _INTERPOLATED and self.tokens > self._kept_tokens:
            share = (self.limit - self._kept_tokens) / (self.tokens - self._kept_tokens)
        return min(high - 1, max(self.keep + 1, self.keep + int(share * (high - self.keep))))

    def learn(self, size: int, tokens: int) -> None:
        """Takes in the count of that many characters."""
        if tokens <= self.limit:
            self.keep, self._kept_tokens = size, tokens
        else:
            self._too_many, self.tokens = size, tokens

    @property
    def done(self) -> bool:
        high = len(self.text) if self._too_many < 0 else self._too_many
        return high - self.keep <= 1 or self._kept_tokens >= _CLOSE * self.limit


async def shorten(cuts: Sequence[Cut], tokenizer: Tokenizer | None) -> None:
    """Finds for every text how much of it stays within its limit, and nearly reaches it. One batch a step."""
    for step in range(_STEPS):
        rest = [cut for cut in cuts if not cut.done]
        if not rest:
            return
        sizes = [cut.guess(step) for cut in rest]
        texts = [cut.prefix + cut.text[:size] for cut, size in zip(rest, sizes, strict=True)]
        for cut, size, tokens in zip(rest, sizes, await count_or_estimate(tokenizer, texts), strict=True):
            cut.learn(size, tokens)


def cut_turn(turn: Turn, keep: int) -> Turn | None:
    """The turn with the first `keep` characters of its text; None where its last message cannot give up so many."""
    text = turn.text[:keep].rstrip()
    if not text:
        return None
    if turn.messages is None:
        return msgspec.structs.replace(turn, text=text)
    surplus = len(turn.text) - len(text)
    messages: list[dict[str, Any]] = list(turn.messages)
    content = messages[-1].get("content")
    if not isinstance(content, str) or surplus >= len(content):
        return None
    messages[-1] = {**messages[-1], "content": content[: len(content) - surplus]}
    return msgspec.structs.replace(turn, text=text, messages=messages)
