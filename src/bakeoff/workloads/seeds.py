"""Seeds that depend on everything they should, and on nothing else.

Adding small numbers (``seed + round``) makes the streams of neighbouring rounds and seeds collide; a hash of all
parts does not, and it is the same on every machine and in every Python.
"""

from __future__ import annotations

import hashlib


def derive_seed(*parts: int | str | float) -> int:
    """A 63-bit seed from its parts (order and type matter), for example ``derive_seed(seed, round, cell.key)``."""
    # repr keeps 1 and "1" apart; the separator keeps ("a", "bc") and ("ab", "c") apart.
    text = "\x1f".join(repr(part) for part in parts)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
