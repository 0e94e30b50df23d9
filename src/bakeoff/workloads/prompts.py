"""The prompts of a block: the same bodies for every arm of a round, with a nonce of their own in front."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..model import Workload
from .fit import Draft, fit
from .jsonl import JsonlPrompts, Sampler, message_text
from .nonce import WORDS, nonce
from .problems import WorkloadError
from .seeds import derive_seed
from .text import TextStream
from .tokens import TOKENS_PER_PIECE, Counted, Tokenizer, estimate_tokens

MAX_REQUESTS = 100_000  # per block: prompt ids of a round must not reach the next round's
# For tokenizers that split nonces unevenly: enough draws that one of the usual cost is found all but surely.
_SAMPLED_NONCES = 32
_NONCE_ATTEMPTS = 8
_NONCES_AT_ONCE = 8
_ATTEMPTS_TO_TELL = 2  # after so many, misses on one side alone are no chance
_DEFAULT_STRIDE = 64  # prompts a round moves on through a file, when blocks are measured by time


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt, ready to send.

    prompt_id: the same for all arms of a round, unique over rounds. text: the whole prompt (with messages: their
    text, for counting and display). input_tokens: without special tokens and chat template.
    output_tokens: the file's own limit for this prompt, where it gives one.
    """

    prompt_id: int
    text: str
    input_tokens: int | None
    tokens_source: Counted
    messages: list[dict[str, Any]] | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class _Body:
    """What all arms share. tokens: of the whole prompt (nonce included) that every arm must have."""

    text: str
    tokens: int
    messages: list[dict[str, Any]] | None = None
    output_tokens: int | None = None


class PromptFactory:
    """Makes the prompts of one workload, block by block, deterministic in (workload, seed, run id, tokenizer).

    `tokenizer` may be replaced between blocks (each server counts for itself while it runs): the bodies of a round
    are made once, by the first one, and kept for the other arms. `notes` says what could not be as asked.
    Raises WorkloadError when the prompts cannot be read or built.
    """

    def __init__(self, workload: Workload, *, seed: int, run_id: str, tokenizer: Tokenizer | None = None) -> None:
        self.workload = workload
        self.tokenizer = tokenizer
        self._notes: dict[str, None] = {}
        self._seed = derive_seed(seed, workload.prompts.seed, workload.name)
        self._run_id = run_id
        self._round: int | None = None
        self._bodies: list[_Body] = []
        self._prefix: str | None = None
        self._other_tokenizer: set[str] = set()  # variants that count otherwise: no nonce can mend that
        self._file: JsonlPrompts | None = None
        self._sampler: Sampler | None = None
        if workload.prompts.source == "jsonl":
            if workload.prompts.path is None:
                raise WorkloadError("no file of prompts is named", where=workload.name, remedy="set prompts.path")
            self._file = JsonlPrompts(Path(workload.prompts.path), workload.api)
            stride = workload.block.requests or _DEFAULT_STRIDE
            self._sampler = Sampler(len(self._file), stride=stride, seed=self._seed)
            self._nonce_words = WORDS
        else:
            if workload.prompts.input_tokens is None:
                raise WorkloadError("no prompt length is given", where=workload.name, remedy="set prompts.input_tokens")
            # Very short prompts take a shorter nonce: a cache hit on a handful of tokens saves nothing.
            self._nonce_words = max(1, min(WORDS, workload.prompts.input_tokens - 2))
        if workload.cache == "shared":
            self._nonce_words = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as asked (inexact lengths, repeated prompts), each once."""
        return tuple(self._notes)

    async def block(self, *, round: int, variant: str, visit: str, count: int) -> list[Prompt]:
        """The first `count` prompts of a round, for one variant's visit.

        visit: tells this block from every other one of the same variant and round (cell, warm-up, A/A); only the
        nonce depends on it and on the variant.
        """
        if not 0 <= count <= MAX_REQUESTS:
            raise WorkloadError(
                f"a block of {count:,} requests is too large",
                where=self.workload.name,
                remedy=f"measure at most {MAX_REQUESTS:,} requests a block",
            )
        if round != self._round:
            self._round, self._bodies = round, []
        if count > len(self._bodies):
            self._bodies.extend(await self._make(round, len(self._bodies), count))
        bodies = self._bodies[:count]
        block = (self._run_id, self._seed, round, variant, visit)
        heads = [self._head(block, index) for index in range(count)]
        counts = [body.tokens for body in bodies]
        if self.tokenizer is not None:
            counts = await self._even_heads(self.tokenizer, variant, block, bodies, heads)
        source: Counted = "estimated" if self.tokenizer is None else "tokenizer"
        return [
            _seal(round * MAX_REQUESTS + index, head, body, tokens, source)
            for index, (head, body, tokens) in enumerate(zip(heads, bodies, counts, strict=True))
        ]

    def _head(self, block: Sequence[int | str], index: int, salt: int = 0) -> str:
        return nonce(block, index, words=self._nonce_words, salt=salt) if self._nonce_words else ""

    async def _even_heads(
        self, tokenizer: Tokenizer, variant: str, block: Sequence[int | str], bodies: Sequence[_Body], heads: list[str]
    ) -> list[int]:
        """Draws nonces anew where this tokenizer splits one into more or fewer tokens than the body allows for."""
        counts = await tokenizer.count([_whole(head, body) for head, body in zip(heads, bodies, strict=True)])
        tried = [[tokens] for tokens in counts]
        attempts = _NONCE_ATTEMPTS if self._nonce_words and variant not in self._other_tokenizer else 0
        for attempt in range(attempts):
            uneven = [index for index, body in enumerate(bodies) if counts[index] != body.tokens]
            # Nonces scatter around their usual cost; if all miss on one side, this tokenizer counts the body otherwise.
            one_sided = all(min(tried[i]) > bodies[i].tokens or max(tried[i]) < bodies[i].tokens for i in uneven)
            if not uneven or (attempt >= _ATTEMPTS_TO_TELL and one_sided):
                break
            salts = range(1 + attempt * _NONCES_AT_ONCE, 1 + (attempt + 1) * _NONCES_AT_ONCE)
            trials = [(index, self._head(block, index, salt)) for index in uneven for salt in salts]
            again = await tokenizer.count([_whole(head, bodies[index]) for index, head in trials])
            for (index, head), tokens in zip(trials, again, strict=True):
                tried[index].append(tokens)
                wanted = bodies[index].tokens
                if abs(tokens - wanted) < abs(counts[index] - wanted):
                    heads[index], counts[index] = head, tokens
        if any(tokens != body.tokens for tokens, body in zip(counts, bodies, strict=True)):
            self._other_tokenizer.add(variant)
            self._note("the same prompts have other token counts for another variant: its tokenizer differs")
        return counts

    async def _make(self, round_: int, first: int, count: int) -> list[_Body]:
        """Bodies number `first` … `count` − 1 of a round."""
        indexes = range(first, count)
        prefixes = [await self._stand_in()] * len(indexes)
        if self._file is not None:
            return await self._from_file(round_, prefixes, first, count)
        return await self._synthetic(round_, prefixes, indexes)

    async def _stand_in(self) -> str:
        """A nonce of the median cost, in whose place every real one is put; never sent itself."""
        if self._prefix is None:
            heads = [self._head(("stand-in", self._seed), index) for index in range(_SAMPLED_NONCES)]
            costs = [0] * len(heads)
            if self.tokenizer is not None and self._nonce_words:
                costs = await self.tokenizer.count(heads)
            usual = sorted(costs)[len(costs) // 2]
            self._prefix = heads[costs.index(usual)]
        return self._prefix

    async def _synthetic(self, round_: int, prefixes: Sequence[str], indexes: range) -> list[_Body]:
        target = self.workload.prompts.input_tokens or 1
        drafts = [
            Draft(prefix, TextStream(derive_seed(self._seed, "body", round_, index)), target)
            for prefix, index in zip(prefixes, indexes, strict=True)
        ]
        if self.tokenizer is None:
            self._note("prompt lengths are estimated: the server offers no tokenizer")
            head = self._nonce_words + (self._nonce_words == WORDS)  # a whole nonce ends in a full stop
            pieces = max(0, round(target / TOKENS_PER_PIECE) - head)
            return [_Body(_unspaced(draft.prefix, draft.stream.text(pieces)), target) for draft in drafts]
        await fit(drafts, self.tokenizer)
        if not all(draft.done for draft in drafts):
            self._note(f"the tokenizer allows no text of exactly {target} tokens: the nearest is used")
        return [_Body(draft.body, draft.tokens or 0) for draft in drafts]

    async def _from_file(self, round_: int, prefixes: Sequence[str], first: int, count: int) -> list[_Body]:
        assert self._file is not None and self._sampler is not None  # noqa: S101, PT018 (set together)
        if self._sampler.repeats(round_, count):
            self._note(f"the file's {len(self._file)} prompts are fewer than the run needs: they repeat, reshuffled")
        bodies = []
        for number in self._sampler.numbers(round_, count)[first:]:
            entry = self._file.entry(number)
            text = "\n" + entry.text if self._nonce_words else entry.text
            bodies.append(_Body(text, 0, entry.messages, entry.output_tokens))
        wholes = [_whole(prefix, body) for prefix, body in zip(prefixes, bodies, strict=True)]
        if self.tokenizer is None:
            self._note("prompt lengths are estimated: the server offers no tokenizer")
            counts = [estimate_tokens(whole) for whole in wholes]
        else:
            counts = await self.tokenizer.count(wholes)
        return [
            _Body(body.text, tokens, body.messages, body.output_tokens)
            for body, tokens in zip(bodies, counts, strict=True)
        ]

    def _note(self, text: str) -> None:
        self._notes[text] = None


def _whole(head: str, body: _Body) -> str:
    return head + body.text


def _unspaced(prefix: str, text: str) -> str:
    return text if prefix else text.lstrip()


def _seal(prompt_id: int, head: str, body: _Body, tokens: int, source: Counted) -> Prompt:
    messages = _headed(head, body.messages) if body.messages is not None else None
    return Prompt(
        prompt_id=prompt_id,
        text=_whole(head, body),
        input_tokens=tokens,
        tokens_source=source,
        messages=messages,
        output_tokens=body.output_tokens,
    )


def _headed(head: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A copy with the nonce in front of the first message: a chat template puts that first, too."""
    messages = copy.deepcopy(messages)
    if not head:
        return messages
    first = messages[0]
    if isinstance(first.get("content"), list):
        first["content"].insert(0, {"type": "text", "text": head})
    else:
        text = message_text(first)
        first["content"] = f"{head}\n{text}" if text else head
    return messages
