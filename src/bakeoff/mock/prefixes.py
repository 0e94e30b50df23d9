"""The prefix cache: which prompts begin as one before did, in whole blocks of tokens, as vLLM and SGLang count it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from .words import split_tokens


class PrefixCache:
    """Blocks of `block` tokens, each known by itself and all that stands before it; the oldest are forgotten first.

    A prompt is served from the cache up to the end of its last known block, but never whole: the last token has to
    be computed, because its output is the first token of the answer.
    """

    def __init__(self, block: int, capacity_tokens: int) -> None:
        self._block = block
        self._most = max(1, capacity_tokens // block)
        # A block's name is the hash of the name before it and of its tokens: 64 bits, far more than are kept.
        self._known: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """Blocks kept."""
        return len(self._known)

    def begin(self, prompt: str | tuple[int, ...], salt: str | None) -> int:
        """A prompt is about to be computed → how many of its tokens are in the cache. From now on all of it is."""
        tokens: Sequence[object] = split_tokens(prompt) if isinstance(prompt, str) else prompt
        names = self._names(tokens, salt)
        most = (len(tokens) - 1) // self._block
        hits = 0
        while hits < most and names[hits] in self._known:
            hits += 1
        self._keep(names)
        return hits * self._block

    def end(self, prompt: str | tuple[int, ...], salt: str | None, answer: str) -> None:
        """An answer is complete: a next turn of the conversation finds it in the cache as well."""
        if isinstance(prompt, str):
            self._keep(self._names([*split_tokens(prompt), *split_tokens(answer)], salt))

    def _names(self, tokens: Sequence[object], salt: str | None) -> list[int]:
        size, name = self._block, hash(salt)
        names: list[int] = []
        for at in range(0, len(tokens) - size + 1, size):
            name = hash((name, *tokens[at : at + size]))
            names.append(name)
        return names

    def _keep(self, names: list[int]) -> None:
        known = self._known
        # The end first: of one prompt the beginning, which others may share, is forgotten last.
        for name in reversed(names):
            known[name] = None
            known.move_to_end(name)
        while len(known) > self._most:
            known.popitem(last=False)
