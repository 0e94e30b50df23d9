"""How likely a server finds given continuations of a prompt: multiple choice without generating an answer.

Prompt and continuation are tokenised together, as they would stand in one text, and all choices of one question are
scored from the same token on: the first in which any of them differs from the prompt alone. (A word that begins with a
space often merges with it; scoring each choice from another place would compare different things.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from ..client import HttpClient
from ..errors import EndpointError, UsageError
from ..model import Endpoint
from .probabilities import Position, Teller, find_teller, unusable

Normalise = Literal["none", "tokens", "characters"]

_PATH = "completions"


class Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """A continuation as the server sees it. `logprob`: natural logarithm of its probability after the prompt."""

    logprob: float
    tokens: int
    characters: int
    greedy: bool  # each of its tokens is the likeliest one

    def normalised(self, by: Normalise) -> float:
        """The log-probability, per token or per character where asked for."""
        return self.logprob / {"none": 1, "tokens": self.tokens, "characters": max(1, self.characters)}[by]


async def choice_logprobs(
    endpoint: Endpoint,
    prompt: str,
    choices: Sequence[str],
    *,
    chat: bool = False,
    normalise: Normalise = "none",
) -> list[float]:
    """Log-probability of each choice after the prompt, in the order of the choices.

    normalise: per token or per character, so that long choices are not at a disadvantage. chat: the prompt stands in
    the server's chat template. Raises EndpointError with a remedy where the server tells no probabilities of given
    text, UsageError for an empty choice. For many questions hold a `Likelihood`: it asks what the server is only once.
    """
    async with Likelihood(endpoint) as likelihood:
        found = await likelihood.continuations(prompt, choices, chat=chat)
    return [continuation.normalised(normalise) for continuation in found]


class Likelihood:
    """Scores continuations on one endpoint; an async context manager that keeps its connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._http = HttpClient(endpoint, timeout_s=endpoint.request_timeout_s)
        self._way: Teller | Echo | None = None

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.__aexit__(exc_type, exc, traceback)

    @property
    def way(self) -> str:
        """How the server tells probabilities; empty before the first question."""
        return "" if self._way is None else self._way.name

    async def continuations(self, prompt: str, texts: Sequence[str], *, chat: bool = False) -> list[Continuation]:
        """Each text as the continuation of the prompt. Raises as `choice_logprobs` does."""
        if not texts or not all(texts):
            raise UsageError(
                "a choice is empty" if texts else "there are no choices",
                remedy="give each question at least one choice, and each choice a text",
            )
        if self._way is None:
            self._way = await self._found()
        if isinstance(self._way, Echo):
            if chat:
                raise EndpointError(
                    "its chat template cannot be followed by a given answer",
                    where=self._http.url(_PATH),
                    remedy="set `template: plain` for this task",
                )
            return [await self._way.continuation(prompt, text) for text in texts]
        return await self._scored(self._way, prompt, texts, chat)

    async def whole(self, text: str) -> float:
        """Log-probability of a whole text, from its second token on (the first has nothing before it)."""
        if self._way is None:
            self._way = await self._found()
        if isinstance(self._way, Echo):
            return (await self._way.continuation("", text)).logprob
        tokens = await self._way.prompt_tokens(text)
        return math.fsum(p.token_logprob for p in await self._way.along(tokens[:1], tokens[1:]))

    async def _found(self) -> Teller | Echo:
        try:
            return await find_teller(self._http, self._endpoint, 1)
        except EndpointError as refusal:
            echo = Echo(self._http, self._endpoint)
            try:
                await echo.continuation("a", " b")
            except EndpointError as error:
                raise EndpointError(
                    f"{refusal.message}, nor by completions with `echo`: {error.message}",
                    where=self._http.url(_PATH),
                    remedy=(
                        "use a server that does: llama.cpp (engine llamacpp, or a llama-server), vLLM, or one whose "
                        "completions take `echo` with `logprobs`; or grade generated answers (scorer: normalised)"
                    ),
                ) from None
            return echo

    async def _scored(self, teller: Teller, prompt: str, texts: Sequence[str], chat: bool) -> list[Continuation]:
        before = await teller.prompt_tokens([{"role": "user", "content": prompt}] if chat else prompt)
        if chat:
            wholes = [[*before, *await teller.text_tokens(text)] for text in texts]
        else:
            wholes = [await teller.prompt_tokens(prompt + text) for text in texts]
        start = min(_common(before, whole) for whole in wholes)
        found = []
        for whole, text in zip(wholes, texts, strict=True):
            # Something must stand before the first token that is scored, and something must be left to score.
            first = max(1, min(start, len(whole) - 1))
            if len(whole) <= first:
                raise EndpointError(
                    "a choice has no token of its own", where=self._http.url(""), remedy="give the choice a text"
                )
            found.append(_continuation(await teller.along(whole[:first], whole[first:]), len(text)))
        return found


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the common beginning."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _continuation(positions: Sequence[Position], characters: int) -> Continuation:
    return Continuation(
        logprob=math.fsum(p.token_logprob for p in positions),
        tokens=len(positions),
        characters=characters,
        greedy=all(p.token == p.ids[0] for p in positions),
    )


class Echo:
    """OpenAI's older way: completions that repeat the prompt (`echo`) with the log-probability of each of its tokens.

    Tokens are known by their offset in the text alone, so a choice is scored from the first token that reaches beyond
    the prompt.
    """

    name = "completions with echo"

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._http = http
        self._endpoint = endpoint

    async def continuation(self, prompt: str, text: str) -> Continuation:
        """Raises EndpointError where the server does not echo log-probabilities."""
        body = {
            **self._endpoint.body,
            "model": self._endpoint.model,
            "prompt": prompt + text,
            "max_tokens": 1,
            "temperature": 0,
            "echo": True,
            "logprobs": 1,
            "stream": False,
        }
        answer = await self._http.post_json(_PATH, body)
        try:
            told = answer["choices"][0]["logprobs"]
            rows = list(
                zip(told["text_offset"], told["tokens"], told["token_logprobs"], told["top_logprobs"], strict=True)
            )
            return self._read(rows, len(prompt), len(prompt) + len(text))
        except (KeyError, IndexError, TypeError, ValueError):
            raise unusable(self._http.url(_PATH), "the answer does not repeat the prompt with logprobs") from None

    @staticmethod
    def _read(rows: Sequence[tuple[int, str, float | None, Any]], start: int, end: int) -> Continuation:
        """The tokens that reach beyond `start` and begin before `end` (characters). ValueError where there are none."""
        offset = rows[0][0]  # some servers count from the text's start, some from elsewhere
        ends = [row[0] - offset for row in rows[1:]] + [end + 1]
        own = [
            (token, logprob, top)
            for (at, token, logprob, top), over in zip(rows, ends, strict=True)
            if over > start and at - offset < end and logprob is not None
        ]
        if not own or not all(logprob <= 1e-3 for _, logprob, _ in own):
            raise ValueError
        return Continuation(
            logprob=math.fsum(logprob for _, logprob, _ in own),
            tokens=len(own),
            characters=end - start,
            greedy=all(
                isinstance(top, dict) and bool(top) and max(top, key=top.__getitem__) == token for token, _, top in own
            ),
        )
