"""Probabilities from vLLM: its completions tell those of every position of the prompt (`prompt_logprobs`) at once.

vLLM lists at most as many tokens as it was started for (``--max-logprobs``, 20 by default), and always the prompt's
own token besides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..client import HttpClient
from ..client.query import MAX_ANSWER_BYTES
from ..errors import EndpointError
from ..model import Endpoint
from .probabilities import DEFAULT_TOP, Greedy, Position, Prompt, TooMany, position, token_list, unusable

_PATH = "completions"
_ALLOWED = re.compile(r"max allowed: (\d{1,7})")
_ENTRY_BYTES = 100  # of one token's entry in the answer, its text included


async def probe(http: HttpClient, endpoint: Endpoint, top: int | None) -> VllmTeller:
    """Raises EndpointError where the server tells no prompt log-probabilities, or not as many as `top`."""
    teller = VllmTeller(http, endpoint, DEFAULT_TOP if top is None else top)
    before = await teller.prompt_tokens("a b")
    try:
        await teller.along(before[:1], before[-1:])
    except EndpointError as error:
        allowed = _ALLOWED.search(error.message)
        if allowed is None:
            raise
        if top is not None:
            raise TooMany(
                f"it lists at most {allowed[1]} tokens a position, not {top}",
                where=error.where,
                remedy=f"start vLLM with --max-logprobs {top}, or set quality.divergence.top to {allowed[1]}",
            ) from None
        teller.top = max(1, int(allowed[1]))
        await teller.along(before[:1], before[-1:])
    return teller


class VllmTeller:
    """See :class:`Teller`."""

    name = "vLLM prompt_logprobs"

    def __init__(self, http: HttpClient, endpoint: Endpoint, top: int) -> None:
        self.top = top
        self._http = http
        self._model = endpoint.model
        self._body = dict(endpoint.body)

    async def prompt_tokens(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            return await self._tokens({"prompt": prompt, "add_special_tokens": True})
        return await self._tokens({**self._body, "messages": list(prompt), "add_generation_prompt": True})

    async def text_tokens(self, text: str) -> list[int]:
        return await self._tokens({"prompt": text, "add_special_tokens": False})

    async def greedy(self, before: Sequence[int], count: int) -> Greedy:
        # Newer versions tell token ids; older ones write them in place of the tokens' texts.
        choice = await self._ask(
            before, max_tokens=count, return_token_ids=True, logprobs=1, return_tokens_as_token_ids=True
        )
        tokens, text = choice.get("token_ids"), choice.get("text")
        if not isinstance(tokens, list):
            tokens = _written_ids(choice.get("logprobs"))
        if not isinstance(text, str):
            raise self._odd("the answer has no text")
        return Greedy(tokens=token_list(tokens, self._where), text=text)

    async def along(self, before: Sequence[int], text: Sequence[int]) -> list[Position]:
        tokens = [*before, *text]
        # The answer lists the prompt's positions too, wanted or not, and must stay within what is read of one.
        top = min(self.top, max(1, MAX_ANSWER_BYTES * 7 // 8 // (_ENTRY_BYTES * len(tokens)) - 1))
        choice = await self._ask(tokens, max_tokens=1, prompt_logprobs=top)
        told = choice.get("prompt_logprobs")
        if not isinstance(told, list) or len(told) != len(tokens):
            raise self._odd("the answer tells no prompt_logprobs")
        return [
            position(token, self._by_token(entry), top, self._where)
            for token, entry in zip(text, told[len(before) :], strict=True)
        ]

    def _by_token(self, entry: Any) -> dict[int, float]:
        try:
            return {int(token): float(told["logprob"]) for token, told in entry.items()}
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._odd("prompt_logprobs are not in vLLM's form") from None

    async def _tokens(self, body: dict[str, Any]) -> list[int]:
        answer = await self._http.post_json("/tokenize", {**body, "model": self._model})
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        return token_list(tokens, self._http.url("/tokenize"))

    async def _ask(self, prompt: Sequence[int], **fields: Any) -> dict[str, Any]:
        body = {**self._body, "model": self._model, "prompt": list(prompt), "temperature": 0, "stream": False, **fields}
        answer = await self._http.post_json(_PATH, body)
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            return choices[0]
        raise self._odd("the answer has no choices")

    @property
    def _where(self) -> str:
        return self._http.url(_PATH)

    def _odd(self, what: str) -> EndpointError:
        return unusable(self._where, what)


def _written_ids(logprobs: Any) -> list[int] | None:
    """Token ids that stand as ``token_id:17`` in place of the tokens."""
    tokens = logprobs.get("tokens") if isinstance(logprobs, dict) else None
    if not isinstance(tokens, list):
        return None
    heads = [str(token).rpartition(":")[2] for token in tokens]
    return [int(head) for head in heads] if all(head.isdecimal() for head in heads) else None
