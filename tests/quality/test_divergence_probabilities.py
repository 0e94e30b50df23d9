"""Probabilities along a given text, by each way in which servers tell them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from bakeoff.client import HttpClient
from bakeoff.errors import EndpointError
from bakeoff.model import Capabilities, Endpoint
from bakeoff.quality.probabilities import Teller, find_teller, position

from .tiny_language import LAST, VOCABULARY, TinyLanguage, logprobs, served, tokens_of

T = TypeVar("T")


def ask(language: TinyLanguage, question: Callable[[Teller], Awaitable[T]], top: int | None = None) -> T:
    async def main(url: str) -> T:
        hint = language.way if language.way in ("llamacpp", "vllm") else None
        endpoint = Endpoint(base_url=url, model="tiny", capabilities=Capabilities(tokenizer=hint))
        async with HttpClient(endpoint) as http:
            return await question(await find_teller(http, endpoint, top))

    with served(language) as url:
        return asyncio.run(main(url))


@pytest.mark.parametrize("way", ["llamacpp", "vllm"])
def test_probabilities_are_those_of_the_text_at_every_position(way: str) -> None:
    before, text = tokens_of("ab", special=True), tokens_of("xyz!", special=False)
    told = ask(TinyLanguage(way, limit=VOCABULARY), lambda t: t.along(before, text), VOCABULARY)
    assert [p.token for p in told] == text
    for place, p in enumerate(told):
        truth = logprobs([*before, *text[:place]])
        assert p.token_logprob == pytest.approx(truth[p.token], abs=1e-9)
        assert p.logprobs == sorted(p.logprobs, reverse=True)
        assert dict(zip(p.ids, p.logprobs, strict=True)) == pytest.approx(dict(enumerate(truth)))
        assert p.rest == 0.0


@pytest.mark.parametrize("way", ["llamacpp", "vllm"])
def test_a_short_list_has_the_unlikely_token_of_the_text_besides_and_a_rest(way: str) -> None:
    before = tokens_of("ab", special=True)
    truth = logprobs(before)
    order = sorted(range(VOCABULARY), key=lambda token: -truth[token])
    unlikely = order[-1]
    (told,) = ask(TinyLanguage(way), lambda t: t.along(before, [unlikely]), 5)
    assert told.ids == order[:5]
    assert told.token_logprob == pytest.approx(truth[unlikely])
    assert told.rest == pytest.approx(1 - sum(math.exp(truth[token]) for token in order[:5]))


def test_vllm_gives_as_many_as_it_was_started_for() -> None:
    async def top(teller: Teller) -> int:
        return teller.top

    assert ask(TinyLanguage("vllm", limit=20), top) == 20
    with pytest.raises(EndpointError, match="at most 20 tokens a position, not 50") as caught:
        ask(TinyLanguage("vllm", limit=20), top, 50)
    assert "--max-logprobs 50" in str(caught.value)


def test_llamacpp_is_asked_for_raw_probabilities_with_the_prefix_cache() -> None:
    language = TinyLanguage("llamacpp")
    ask(language, lambda t: t.along([1, 97], [98, 99]), 7)
    steps = [body for path, body in language.asked if path == "/completion"][-2:]
    assert [body["prompt"] for body in steps] == [[1, 97], [1, 97, 98]]
    for body in steps:
        assert body["post_sampling_probs"] is False
        assert body["cache_prompt"] is True
        assert body["n_predict"] == 1
        assert body["n_probs"] == 7


@pytest.mark.parametrize("way", ["llamacpp", "vllm"])
def test_the_greedy_answer_is_the_likeliest_token_at_every_place(way: str) -> None:
    before = tokens_of("hello", special=True)
    answer = ask(TinyLanguage(way, limit=VOCABULARY), lambda t: t.greedy(before, 6))
    expected: list[int] = []
    while len(expected) < 6 and LAST not in expected:
        truth = logprobs([*before, *expected])
        expected.append(max(range(VOCABULARY), key=truth.__getitem__))
    assert answer.tokens == expected


@pytest.mark.parametrize("way", ["llamacpp", "vllm"])
def test_messages_go_through_the_servers_template(way: str) -> None:
    message = [{"role": "user", "content": "hi"}]
    found = ask(TinyLanguage(way, limit=VOCABULARY), lambda t: t.prompt_tokens(message))
    assert found == tokens_of("<hi>", special=True)


def test_a_server_that_tells_none_is_refused_with_the_remedy() -> None:
    with pytest.raises(EndpointError, match="no probabilities along a given text") as caught:
        ask(TinyLanguage("none"), lambda t: t.greedy([1], 1))
    assert "vLLM" in (caught.value.remedy or "")


def test_answers_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(EndpointError, match="above zero"):
        position(1, {1: 0.5}, 1, "here")
    with pytest.raises(EndpointError, match="above zero"):
        position(1, {1: math.nan}, 1, "here")
    with pytest.raises(EndpointError, match="missing"):
        position(1, {2: -0.5}, 1, "here")
