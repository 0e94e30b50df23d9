"""The prompts of a block: the same bodies for every arm of a round, with nonces of the block's own in front."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..model import Workload
from .bodies import Body, BodyMaker, Making
from .entries import as_messages, headed, joined
from .heads import Heads
from .problems import WorkloadError
from .seeds import derive_seed
from .sources import ReadSource, make_bodies, read_source
from .tokens import Counted, Tokenizer
from .windows import TraceWindows

MAX_REQUESTS = 100_000  # per block: prompt ids of a round must not reach the next round's

#: Text of a prompt, and its messages where it is sent as messages.
Written = tuple[str, list[dict[str, Any]] | None]


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt, ready to send.

    prompt_id: the same for all arms of a round, unique over rounds. text: the whole prompt (with messages: their
    text, for counting and display). input_tokens: without special tokens and chat template.
    output_tokens: this prompt's own limit, where it has one. asked_tokens: what the workload wanted the prompt to
    have, before any cut. conversation, turn, think_s: place in a conversation, and the pause before this turn [s].
    rebuild: from the server's own answers to the turns before, the prompt whose history holds them; None where the
    history is the recorded one.
    """

    prompt_id: int
    text: str
    input_tokens: int | None
    tokens_source: Counted
    messages: list[dict[str, Any]] | None = None
    output_tokens: int | None = None
    asked_tokens: int | None = None
    conversation: int | None = None
    turn: int = 0
    think_s: float = 0.0
    rebuild: Callable[[Sequence[str]], Written] | None = None


class PromptFactory:
    """Makes the prompts of one workload, block by block, deterministic in (workload, seed, run id, tokenizer).

    `tokenizer` may be replaced between blocks (each server counts for itself while it runs): the bodies of a round
    are made once, by the first one, and kept for the other arms. source: of another factory of the same workload,
    so that its file is not read twice. openings: only the first turn of every conversation (for warm-up).
    Raises WorkloadError when the prompts cannot be read or built.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        seed: int,
        run_id: str,
        tokenizer: Tokenizer | None = None,
        source: ReadSource | None = None,
        openings: bool = False,
    ) -> None:
        self.workload = workload
        self.tokenizer = tokenizer
        self.source = source or read_source(workload)
        self._notes: dict[str, None] = {}
        self._counts: dict[str, int] = {}
        self._seed = derive_seed(seed, workload.prompts.seed, workload.name)
        self._run_id = run_id
        self._round: int | None = None
        self._bodies: list[Body] = []
        self._heads = Heads(workload.cache, self._seed)
        self._maker: BodyMaker
        self._windows: TraceWindows | None
        turns = 1 if openings else workload.prompts.turns
        self._maker, self._windows, notes = make_bodies(workload, self.source, self._seed, turns=turns)
        for note in notes:
            self._note(note)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as asked (inexact lengths, repeated or cut prompts), each once; counts are of this round."""
        return (*self._notes, *(f"{text}: {number}" for text, number in self._counts.items()))

    def arrivals(
        self, round: int, speed: float, *, count: int | None = None, seconds: float | None = None
    ) -> tuple[int, ...]:
        """When the requests of a round came in the trace [ns from the block's start], `speed` times as fast.

        Raises WorkloadError where the source is no trace.
        """
        if self._windows is None:
            raise WorkloadError(
                f"source {self.workload.prompts.source} holds no times of arrival",
                where=self.workload.name,
                remedy="replay a trace (source: azure or mooncake), or give a rate",
            )
        return self._windows.offsets(round, speed, count=count, seconds=seconds)[:MAX_REQUESTS]

    async def block(
        self, *, round: int, variant: str, visit: str, count: int, starts: int | None = None
    ) -> list[Prompt]:
        """The first `count` prompts of a round, for one variant's visit.

        visit: tells this block from every other one of the same variant and round (cell, warm-up, A/A); only the
        nonce depends on it and on the variant. starts: at most so many conversations (or single prompts). The turns
        of a conversation follow each other; the last conversation may end early.
        """
        if not 0 <= count <= MAX_REQUESTS:
            raise WorkloadError(
                f"a block of {count:,} requests is too large",
                where=self.workload.name,
                remedy=f"measure at most {MAX_REQUESTS:,} requests a block",
            )
        if round != self._round:
            self._round, self._bodies, self._counts = round, [], {}
            self._maker.begin(round)
        await self._make(count, starts)
        bodies = _first(self._bodies, count, starts)
        block = (self._run_id, self._seed, round, variant, visit)
        heads = [self._heads.head(block, index, body.words) for index, body in enumerate(bodies)]
        counts = [body.tokens for body in bodies]
        if self.tokenizer is not None:
            counts, same = await self._heads.even(self.tokenizer, variant, block, bodies, heads)
            if not same:
                self._note("the same prompts have other token counts for another variant: its tokenizer differs")
        source: Counted = "estimated" if self.tokenizer is None else "tokenizer"
        return [
            self._seal(round * MAX_REQUESTS + index, head, body, tokens, source)
            for index, (head, body, tokens) in enumerate(zip(heads, bodies, counts, strict=True))
        ]

    async def _make(self, count: int, starts: int | None) -> None:
        """Makes the round's bodies as far as they are needed."""
        making = Making(self._heads, self.tokenizer, self._note, self._counts.__setitem__)
        units = sum(body.turn == 0 for body in self._bodies)
        while len(self._bodies) < count and (starts is None or units < starts):
            missing = max(1, math.ceil((count - len(self._bodies)) / self._maker.mean_turns))
            wanted = missing if starts is None else min(missing, starts - units)
            made = await self._maker.more(wanted, making)
            units += len(made)
            self._bodies.extend(body for unit in made for body in unit)

    def _seal(self, prompt_id: int, head: str, body: Body, tokens: int, source: Counted) -> Prompt:
        answered = self.workload.prompts.history == "answered" and body.turn > 0
        text, messages = self._written(head, body)
        return Prompt(
            prompt_id=prompt_id,
            text=text,
            input_tokens=tokens,
            tokens_source=source,
            messages=messages,
            output_tokens=body.output_tokens,
            asked_tokens=body.asked_tokens,
            conversation=body.conversation,
            turn=body.turn,
            think_s=body.think_s,
            rebuild=(lambda answers: self._written(head, body, answers)) if answered else None,
        )

    def _written(self, head: str, body: Body, answers: Sequence[str] | None = None) -> Written:
        text = head + (body.text if answers is None else body.glue + joined(body.turns, answers))
        if self.workload.api == "completions" or not body.turns:
            return text, None
        return text, headed(head, body.glue, as_messages(body.turns, answers))

    def _note(self, text: str) -> None:
        self._notes[text] = None


def _first(bodies: Sequence[Body], count: int, starts: int | None) -> Sequence[Body]:
    if starts is not None:
        begins = [index for index, body in enumerate(bodies) if body.turn == 0]
        if len(begins) > starts:
            count = min(count, begins[starts])
    return bodies[:count]
