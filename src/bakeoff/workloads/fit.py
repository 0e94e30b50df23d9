"""Makes synthetic texts exactly as long as asked, by any tokenizer, without knowing how it splits.

Without a tokenizer their length is estimated: a piece of our text is one token in most vocabularies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .text import TextStream
from .tokens import TOKENS_PER_PIECE, Tokenizer

# The first steps follow the slope and nearly always hit; then bisection, which halves the bracket each time.
_SLOPE_STEPS = 6
_MAX_STEPS = 40
# Endings of 1 to 12 letters, for tokenizers to which a whole word is more than one token.
_ENDINGS = (
    *(".", ",", ";", "!", "?", " a", " I", " it", " on", " of", " the", " and", " was", " this", " that", " then"),
    *(" again", " there", " always", " before", " without", " through", " together", " carefully"),
    *(" everywhere", " immediately", " a b", " a b c", " a b c d", "...", " — ", " 1", " 12", " 1 2 3", "\n", "\n\n"),
)


@dataclass
class Draft:
    """One text on its way to `target` tokens: a prefix, then pieces of a stream, then perhaps an ending.

    prefix_tokens: about how many of the tokens the prefix takes.
    """

    prefix: str
    stream: TextStream
    target: int
    prefix_tokens: int = 0
    pieces: int = 0
    low: int = -1  # most pieces known to give too few tokens (−1: none known)
    high: int | None = None  # fewest pieces known to give too many
    body: str = ""
    tokens: int | None = None  # of prefix + body, the best so far
    done: bool = False
    _last: tuple[int, int] | None = field(default=None, repr=False)

    def candidate(self) -> str:
        """The whole text to count next."""
        return self.prefix + self._cut(self.pieces)

    def _cut(self, pieces: int) -> str:
        text = self.stream.text(pieces)
        return text if self.prefix and not self.prefix.endswith("\n") else text.lstrip()

    def estimate(self) -> None:
        """Takes as many pieces as are probably needed, uncounted."""
        self.body = self._cut(max(0, round((self.target - self.prefix_tokens) / TOKENS_PER_PIECE)))
        self.tokens, self.done = self.target, True

    def learn(self, tokens: int, step: int) -> None:
        """Takes in the count of `candidate()` and chooses the next number of pieces."""
        self._keep(self._cut(self.pieces), tokens)
        if self.done:
            return
        if tokens < self.target:
            self.low = max(self.low, self.pieces)
        else:
            self.high = self.pieces if self.high is None else min(self.high, self.pieces)
        if self.high is None and self.pieces >= self._most:
            self.high = self.pieces + 1  # this tokenizer hardly counts at all: give up
        if not self.bracketed:
            self.pieces = self._next(tokens, step)

    def _next(self, tokens: int, step: int) -> int:
        if self.high is not None and step >= _SLOPE_STEPS:
            guess = (self.low + self.high) // 2
        else:
            slope = 1.0
            if self._last and self._last[0] != self.pieces and self._last[1] != tokens:
                slope = abs((tokens - self._last[1]) / (self.pieces - self._last[0]))
            guess = self.pieces + round((self.target - tokens) / max(slope, 0.05))
        self._last = (self.pieces, tokens)
        most = self.high - 1 if self.high is not None else self._most
        return max(self.low + 1, min(guess, most))

    @property
    def _most(self) -> int:
        """Pieces beyond which no tokenizer in use would still give too few tokens."""
        return 64 + 4 * self.target

    @property
    def bracketed(self) -> bool:
        """No number of whole pieces is exact: only an ending can help."""
        return not self.done and self.high is not None and self.high - self.low <= 1

    def endings(self) -> list[str]:
        """Bodies to try when whole pieces do not fit."""
        cuts = [cut for cut in (self.low, self.low - 1) if cut >= 0]
        return [self._cut(cut) + ending for cut in cuts for ending in _ENDINGS]

    def learn_endings(self, bodies: Sequence[str], counts: Sequence[int]) -> None:
        """Takes the first exact ending, else the nearest below."""
        for body, tokens in zip(bodies, counts, strict=True):
            if not self.done:
                self._keep(body, tokens)

    def _keep(self, body: str, tokens: int) -> None:
        """Better: exact; else the most tokens that do not exceed the target; else the fewest."""
        self.done = tokens == self.target
        if self.tokens is None or self._rank(tokens) > self._rank(self.tokens):
            self.body, self.tokens = body, tokens

    def _rank(self, tokens: int) -> tuple[bool, int]:
        fits = tokens <= self.target
        return fits, tokens if fits else -tokens


async def fit(drafts: Sequence[Draft], tokenizer: Tokenizer | None) -> None:
    """Brings every draft to its exact target, or (where the tokenizer allows none) to the nearest below.

    All drafts advance together, so that one step costs one batch. Afterwards `done` tells whether it is exact.
    Without a tokenizer, all are estimated.
    """
    if tokenizer is None:
        for draft in drafts:
            draft.estimate()
        return
    for draft in drafts:
        draft.pieces = max(0, draft.target - draft.prefix_tokens)
    for step in range(_MAX_STEPS):
        open_drafts = [draft for draft in drafts if not draft.done and not draft.bracketed]
        if not open_drafts:
            break
        counts = await tokenizer.count([draft.candidate() for draft in open_drafts])
        for draft, tokens in zip(open_drafts, counts, strict=True):
            draft.learn(tokens, step)
    for draft in drafts:
        if draft.done or not draft.bracketed:
            continue
        bodies = draft.endings()
        if bodies:
            draft.learn_endings(bodies, await tokenizer.count([draft.prefix + body for body in bodies]))
