"""The nonce in front of a prompt: it makes every prompt miss the prefix cache, at the same cost for every arm.

A server's prefix cache can only help from the first token on, so the difference has to come first. Six words out of
256 are 48 bits: among a million prompts two are alike with a chance of 0.2 %.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from .words import NONCE_WORDS

WORDS = 6


def nonce(block: Sequence[int | str], index: int, *, words: int = WORDS, salt: int = 0) -> str:
    """The nonce of request `index` of a block, for example ``mile card snow blue edge free.``

    block: everything that tells this block from every other one (run, round, variant, visit, seed).
    words: at most 6 (fewer: without the full stop). salt: another nonce for the same request, for tokenizers that
    split this one unevenly.
    Within a block, 256 consecutive requests start with 256 different words.
    """
    key = "\x1f".join(repr(part) for part in block).encode("utf-8", "surrogatepass")
    draw = bytearray(hashlib.blake2b(key + b"\x1e%d\x1e%d" % (index, salt), digest_size=WORDS).digest())
    if salt == 0:
        draw[0] = (hashlib.blake2b(key, digest_size=1).digest()[0] + index) % 256
    text = " ".join(NONCE_WORDS[byte] for byte in draw[:words])
    return text + "." if words == WORDS else text
