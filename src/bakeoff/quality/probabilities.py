"""Next-token probabilities along a text that is given (teacher forcing), whichever way the server tells them.

OpenAI's ``top_logprobs`` speak of the server's own answer alone and of at most 20 tokens, so they are not used: after
the first token that two arms choose differently, they would compare different texts.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from ..client import HttpClient
from ..errors import EndpointError
from ..model import Endpoint

DEFAULT_TOP = 1024
#: Sums of single-precision probabilities are off by about this much: a smaller rest is none.
ROUNDING = 2e-6

_REMEDY = (
    "use a server that does: llama.cpp (engine llamacpp, or a llama-server) or vLLM; `top_logprobs` of other servers "
    "tell the probabilities of their own answers alone"
)


class TooMany(EndpointError):
    """The server tells probabilities, but of fewer tokens than were asked for."""


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says about the token at one place of a text. Natural logarithms.

    `ids` and `logprobs` list the likeliest tokens, in falling order; `rest` is the probability of all others
    (0: the list is complete). `token` is the one that the text has there, listed or not.
    """

    token: int
    token_logprob: float
    ids: list[int]
    logprobs: list[float]
    rest: float


class Greedy(msgspec.Struct, frozen=True, kw_only=True):
    """A server's own likeliest answer. `tokens` include the one that ended it; `text` does not show it."""

    tokens: list[int]
    text: str


Message = dict[str, Any]
Prompt = str | Sequence[Message]


class Teller(Protocol):
    """A server that tells probabilities along a given text. Every method raises EndpointError."""

    name: str  # as a report calls the way in which they were told
    top: int  # tokens listed at each position, at most

    async def prompt_tokens(self, prompt: Prompt) -> list[int]:
        """The prompt as the server would read it: with special tokens, messages in its chat template."""

    async def text_tokens(self, text: str) -> list[int]:
        """A piece of text, without special tokens."""

    async def greedy(self, before: Sequence[int], count: int) -> Greedy:
        """At most `count` tokens at temperature 0."""

    async def along(self, before: Sequence[int], text: Sequence[int]) -> list[Position]:
        """One position for each token of `text`, which follows `before` (not empty)."""


Probe = Callable[[HttpClient, Endpoint, "int | None"], Awaitable[Teller]]


async def find_teller(http: HttpClient, endpoint: Endpoint, top: int | None = None) -> Teller:
    """The way in which this server tells probabilities, found by asking for one.

    top: tokens listed at each position; None: what the server gives, up to 1,024. Raises EndpointError with a remedy
    where it tells none, or not so many.
    """
    from . import probabilities_llamacpp, probabilities_vllm

    probes: dict[str, Probe] = {"llamacpp": probabilities_llamacpp.probe, "vllm": probabilities_vllm.probe}
    known = endpoint.capabilities.tokenizer
    refusals: list[EndpointError] = []
    for name in [known] if known in probes else list(probes):
        try:
            return await probes[name](http, endpoint, top)
        except TooMany:
            raise
        except EndpointError as error:
            refusals.append(error)
    said = "; ".join(dict.fromkeys(_refused(error) for error in refusals))
    raise EndpointError(f"it tells no probabilities along a given text ({said})", where=http.url(""), remedy=_REMEDY)


def _refused(error: EndpointError) -> str:
    """Why one way is not this server's. That it lacks a path is no fault of the address, but of the kind of server."""
    path = urlsplit(error.where or "").path
    if error.message.startswith("HTTP 404"):
        return f"it has no {path}"
    return f"{path}: {error.message}" if path else error.message


def position(token: int, logprobs: Mapping[int, float], top: int, where: str) -> Position:
    """A position from log-probabilities by token, the text's own token among them; `top` of them were asked for.

    Servers add the text's own token to those that were asked for; fewer than `top` are the whole vocabulary. Raises
    EndpointError where they cannot be log-probabilities.
    """
    if not all(logprob <= 1e-3 for logprob in logprobs.values()):  # NaN fails too; rounding leaves 1e-7 above zero
        raise unusable(where, "a log-probability is above zero or no number")
    if token not in logprobs:
        raise unusable(where, "the text's own token is missing among the probabilities")
    listed = sorted(logprobs.items(), key=lambda pair: (-pair[1], pair[0]))
    complete = len(listed) < top
    listed = listed[:top]
    rest = 1.0 - math.fsum(math.exp(logprob) for _, logprob in listed)
    return Position(
        token=token,
        token_logprob=logprobs[token],
        ids=[other for other, _ in listed],
        logprobs=[logprob for _, logprob in listed],
        rest=0.0 if complete or rest < ROUNDING else rest,
    )


def unusable(where: str, what: str) -> EndpointError:
    """The server answered, but not with what was asked for."""
    return EndpointError(what, where=where, remedy=_REMEDY)


def token_list(value: Any, where: str) -> list[int]:
    """A list of token ids as a server sent it. Raises EndpointError where it is none."""
    if isinstance(value, list) and all(isinstance(token, int) and token >= 0 for token in value):
        return value
    raise unusable(where, "the answer has no list of token ids")
