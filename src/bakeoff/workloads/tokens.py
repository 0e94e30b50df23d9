"""Counting tokens: by the server's own tokenizer where it has one, else a marked estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

Counted = Literal["tokenizer", "estimated"]

# Synthetic text is made of frequent words and separate punctuation marks: one token each in current vocabularies
# (all of our words are single tokens of Gemma 3's, for example).
TOKENS_PER_PIECE = 1.0
# Any other text: about four bytes of UTF-8 per token, the usual figure for English prose.
BYTES_PER_TOKEN = 4.0


class Tokenizer(Protocol):
    """A server's tokenizer."""

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens (begin of sequence, chat template)."""


def estimate_tokens(text: str) -> int:
    """A rough number of tokens (at least 1), for servers without a tokenizer."""
    return max(1, round(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN))


async def count_or_estimate(tokenizer: Tokenizer | None, texts: Sequence[str]) -> list[int]:
    """Tokens of each text: counted, or estimated where there is no tokenizer."""
    if tokenizer is None:
        return [estimate_tokens(text) for text in texts]
    return await tokenizer.count(texts)
