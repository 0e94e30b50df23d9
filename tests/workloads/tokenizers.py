"""Toy tokenizers that split in very different ways: what is exact under all of them is exact under a real one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_PIECE = re.compile(r"\s?\w+|[^\w\s]")
_COMMON = ("th", "he", "in", "er", "an", "re", "on", "the", "ing", " the", "ed", " a", " an", " w", " s", "ou", "ll")


class Toy:
    """Counts with a plain function, and remembers how often it was asked."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self.calls = 0

    async def count(self, texts: Sequence[str]) -> list[int]:
        self.calls += 1
        return [self._count(text) for text in texts]


def pieces(text: str) -> int:
    """As most vocabularies see plain English: a word with its space, or a punctuation mark."""
    return len(_PIECE.findall(text))


def words(text: str) -> int:
    return len(text.split())


def four_letters(text: str) -> int:
    return -(-len(text) // 4)


def letters(text: str) -> int:
    return len(text)


def merges(text: str) -> int:
    """Byte-pair-like: greedy longest match over a small vocabulary, across word borders."""
    place = count = 0
    while place < len(text):
        size = max((len(m) for m in _COMMON if text.startswith(m, place)), default=1)
        place += size
        count += 1
    return count


def two_words(text: str) -> int:
    """Merges across whole words."""
    return -(-pieces(text) // 2)


def pairs_of_letters(text: str) -> int:
    """Only ever even: no text has an odd number of tokens."""
    return 2 * len(text.split())


ALL: dict[str, Callable[[str], int]] = {
    "pieces": pieces,
    "words": words,
    "four letters": four_letters,
    "letters": letters,
    "merges": merges,
    "two words": two_words,
}
