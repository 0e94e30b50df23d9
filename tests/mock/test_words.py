from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bakeoff.mock.words import (
    Pieces,
    accented,
    answer_source,
    count_tokens,
    gibberish,
    natural_length,
    pieces,
    split_tokens,
    tokenize,
)


def test_a_word_is_a_token_and_so_is_each_mark() -> None:
    assert count_tokens("Hello, world!") == 4
    assert count_tokens("  two\n\twords ") == 2
    assert count_tokens("don't") == 3
    assert count_tokens("größe 中文 x_1") == 3
    assert count_tokens("") == 0


@given(st.text(max_size=200))
def test_ids_and_count_agree_and_are_stable(text: str) -> None:
    assert len(tokenize(text)) == count_tokens(text)
    assert tokenize(text) == tokenize(text)
    assert all(0 <= token < 32_000 for token in tokenize(text))


@given(st.integers(0, 2**31), st.text(max_size=50), st.integers(1, 300))
def test_every_piece_is_one_token_of_the_joined_text(seed: int, prompt: str, count: int) -> None:
    texts = pieces(answer_source(seed, prompt, 0), count)
    assert len(texts) == count
    assert count_tokens("".join(texts)) == count


def test_the_same_seed_and_prompt_give_the_same_text() -> None:
    def text(seed: int, prompt: str | tuple[int, ...], nonce: int = 0) -> str:
        return "".join(pieces(answer_source(seed, prompt, nonce), 40))

    assert text(1, "a prompt") == text(1, "a prompt")
    assert text(1, "a prompt") != text(2, "a prompt")
    assert text(1, "a prompt") != text(1, "another prompt")
    assert text(1, (1, 2, 3)) == text(1, (1, 2, 3)) != text(1, (1, 2, 4))
    assert text(1, "n1 a prompt") != text(1, "n2 a prompt")
    assert text(1, "n1 a prompt", 1) == text(1, "n2 a prompt", 1)
    assert text(1, (7, 2, 3), 1) == text(1, (8, 2, 3), 1)


def test_natural_lengths_have_the_mean_asked_for() -> None:
    source = answer_source(0, "x", 0)
    lengths = [natural_length(source, 100) for _ in range(4000)]
    assert 97 < sum(lengths) / len(lengths) < 103
    assert min(lengths) >= 1
    assert len(set(lengths)) > 50


def test_gibberish_is_not_words() -> None:
    text = "".join(gibberish(answer_source(0, "x", 0), 50))
    assert len(text) == 150
    assert not any(letter.isascii() for letter in text)


@given(st.integers(0, 2**31), st.lists(st.integers(0, 20), max_size=8))
def test_the_text_is_the_same_however_it_is_taken(seed: int, sizes: list[int]) -> None:
    taking = Pieces(answer_source(seed, "x", 0))
    taken = [piece for size in sizes for piece in taking(size)]
    assert taken == pieces(answer_source(seed, "x", 0), sum(sizes))


def test_accented_words_are_tokens_of_characters_of_two_three_and_four_bytes() -> None:
    text = "".join(accented(answer_source(0, "x", 0), 10))
    assert count_tokens(text) == len(split_tokens(text)) == 10
    assert {len(letter.encode()) for letter in text} == {1, 2, 3, 4}
