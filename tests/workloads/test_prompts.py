from __future__ import annotations

import asyncio
import re
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.model import BlockSize, Load, Prompts, Workload
from bakeoff.workloads import Prompt, PromptFactory, WorkloadError, nonce
from bakeoff.workloads.text import TextStream
from bakeoff.workloads.words import ADJECTIVES, ADVERBS, NONCE_WORDS, NOUNS, PREPOSITIONS, VERBS

from .tokenizers import ALL, Toy, pairs_of_letters, pieces, words

_HEAD = re.compile(r"^(\w{4} ){5}\w{4}\.")


def _workload(tokens: int | None = 64, cache: Literal["unique", "shared"] = "unique", **prompts: Any) -> Workload:
    return Workload(
        name="chat",
        prompts=Prompts(input_tokens=tokens, **prompts),
        output_tokens=8,
        load=Load(kind="closed", levels=(1.0,)),
        block=BlockSize(requests=8),
        cache=cache,
    )


def _block(factory: PromptFactory, variant: str = "base", visit: str = "c1", **kw: int) -> list[Prompt]:
    return asyncio.run(factory.block(round=kw.get("round", 0), variant=variant, visit=visit, count=kw.get("count", 8)))


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(tokens=st.integers(0, 200), seed=st.integers(0, 2**31), round_=st.integers(0, 50))
def test_exact_under_every_tokenizer_and_in_every_arm(name: str, tokens: int, seed: int, round_: int) -> None:
    target = tokens + 40  # a nonce alone is 30 letters
    toy = Toy(ALL[name])
    factory = PromptFactory(_workload(target), seed=seed, run_id="r", tokenizer=toy)
    arms = [_block(factory, variant, round=round_, count=3) for variant in ("base", "flash")]
    for arm in arms:
        assert [prompt.input_tokens for prompt in arm] == [target] * 3
        assert [ALL[name](prompt.text) for prompt in arm] == [target] * 3
        assert {prompt.tokens_source for prompt in arm} == {"tokenizer"}
    assert factory.notes == ()
    for one, other in zip(*arms, strict=True):
        assert one.prompt_id == other.prompt_id
        assert one.text != other.text
        assert _HEAD.sub("", one.text) == _HEAD.sub("", other.text)


def test_an_ordinary_vocabulary_takes_few_batches() -> None:
    toy = Toy(pieces)
    _block(PromptFactory(_workload(2048), seed=1, run_id="r", tokenizer=toy), count=16)
    assert toy.calls <= 4  # what nonces cost, a guess, perhaps a correction, the check of the arm's own nonces


def test_the_nearest_below_is_taken_and_noted_where_no_text_is_exact() -> None:
    factory = PromptFactory(_workload(51), seed=1, run_id="r", tokenizer=Toy(pairs_of_letters))
    assert {prompt.input_tokens for prompt in _block(factory)} == {50}
    assert factory.notes == ("the tokenizer allows no text of exactly 51 tokens: the nearest is used",)


def test_a_tokenizer_that_counts_nothing_ends_too() -> None:
    factory = PromptFactory(_workload(20), seed=1, run_id="r", tokenizer=Toy(lambda _text: 0))
    assert {prompt.input_tokens for prompt in _block(factory)} == {0}
    assert len(factory.notes) == 1


@pytest.mark.parametrize("tokens", [1, 2, 3, 5, 7, 8])
def test_very_short_prompts_are_exact(tokens: int) -> None:
    factory = PromptFactory(_workload(tokens), seed=1, run_id="r", tokenizer=Toy(pieces))
    assert [pieces(prompt.text) for prompt in _block(factory)] == [tokens] * 8
    estimated = PromptFactory(_workload(tokens), seed=1, run_id="r")
    assert [pieces(prompt.text) for prompt in _block(estimated)] == [tokens] * 8


def test_without_a_tokenizer_lengths_are_estimated_and_marked() -> None:
    factory = PromptFactory(_workload(100), seed=1, run_id="r")
    block = _block(factory)
    assert {(prompt.input_tokens, prompt.tokens_source) for prompt in block} == {(100, "estimated")}
    assert {pieces(prompt.text) for prompt in block} == {100}
    assert factory.notes == ("prompt lengths are estimated: the server offers no tokenizer",)


def test_bodies_differ_by_request_round_and_seed_but_not_by_visit() -> None:
    def bodies(seed: int, round_: int = 0) -> list[str]:
        factory = PromptFactory(_workload(), seed=seed, run_id="r")
        return [_HEAD.sub("", prompt.text) for prompt in _block(factory, round=round_)]

    first, second, other = bodies(1), bodies(1, 1), bodies(2)
    assert len({*first, *second, *other}) == 24
    factory = PromptFactory(_workload(), seed=1, run_id="another run")
    assert [_HEAD.sub("", prompt.text) for prompt in _block(factory, visit="c4/warm-up")] == first


def test_prompt_ids_are_unique_over_rounds() -> None:
    factory = PromptFactory(_workload(), seed=1, run_id="r")
    assert [prompt.prompt_id for prompt in _block(factory, round=3, count=2)] == [300_000, 300_001]


def test_a_block_that_grows_keeps_its_first_prompts() -> None:
    factory = PromptFactory(_workload(), seed=1, run_id="r", tokenizer=Toy(words))
    assert _block(factory, count=3) == _block(factory, count=9)[:3]


def test_the_same_run_makes_the_same_prompts_again() -> None:
    """A resumed run continues with the prompts that it would have had."""
    blocks = [_block(PromptFactory(_workload(), seed=4, run_id="r", tokenizer=Toy(pieces)), round=2) for _ in range(2)]
    assert blocks[0] == blocks[1]


def test_shared_prompts_have_no_nonce_and_are_the_same_for_all() -> None:
    factory = PromptFactory(_workload(cache="shared"), seed=1, run_id="r", tokenizer=Toy(pieces))
    base, flash = _block(factory), _block(factory, "flash", "c4")
    assert base == flash
    assert {pieces(prompt.text) for prompt in base} == {64}
    assert not any(prompt.text.startswith(" ") for prompt in base)
    another = PromptFactory(_workload(cache="shared"), seed=1, run_id="another run", tokenizer=Toy(pieces))
    assert _block(another) == base


def test_another_tokenizer_for_the_candidate_keeps_the_text_and_says_so() -> None:
    factory = PromptFactory(_workload(), seed=1, run_id="r", tokenizer=Toy(pieces))
    base = _block(factory)
    factory.tokenizer = Toy(words)
    flash = _block(factory, "flash")
    assert [_HEAD.sub("", p.text) for p in base] == [_HEAD.sub("", p.text) for p in flash]
    assert [p.input_tokens for p in flash] == [words(p.text) for p in flash] != [64] * 8
    assert any("tokenizer differs" in note for note in factory.notes)


def test_a_nonce_that_costs_more_tokens_is_drawn_again() -> None:
    def rare_words_cost_two(text: str) -> int:
        return pieces(text) + sum(word.startswith(("b", "c")) for word in text[:29].split())

    factory = PromptFactory(_workload(), seed=1, run_id="r", tokenizer=Toy(rare_words_cost_two))
    for variant in ("base", "flash"):
        assert {rare_words_cost_two(prompt.text) for prompt in _block(factory, variant, count=64)} == {64}
    assert factory.notes == ()


@settings(deadline=None, derandomize=True)
@given(
    blocks=st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from(["base", "flash"]), st.sampled_from(["c1", "c4", "aa"])),
        unique=True,
        max_size=12,
    )
)
def test_nonces_are_unique_to_block_and_request(blocks: list[tuple[int, str, str]]) -> None:
    nonces = [nonce(("run", *block), index) for block in blocks for index in range(20)]
    assert len(set(nonces)) == len(nonces)


def test_requests_of_a_block_do_not_even_share_the_first_word() -> None:
    heads = [nonce(("run", 0, "base", "c1"), index).split()[0] for index in range(256)]
    assert len(set(heads)) == 256


def test_base_against_base_never_shares_a_nonce() -> None:
    factory = PromptFactory(_workload(), seed=1, run_id="r")
    visits = [_block(factory, visit=visit, count=200) for visit in ("c1", "aa/c1")]
    heads = {prompt.text[:30] for visit in visits for prompt in visit}
    assert len(heads) == 400
    again = PromptFactory(_workload(), seed=1, run_id="tomorrow")
    assert not heads & {prompt.text[:30] for prompt in _block(again, count=200)}


def test_all_nonce_words_have_one_size_and_no_double() -> None:
    assert len(set(NONCE_WORDS)) == 256
    assert {len(word) for word in NONCE_WORDS} == {4}


def test_words_are_plain_and_not_doubled() -> None:
    for words_ in (NOUNS, VERBS, ADJECTIVES, ADVERBS, PREPOSITIONS):
        assert len(set(words_)) == len(words_)
        assert all(re.fullmatch("[a-z]+", word) for word in words_)


def test_the_text_reads_as_sentences() -> None:
    text = TextStream(5).text(300)
    sentences = [sentence for sentence in text.split(".") if sentence]
    assert all(re.match(r" [A-Z][a-z]+ ", sentence) for sentence in sentences)
    assert 4 < 300 / len(sentences) < 18
    assert TextStream(5).text(40) == TextStream(5).text(300)[: len(TextStream(5).text(40))]


def test_what_cannot_be_built() -> None:
    with pytest.raises(WorkloadError, match="no prompt length") as caught:
        PromptFactory(_workload(None), seed=0, run_id="r")
    assert caught.value.remedy
    with pytest.raises(WorkloadError, match="no file"):
        PromptFactory(_workload(source="jsonl"), seed=0, run_id="r")
    factory = PromptFactory(_workload(), seed=0, run_id="r")
    with pytest.raises(WorkloadError, match="too large"):
        _block(factory, count=100_001)
