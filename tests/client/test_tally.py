from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.client.tally import oddities, tokens_per_chunk


@pytest.mark.parametrize(
    ("counts", "total", "tokens"),
    [
        ([], None, []),
        ([1, 3, 4], 4, [1, 2, 1]),
        ([1, 3, 4], 5, [1, 2, 1]),  # the last token has no text
        ([1, 3, 4], None, [1, 2, 1]),
        ([1, 3, 4], 3, None),
        ([1, -1, 4], 4, None),
        ([0, 1], 1, None),
        ([2, 2], 2, None),
        ([2, 1], 2, None),
        ([-5], None, None),
        ([2**63], None, None),
    ],
)
def test_one_choice(counts: list[int], total: int | None, tokens: list[int] | None) -> None:
    assert tokens_per_chunk(counts, {}, total) == tokens


_CHUNKS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=20)


@given(_CHUNKS)
def test_counts_of_each_choice_by_itself_are_found(chunks: list[tuple[int, int]]) -> None:
    seen = dict.fromkeys(range(3), 0)
    counts = []
    for choice, tokens in chunks:
        seen[choice] += tokens
        counts.append(seen[choice])
    others = {place: choice for place, (choice, _) in enumerate(chunks) if choice}
    expected = [tokens for _, tokens in chunks]
    assert tokens_per_chunk(counts, others, sum(expected)) == expected


@given(_CHUNKS)
def test_whatever_the_counts_the_tokens_can_be_true(chunks: list[tuple[int, int]]) -> None:
    counts = [tokens for _, tokens in chunks]
    others = {place: choice for place, (choice, _) in enumerate(chunks) if choice}
    tokens = tokens_per_chunk(counts, others, 30)
    assert tokens is None or (len(tokens) == len(counts) and min(tokens) > 0 and sum(tokens) <= 30)


def test_only_what_occurred_is_named() -> None:
    assert oddities(no_end=1, surplus_chunks=-3, other_choices=0) == {"no_end": 1}
