"""How many tokens an answer has, and how many each of its chunks: what servers tell, and what is made of it."""

from __future__ import annotations

import pytest

from .answers import DONE, HEAD, READ_NS, event, received, stream, text, total, usage


def test_usage_counts_and_never_the_chunks() -> None:
    r = received(stream(text("a b c"), text("d e f", "stop"), total(3, 6), DONE))
    assert (r.output_tokens, r.input_tokens, r.tokens_source, r.chunk_tokens) == (6, 3, "usage", [1, 1])


@pytest.mark.parametrize("missing", [b"", event({"choices": [], "usage": None}), total(3, 0)])
def test_without_usage_the_count_is_unknown(missing: bytes) -> None:
    r = received(stream(text("a"), text("b", "stop"), missing, DONE))
    assert (r.output_tokens, r.tokens_source, r.error) == (None, "unknown", None)


def test_usage_in_every_chunk_tells_the_tokens_of_each() -> None:
    counted = [text(t, usage=usage(3, n)) for t, n in (("", 0), ("ab", 2), ("", 3), ("cde", 6))]
    r = received(stream(*counted, text("", "stop", usage=usage(3, 7)), total(3, 7), DONE))
    assert (r.chunk_tokens, r.output_tokens, r.oddities) == ([2, 4], 7, {})  # the last token ends the answer


def test_usage_in_every_chunk_without_one_at_the_end() -> None:
    r = received(stream(text("ab", usage=usage(3, 2)), text("c", "stop", usage=usage(3, 3)), DONE))
    assert (r.chunk_tokens, r.output_tokens, r.tokens_source) == ([2, 1], 3, "usage")


@pytest.mark.parametrize("counts", [(2, 2), (3, 1), (9, 10)])
def test_counts_that_contradict_each_other_or_the_usage_are_not_used(counts: tuple[int, int]) -> None:
    events = [text("x", usage=usage(3, n)) for n in counts]
    r = received(stream(*events, text("", "stop"), total(3, 4), DONE))
    assert (r.chunk_tokens, r.output_tokens) == ([1, 1], 4)
    assert r.oddities == {"untrue_counts": 1}


def test_repeated_chunks_are_kept_and_noted() -> None:
    r = received(stream(text("a"), text("b"), text("b"), text("", "stop"), total(3, 2), DONE))
    assert (r.text, r.output_tokens, len(r.chunk_ns)) == ("abb", 2, 3)
    assert r.oddities == {"surplus_chunks": 1}


def test_more_tokens_than_the_limit_are_noted() -> None:
    r = received(stream(text("a", "length"), total(3, 20), DONE), asked=16)
    assert (r.output_tokens, r.oddities) == (20, {"surplus_tokens": 4})


def test_a_nonsense_usage_counts_as_not_told() -> None:
    wrong = event({"choices": [], "usage": {"prompt_tokens": -1, "completion_tokens": "many"}})
    r = received(stream(text("a", "stop"), wrong, DONE))
    assert (r.error, r.input_tokens, r.output_tokens, r.tokens_source) == (None, None, None, "unknown")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "9" * 400, "-3", "true", '"7"', "null", "[]"])
def test_no_number_of_a_server_breaks_the_reading(number: str) -> None:
    n = number.encode()
    body = (
        b'data: {"choices":[{"text":"a","finish_reason":"stop"}],"timings":{"predicted_n":%b,"cache_n":%b}}\n\n'
        b'data: {"choices":[{"index":%b,"text":"b"}],"usage":{"prompt_tokens":%b,"completion_tokens":%b}}\n\n'
    ) % (n, n, n, n, n)
    r = received(stream(body, DONE))
    assert (r.error, r.text[:1], len(r.chunk_ns), r.chunk_tokens) == (None, "a", 2, [1, 1])
    assert (r.input_tokens, r.output_tokens, r.cached_tokens, r.tokens_source) == (None, None, None, "unknown")


# Several choices.


def test_of_several_choices_the_first_is_kept_and_all_count_as_content() -> None:
    r = received(
        HEAD + text("x", index=1),
        text("a"),
        text("", "stop"),
        text("y", index=1),
        text("", "length", index=1) + total(3, 3) + DONE,
    )
    assert (r.text, r.finish_reason, r.error) == ("a", "stop", None)
    assert r.chunk_ns == [READ_NS, 2 * READ_NS, 4 * READ_NS]
    assert (r.first_output_ns, r.oddities) == (READ_NS, {"other_choices": 2})


@pytest.mark.parametrize(
    ("counts", "final", "tokens"),
    [
        ((1, 2, 3, 3), 6, [1, 2, 2, 1]),  # each choice by itself (vLLM)
        ((1, 3, 4, 6), 6, [1, 2, 1, 2]),  # all together
    ],
)
def test_counts_of_several_choices(counts: tuple[int, ...], final: int, tokens: list[int]) -> None:
    events = [text("x", index=i % 2, usage=usage(3, n)) for i, n in enumerate(counts)]
    r = received(stream(*events, text("", "stop"), total(3, final), DONE))
    assert r.chunk_tokens == tokens


def test_several_choices_in_one_event() -> None:
    both = event({"choices": [{"index": 1, "text": "x"}, {"index": 0, "text": "a"}], "usage": usage(3, 2)})
    r = received(stream(both, text("", "stop"), total(3, 2), DONE))
    assert (r.text, r.chunk_tokens, r.oddities) == ("a", [1], {"other_choices": 1, "untrue_counts": 1})
