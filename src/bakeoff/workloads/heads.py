"""The nonces of a workload: which request gets which, and that all arms' nonces cost the same number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..model import CachePolicy
from .nonce import WORDS, nonce
from .tokens import Tokenizer

# For tokenizers that split nonces unevenly: enough draws that one of the usual cost is found all but surely.
_SAMPLED = 32
_ATTEMPTS = 8
_AT_ONCE = 8
_ATTEMPTS_TO_TELL = 2  # after so many, misses on one side alone are no chance

BlockKey = Sequence[int | str]


class Sealed(Protocol):
    """What a nonce is put in front of."""

    @property
    def text(self) -> str: ...
    @property
    def tokens(self) -> int:
        """Tokens that nonce and text must have together."""

    @property
    def words(self) -> int:
        """Words of the nonce that it has room for."""


class StandIn(NamedTuple):
    """A nonce of the usual cost, in whose place every real one is put. tokens: counted, or estimated."""

    text: str
    tokens: int


class Heads:
    """Nonces by the cache policy.

    unique: another one for every request. declared: one for all requests of a block, so that within a block only
    what the workload itself shares can be reused, and nothing of another block. shared: none.
    """

    def __init__(self, policy: CachePolicy, seed: int) -> None:
        self._policy = policy
        self._seed = seed
        self._stand_ins: dict[int, StandIn] = {}
        self._other_tokenizer: set[str] = set()  # variants that count otherwise: no nonce can mend that

    def room(self, tokens: int | None) -> int:
        """Words of the nonce of a prompt of so many tokens (None: as long as a text of somebody else's is)."""
        if self._policy == "shared":
            return 0
        # Very short prompts take a shorter nonce: a cache hit on a handful of tokens saves nothing.
        return WORDS if tokens is None else max(1, min(WORDS, tokens - 2))

    def head(self, block: BlockKey, index: int, words: int, salt: int = 0) -> str:
        """The nonce of one request."""
        if not words:
            return ""
        return nonce(block, 0 if self._policy == "declared" else index, words=words, salt=salt)

    async def stand_in(self, words: int, tokenizer: Tokenizer | None) -> StandIn:
        """A nonce of the median cost; never sent itself."""
        if words not in self._stand_ins:
            heads = [nonce(("stand-in", self._seed), n, words=words) if words else "" for n in range(_SAMPLED)]
            if tokenizer is None or not words:
                costs = [words + (words == WORDS)] * _SAMPLED  # a whole nonce ends in a full stop
            else:
                costs = await tokenizer.count(heads)
            usual = sorted(costs)[_SAMPLED // 2]
            self._stand_ins[words] = StandIn(heads[costs.index(usual)], usual)
        return self._stand_ins[words]

    async def even(
        self, tokenizer: Tokenizer, variant: str, block: BlockKey, bodies: Sequence[Sealed], heads: list[str]
    ) -> tuple[list[int], bool]:
        """(tokens of every prompt, whether all are as they should be).

        Draws nonces anew, in `heads`, where this tokenizer splits one into more or fewer tokens than its body allows
        for. A tokenizer that counts the bodies themselves otherwise is given up soon.
        """
        if self._policy == "declared" and bodies and variant not in self._other_tokenizer:
            await self._even_one(tokenizer, block, bodies, heads)
        counts = await tokenizer.count([head + body.text for head, body in zip(heads, bodies, strict=True)])
        if self._policy == "unique" and variant not in self._other_tokenizer:
            await self._even_each(tokenizer, block, bodies, (heads, counts))
        same = all(tokens == body.tokens for tokens, body in zip(counts, bodies, strict=True))
        if not same:
            self._other_tokenizer.add(variant)
        return counts, same

    async def _even_one(
        self, tokenizer: Tokenizer, block: BlockKey, bodies: Sequence[Sealed], heads: list[str]
    ) -> None:
        """The block's one nonce, tried with the shortest of its prompts."""
        body = min(bodies, key=lambda b: len(b.text))
        for attempt in range(_ATTEMPTS):
            first = attempt * _AT_ONCE
            salts = range(first, first + (_AT_ONCE if attempt else 1))
            trials = [self.head(block, 0, body.words, salt) for salt in salts]
            counts = await tokenizer.count([head + body.text for head in trials])
            for salt, tokens in zip(salts, counts, strict=True):
                if tokens == body.tokens:
                    heads[:] = [self.head(block, 0, b.words, salt) for b in bodies]
                    return

    async def _even_each(
        self,
        tokenizer: Tokenizer,
        block: BlockKey,
        bodies: Sequence[Sealed],
        drawn: tuple[list[str], list[int]],
    ) -> None:
        heads, counts = drawn
        tried = [[tokens] for tokens in counts]
        for attempt in range(_ATTEMPTS):
            uneven = [index for index, body in enumerate(bodies) if counts[index] != body.tokens]
            # Nonces scatter around their usual cost; if all miss on one side, this tokenizer counts the body otherwise.
            one_sided = all(min(tried[i]) > bodies[i].tokens or max(tried[i]) < bodies[i].tokens for i in uneven)
            if not uneven or (attempt >= _ATTEMPTS_TO_TELL and one_sided):
                return
            salts = range(1 + attempt * _AT_ONCE, 1 + (attempt + 1) * _AT_ONCE)
            trials = [(index, self.head(block, index, bodies[index].words, salt)) for index in uneven for salt in salts]
            again = await tokenizer.count([head + bodies[index].text for index, head in trials])
            for (index, head), tokens in zip(trials, again, strict=True):
                tried[index].append(tokens)
                wanted = bodies[index].tokens
                if abs(tokens - wanted) < abs(counts[index] - wanted):
                    heads[index], counts[index] = head, tokens
