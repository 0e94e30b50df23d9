"""The mock's tokenizer and its texts.

The tokenizer is deliberately simple: a token is a maximal run of letters, digits and underscores, or one other
character that is not white space. So ``Hello, world!`` has 4 tokens. There is no BOS and no chat template.
Generated texts are made of such tokens, one piece each: counting a text again gives the number in `usage`.
"""

from __future__ import annotations

import math
import random
import re
import zlib
from collections.abc import Sequence
from hashlib import blake2b

_TOKEN = re.compile(r"\w+|[^\w\s]")
_VOCABULARY = 32_000

_PLAIN_WORDS = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which "
    "one we there all her were when can more if no out so what up into than them some could time these two may then "
    "other its new over such man any only about after first our made most where through before good water long work "
    "year people way day world life part number great house place small large early light story river market system "
    "answer question reason measure machine letter garden window winter summer music paper glass stone bridge road"
)
_WORDS = _PLAIN_WORDS.split()
_PUNCTUATION = (".", ",")
# About one token in nine is a mark, as in English prose.
_DECK: tuple[str, ...] = (*_WORDS, *(("." if i % 2 else ",") for i in range(len(_WORDS) // 8)))
_NATURAL_SIGMA = 0.4  # log scale: answers of one prompt set differ by roughly this much


def tokenize(text: str) -> list[int]:
    """Token ids of a text; the same token always has the same id (32,000 possible ids)."""
    return [zlib.crc32(token.encode()) % _VOCABULARY for token in _TOKEN.findall(text)]


def count_tokens(text: str) -> int:
    """Number of tokens of a text."""
    return len(_TOKEN.findall(text))


def split_tokens(text: str) -> list[str]:
    """The tokens of a text, as text."""
    return _TOKEN.findall(text)


def answer_source(seed: int, prompt: str | Sequence[int], nonce_tokens: int) -> random.Random:
    """The random source of an answer: the same for the same seed and prompt (less its leading nonce)."""
    if isinstance(prompt, str):
        if nonce_tokens:
            starts = [match.end() for _, match in zip(range(nonce_tokens), _TOKEN.finditer(prompt), strict=False)]
            prompt = prompt[starts[-1] :] if starts else prompt
        data = prompt.encode("utf-8", "surrogatepass")
    else:
        data = b",".join(b"%d" % token for token in prompt[nonce_tokens:])
    return random.Random(int.from_bytes(blake2b(data, digest_size=8, key=b"%d" % seed).digest(), "big"))


def natural_length(source: random.Random, mean: float) -> int:
    """An answer's length [tokens], lognormal with the given mean; at least 1."""
    return max(1, round(mean * math.exp(_NATURAL_SIGMA * source.gauss(0, 1) - _NATURAL_SIGMA**2 / 2)))


class Pieces:
    """Plausible sentences, one token a piece, made as they are needed: however they are taken, the text is the same."""

    __slots__ = ("_after_mark", "_index", "_sentence_starts", "_source")

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._index = 0
        self._sentence_starts = self._after_mark = True

    def __call__(self, count: int) -> list[str]:
        """The next `count` pieces."""
        texts: list[str] = []
        sentence_starts, after_mark = self._sentence_starts, self._after_mark
        for index, piece in enumerate(self._source.choices(_DECK, k=count), self._index):
            if piece in _PUNCTUATION and not after_mark:
                texts.append(piece)
                sentence_starts, after_mark = piece == ".", True
                continue
            word = _WORDS[index % len(_WORDS)] if piece in _PUNCTUATION else piece
            word = word.capitalize() if sentence_starts else word
            texts.append(f" {word}" if index else word)
            sentence_starts = after_mark = False
        self._sentence_starts, self._after_mark = sentence_starts, after_mark
        self._index += count
        return texts


def pieces(source: random.Random, count: int) -> list[str]:
    """`count` pieces of text, one token each, that join to plausible sentences."""
    return Pieces(source)(count)


def accented(source: random.Random, count: int) -> list[str]:
    """`count` words that hold characters of two, three and four bytes in UTF-8."""
    return [f" {word}ß中𝔘" for word in source.choices(_WORDS, k=count)]


def gibberish(source: random.Random, count: int) -> list[str]:
    """`count` pieces of unrelated characters from many scripts: what a broken model emits."""
    ranges = ((0x0400, 0x04FF), (0x4E00, 0x9FFF), (0x0900, 0x0950), (0x2200, 0x22FF), (0xAC00, 0xD7A3))
    return ["".join(chr(source.randint(*source.choice(ranges))) for _ in range(3)) for _ in range(count)]
