"""Probabilities from llama.cpp's HTTP server (embedded or ``llama-server``): one request a position.

Its ``/completion`` tells the raw probabilities after a prompt (`post_sampling_probs: false`: before temperature, top-k
and the like), for as many tokens as are asked for. A text is walked by prompts that grow by one token: the prefix
cache makes each step the work of a single token. A bias on the text's own token makes that token the one that is
"generated", so its exact probability is told also where it is not among the likeliest ones; raw probabilities are
taken before the bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..client import HttpClient
from ..errors import EndpointError
from ..model import Endpoint
from .probabilities import DEFAULT_TOP, Greedy, Position, Prompt, position, token_list, unusable

_PATH = "/completion"
_CERTAIN = 10_000.0  # no logit comes near


async def probe(http: HttpClient, endpoint: Endpoint, top: int | None) -> LlamaCppTeller:
    """Raises EndpointError where the server is not llama.cpp's, or does not tell probabilities."""
    teller = LlamaCppTeller(http, endpoint, DEFAULT_TOP if top is None else top)
    before = await teller.prompt_tokens("a b")
    # A token that is not likely: its probability comes back only where the bias is taken.
    await teller.along(before[:1], before[-1:])
    return teller


class LlamaCppTeller:
    """See :class:`Teller`."""

    name = "llama.cpp /completion"

    def __init__(self, http: HttpClient, endpoint: Endpoint, top: int) -> None:
        self.top = top
        self._http = http
        self._body = dict(endpoint.body)

    async def prompt_tokens(self, prompt: Prompt) -> list[int]:
        text: Any = prompt
        if not isinstance(prompt, str):
            answer = await self._http.post_json("/apply-template", {**self._body, "messages": list(prompt)})
            text = answer.get("prompt") if isinstance(answer, dict) else None
            if not isinstance(text, str):
                raise unusable(self._http.url("/apply-template"), "the answer has no prompt")
        return await self._tokens({"content": text, "add_special": True, "parse_special": True})

    async def text_tokens(self, text: str) -> list[int]:
        return await self._tokens({"content": text, "add_special": False, "parse_special": False})

    async def greedy(self, before: Sequence[int], count: int) -> Greedy:
        answer = await self._ask(before, n_predict=count, n_probs=1, return_tokens=True)
        steps, text = answer.get("completion_probabilities"), answer.get("content")
        if not isinstance(steps, list) or not isinstance(text, str):
            raise self._odd("the answer has no completion_probabilities")
        tokens = token_list([step.get("id") if isinstance(step, dict) else None for step in steps], self._where)
        return Greedy(tokens=tokens, text=text)

    async def along(self, before: Sequence[int], text: Sequence[int]) -> list[Position]:
        found = []
        for place, token in enumerate(text):
            prompt = [*before, *text[:place]]
            answer = await self._ask(prompt, n_predict=1, n_probs=self.top, logit_bias=[[token, _CERTAIN]])
            found.append(self._position(token, answer))
        return found

    def _position(self, token: int, answer: dict[str, Any]) -> Position:
        try:
            step = answer["completion_probabilities"][0]
            told = {int(entry["id"]): float(entry["logprob"]) for entry in (*step["top_logprobs"], step)}
        except (KeyError, IndexError, TypeError, ValueError):
            raise self._odd("the answer tells no probabilities (llama.cpp does since the end of 2024)") from None
        return position(token, told, self.top, self._where)

    async def _tokens(self, body: dict[str, Any]) -> list[int]:
        answer = await self._http.post_json("/tokenize", body)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        return token_list(tokens, self._http.url("/tokenize"))

    async def _ask(self, prompt: Sequence[int], **fields: Any) -> dict[str, Any]:
        body = {
            **self._body,
            "prompt": list(prompt),
            "temperature": 0,
            "cache_prompt": True,
            "post_sampling_probs": False,
            "stream": False,
            **fields,
        }
        answer = await self._http.post_json(_PATH, body)
        if not isinstance(answer, dict):
            raise self._odd("the answer is no object")
        return answer

    @property
    def _where(self) -> str:
        return self._http.url(_PATH)

    def _odd(self, what: str) -> EndpointError:
        return unusable(self._where, what)
