"""Synthetic prompts and conversations of exact length, and prompts that follow the lengths of a trace."""

from __future__ import annotations

from collections import OrderedDict

from ..model import Workload
from .bodies import Body, Making
from .entries import JOINT, Turn
from .fit import Draft, fit
from .problems import WorkloadError
from .seeds import derive_seed
from .text import TextStream
from .traces import BLOCK_TOKENS, Row, Trace
from .windows import Windows

_ESTIMATED = "prompt lengths are estimated: the server offers no tokenizer"
_KEPT_BLOCKS = 4096  # texts of a trace's blocks, about 3 KB each
# Text continues after a full stop: a block counted alone would begin where no text of ours ever begins.
_ANCHOR = "."


class SyntheticBodies:
    """Prompts of `input_tokens` each; with several turns, conversations in which each turn adds so many.

    The recorded answers of a conversation are synthetic texts of `output_tokens` tokens.
    Raises WorkloadError where no length is given.
    """

    def __init__(self, workload: Workload, seed: int, *, turns: int) -> None:
        prompts = workload.prompts
        if prompts.input_tokens is None:
            raise WorkloadError("no prompt length is given", where=workload.name, remedy="set prompts.input_tokens")
        self._input = prompts.input_tokens
        self._output = workload.output_tokens
        self._share = prompts.shared_prefix
        self._think_s = prompts.think_s
        self._conversations = prompts.turns > 1
        self._answered = prompts.history == "answered"
        self._seed = seed
        self._turns = turns
        self._shared: str | None = None
        self._round = self._next = 0

    @property
    def mean_turns(self) -> float:
        """Turns of every conversation."""
        return float(self._turns)

    def begin(self, round_: int) -> None:
        """Starts a round afresh."""
        self._round, self._next = round_, 0

    async def more(self, count: int, making: Making) -> list[list[Body]]:
        """The next `count` prompts or conversations of the round."""
        if making.tokenizer is None:
            making.note(_ESTIMATED)
        units = range(self._next, self._next + count)
        self._next += count
        words = making.heads.room(self._input)
        head = await making.stand_in(words)
        shared = await self._prefix(making, head.text, head.tokens)
        known = head.tokens + (round(self._share * self._input) if shared else 0)
        texts = [shared] * count  # behind the nonce, so far
        spoken: list[tuple[Turn, ...]] = [()] * count
        bodies: list[list[Body]] = [[] for _ in units]
        target = 0
        for turn in range(self._turns):
            target += self._input
            drafts = await self._fit([head.text + text for text in texts], units, (turn, target, known), making)
            for place, draft in enumerate(drafts):
                new = draft.body if turn else shared + draft.body
                texts[place] += draft.body
                spoken[place] += (Turn(text=new),)
                bodies[place].append(
                    Body(
                        text=texts[place],
                        tokens=draft.tokens or 0,
                        words=words,
                        asked_tokens=None if turn and self._answered else target,
                        turns=spoken[place] if self._conversations else (),
                        conversation=units[place] if self._conversations else None,
                        turn=turn,
                        think_s=self._think_s if turn else 0.0,
                    )
                )
            if turn == self._turns - 1:
                break
            texts = [text + JOINT for text in texts]
            known, target = target + 1, target + self._output
            drafts = await self._fit([head.text + text for text in texts], units, (-1 - turn, target, known), making)
            for place, draft in enumerate(drafts):
                *before, last = spoken[place]
                spoken[place] = (*before, Turn(text=last.text, answer=draft.body))
                texts[place] += draft.body + JOINT
            known = target + 1
        return bodies

    async def _prefix(self, making: Making, head: str, head_tokens: int) -> str:
        """The text that all prompts of the workload begin with, made once."""
        size = round(self._share * self._input)
        if not size:
            return ""
        if self._shared is None:
            if size > self._input - head_tokens - 1:
                size = max(0, self._input - head_tokens - 1)
                making.note(f"the shared prefix is {size} tokens long: the prompts have no room for more")
            draft = Draft(head, TextStream(derive_seed(self._seed, "shared")), head_tokens + size, head_tokens)
            await fit([draft], making.tokenizer)
            self._shared = draft.body
        return self._shared

    async def _fit(self, prefixes: list[str], units: range, step: tuple[int, int, int], making: Making) -> list[Draft]:
        turn, target, known = step
        drafts = []
        for prefix, unit in zip(prefixes, units, strict=True):
            parts = ("body", self._round, unit) if turn == 0 else ("body", self._round, unit, turn)
            drafts.append(Draft(prefix, TextStream(derive_seed(self._seed, *parts)), target, known))
        await fit(drafts, making.tokenizer)
        if not all(draft.done for draft in drafts):
            making.note(f"the tokenizer allows no text of exactly {target} tokens: the nearest is used")
        return drafts


class TraceBodies:
    """Prompts as long as those of a trace, and with what those share; the texts are synthetic.

    A block's text is a function of the seed and its id alone, so that prompts which begin with the same ids begin
    with the same text. The last block of a prompt is cut where the prompt ends.
    """

    def __init__(self, workload: Workload, seed: int, trace: Trace, kept: list[int], windows: Windows) -> None:
        self._most = workload.prompts.max_input_tokens
        self._recorded = workload.prompts.recorded_lengths
        self._limit = workload.output_tokens
        self._declared = workload.cache == "declared"
        self._seed = seed
        self._trace = trace
        self._kept = kept
        self._windows = windows
        self._blocks: OrderedDict[int, tuple[str, int]] = OrderedDict()  # id → (text, tokens)
        self._round = self._next = 0

    @property
    def mean_turns(self) -> float:
        """A trace holds single requests."""
        return 1.0

    def begin(self, round_: int) -> None:
        """Starts a round afresh."""
        self._round, self._next = round_, 0

    async def more(self, count: int, making: Making) -> list[list[Body]]:
        """The next `count` requests of the round's window."""
        places = range(self._next, self._next + count)
        self._next += count
        if self._windows.repeats(self._round, self._next):
            making.note(f"the trace's {len(self._kept)} requests are fewer than the run needs: they repeat")
        if making.tokenizer is None:
            making.note(_ESTIMATED)
        rows = [self._trace.row(self._kept[self._windows.number(self._round, place)]) for place in places]
        targets = [row.input_tokens if self._most is None else min(self._most, row.input_tokens) for row in rows]
        await self._write_blocks(rows, making)
        drafts: list[Draft] = []
        fronts: list[str] = []
        words: list[int] = []
        for place, row, target in zip(places, rows, targets, strict=True):
            words.append(making.heads.room(None if self._declared else target))
            head = await making.stand_in(words[-1])
            front, known, stream = self._front(row, target - head.tokens, place)
            fronts.append(front if head.text else front.lstrip())
            drafts.append(Draft(head.text + fronts[-1], stream, target, head.tokens + known))
        await fit(drafts, making.tokenizer)
        missed = sum(not draft.done for draft in drafts)
        if missed:
            making.note("some prompts are a few tokens off the trace's length: the tokenizer allows no nearer text")
        return [
            [
                Body(
                    text=front + draft.body,
                    tokens=draft.tokens or 0,
                    words=size,
                    asked_tokens=row.input_tokens,
                    output_tokens=self._output(row, making),
                )
            ]
            for row, draft, front, size in zip(rows, drafts, fronts, words, strict=True)
        ]

    def _output(self, row: Row, making: Making) -> int | None:
        if not self._recorded:
            return None
        if row.output_tokens > self._limit:
            making.note(f"answers of more than {self._limit} tokens are asked for with that limit")
        return min(row.output_tokens, self._limit)

    def _front(self, row: Row, room: int, place: int) -> tuple[str, int, TextStream]:
        """(whole blocks that fit, with a part of another one behind them; their tokens; what comes next)."""
        texts: list[str] = []
        known = 0
        for block in row.blocks:
            text, tokens = self._blocks[block]
            if known + tokens >= room:
                return "".join(texts), known, self._stream(block)
            texts.append(text)
            known += tokens
        own = derive_seed(self._seed, "body", self._round, place)
        return "".join(texts), known, TextStream(own)

    def _stream(self, block: int) -> TextStream:
        return TextStream(derive_seed(self._seed, "block", block))

    async def _write_blocks(self, rows: list[Row], making: Making) -> None:
        """The texts of all blocks of these requests; older ones are forgotten (they can be written again)."""
        ids = dict.fromkeys(block for row in rows for block in row.blocks)
        missing = [block for block in ids if block not in self._blocks]
        if missing:
            anchor = 1 if making.tokenizer is None else (await making.tokenizer.count([_ANCHOR]))[0]
            drafts = [Draft(_ANCHOR, self._stream(block), anchor + BLOCK_TOKENS, anchor) for block in missing]
            await fit(drafts, making.tokenizer)
            for block, draft in zip(missing, drafts, strict=True):
                self._blocks[block] = draft.body, (draft.tokens or 0) - anchor
        for block in ids:
            self._blocks.move_to_end(block)
        while len(self._blocks) > max(_KEPT_BLOCKS, len(ids)):
            self._blocks.popitem(last=False)
