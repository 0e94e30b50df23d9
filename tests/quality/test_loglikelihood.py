"""Log-likelihoods of continuations: against the language's own formula, by each way, and what is refused."""

from __future__ import annotations

import asyncio

import pytest

from bakeoff.errors import EndpointError, UsageError
from bakeoff.model import Capabilities, Endpoint
from bakeoff.quality.loglikelihood import Continuation, Likelihood, choice_logprobs

from .tiny_language import VOCABULARY, TinyLanguage, logprobs, served, tokens_of


def truth(prompt: str, text: str) -> float:
    before, own = tokens_of(prompt, special=True), tokens_of(text, special=False)
    return sum(logprobs([*before, *own[:n]])[token] for n, token in enumerate(own))


def endpoint(url: str, way: str) -> Endpoint:
    hint = way if way in ("llamacpp", "vllm") else None
    return Endpoint(base_url=url, model="tiny", capabilities=Capabilities(tokenizer=hint))


@pytest.mark.parametrize("way", ["llamacpp", "vllm", "echo"])
def test_choices_have_the_probability_of_their_tokens(way: str) -> None:
    choices = [" yes", " no", "!"]
    with served(TinyLanguage(way)) as url:
        found = asyncio.run(choice_logprobs(endpoint(url, way), "is it so?", choices))
        by_token = asyncio.run(choice_logprobs(endpoint(url, way), "is it so?", choices, normalise="tokens"))
    expected = [truth("is it so?", choice) for choice in choices]
    assert found == pytest.approx(expected)
    assert by_token == pytest.approx([e / len(c) for e, c in zip(expected, choices, strict=True)])


@pytest.mark.parametrize("way", ["llamacpp", "vllm", "echo"])
def test_a_greedy_continuation_is_known(way: str) -> None:
    before = tokens_of("ab", special=True)
    likeliest = chr(max(range(VOCABULARY), key=logprobs(before).__getitem__))

    async def main(url: str) -> list[Continuation]:
        async with Likelihood(endpoint(url, way)) as likelihood:
            return await likelihood.continuations("ab", [likeliest, "\x7f"])

    with served(TinyLanguage(way)) as url:
        found = asyncio.run(main(url))
    assert [c.greedy for c in found] == [True, False]


def test_where_a_blank_merges_with_a_word_all_choices_start_at_the_same_token() -> None:
    # "a b" reads as [a][ b]: behind the prompt "a " nothing is left of the blank, so both choices start with it.
    with served(TinyLanguage("llamacpp", merged=True)) as url:
        found = asyncio.run(choice_logprobs(endpoint(url, "llamacpp"), "a ", ["b", "c"]))
    before = tokens_of("a", special=True)
    merged = logprobs(before)[3]
    apart = logprobs(before)[32] + logprobs([*before, 32])[99]
    assert found == pytest.approx([merged, apart])


def test_chat_prompts_go_through_the_template() -> None:
    with served(TinyLanguage("llamacpp")) as url:
        (found,) = asyncio.run(choice_logprobs(endpoint(url, "llamacpp"), "hi", ["y"], chat=True))
    assert found == pytest.approx(truth("<hi>", "y"))


@pytest.mark.parametrize("way", ["llamacpp", "echo"])
def test_a_whole_text_counts_from_its_second_token(way: str) -> None:
    async def main(url: str) -> float:
        async with Likelihood(endpoint(url, way)) as likelihood:
            return await likelihood.whole("abc")

    with served(TinyLanguage(way)) as url:
        found = asyncio.run(main(url))
    # The echo does not tell the first character's: nothing stands before it.
    assert found == pytest.approx(truth("", "abc") if way == "llamacpp" else truth("a", "bc"))


def test_a_server_without_logprobs_is_refused_with_the_remedy() -> None:
    with (
        served(TinyLanguage("none")) as url,
        pytest.raises(EndpointError, match="no probabilities along a given text") as caught,
    ):
        asyncio.run(choice_logprobs(endpoint(url, "none"), "a", ["b"]))
    assert "echo" in (caught.value.remedy or "")
    assert "scorer" in (caught.value.remedy or "")


@pytest.mark.parametrize("choices", [[], [""], ["a", ""]])
def test_empty_choices_are_refused(choices: list[str]) -> None:
    with pytest.raises(UsageError):
        asyncio.run(choice_logprobs(Endpoint(base_url="http://127.0.0.1:9/v1", model="m"), "a", choices))
