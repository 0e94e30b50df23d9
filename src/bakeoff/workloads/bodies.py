"""What all arms of a round share: the prompts without their nonces, made once, by the first arm's tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from .entries import Turn
from .heads import Heads, StandIn
from .tokens import Tokenizer


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a round, without its nonce.

    text: the whole prompt behind the nonce. tokens: of nonce and text, which every arm must have. words: of the
    nonce. asked_tokens: what the workload wanted the whole prompt to have; None where nothing said so.
    turns: of the conversation up to this one, where it is sent as messages or its history is the server's.
    glue: between nonce and text in a message.
    """

    text: str
    tokens: int
    words: int
    asked_tokens: int | None = None
    turns: tuple[Turn, ...] = ()
    glue: str = ""
    output_tokens: int | None = None
    conversation: int | None = None
    turn: int = 0
    think_s: float = 0.0


@dataclass(frozen=True)
class Making:
    """What bodies are made with."""

    heads: Heads
    tokenizer: Tokenizer | None
    note: Callable[[str], None]  # what is not as asked, and holds for the whole run
    count: Callable[[str, int], None]  # the same of this round, with how many prompts it concerns so far

    async def stand_in(self, words: int) -> StandIn:
        """A nonce of so many words."""
        return await self.heads.stand_in(words, self.tokenizer)


class BodyMaker(Protocol):
    """Makes the bodies of a round, in order; a conversation's turns follow each other."""

    @property
    def mean_turns(self) -> float:
        """Requests of a unit (a conversation, or a single prompt), about."""

    def begin(self, round_: int) -> None:
        """Starts a round afresh."""

    async def more(self, count: int, making: Making) -> list[list[Body]]:
        """The next `count` units of the round (or more, never fewer)."""
