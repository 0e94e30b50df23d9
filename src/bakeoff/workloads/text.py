"""Readable filler text: an endless, seeded stream of plain sentences, cut anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator

from .words import ADJECTIVES, ADVERBS, NOUNS, PREPOSITIONS, VERBS

_CLASSES = {"N": NOUNS, "V": VERBS, "A": ADJECTIVES, "D": ADVERBS, "P": PREPOSITIONS}
# Capital letters stand for a word of their class; everything else stands for itself.
_SENTENCES = tuple(
    template.split()
    for template in (
        "the A N V the N .",
        "this N V the A N P the N .",
        "D the N V that N , and the A N V the N .",
        "the N P the N D V each A N .",
        "P the A N , the N V this N .",
        "that N was A and A , but the N V the A N .",
        "the N and the N V the N P that A N .",
        "when the N V the N , the A N was A .",
    )
)


class TextStream:
    """Pieces of text (a word with its leading space, or a punctuation mark) of one endless seeded story.

    In most vocabularies one piece is one token. `text(n)` of a larger n starts with that of a smaller one.
    """

    def __init__(self, seed: int) -> None:
        self._pieces: list[str] = []
        self._source = _pieces(seed)

    def text(self, count: int) -> str:
        """The first `count` pieces; starts with a space unless empty."""
        missing = count - len(self._pieces)
        self._pieces.extend(next(self._source) for _ in range(missing))
        return "".join(self._pieces[:count])


def _pieces(seed: int) -> Iterator[str]:
    # Only random(): Python promises the same stream for it in every version, and for no other draw.
    draw = random.Random(seed).random
    while True:
        for place, word in enumerate(_SENTENCES[int(draw() * len(_SENTENCES))]):
            if word in ".,":
                yield word
                continue
            choices = _CLASSES.get(word)
            chosen = word if choices is None else choices[int(draw() * len(choices))]
            yield " " + (chosen.capitalize() if place == 0 else chosen)
