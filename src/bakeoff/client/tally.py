"""What follows from the counts of one answer: tokens per chunk, and what was odd about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_TOO_MANY = 2**63  # no file can hold it, and no answer has it


def tokens_per_chunk(counts: Sequence[int], others: Mapping[int, int], total: int | None) -> list[int] | None:
    """Tokens of each content chunk, from cumulative counts at each of them (-1 where not told); None: not to be told.

    `others`: choice of the chunks at those positions that do not belong to the first choice. With several choices
    some servers (vLLM) count each by itself, others all together. Counts that cannot be true are not used: each chunk
    adds at least a token, and together they are at most `total` (the last token, which ends the answer, has no text).
    """
    if -1 in counts or -1 in others.values() or max(counts, default=0) >= _TOO_MANY:
        return None
    for by_choice in (True, False) if others else (False,):
        seen: dict[int, int] = {}
        tokens = []
        for position, count in enumerate(counts):
            choice = others.get(position, 0) if by_choice else 0
            tokens.append(count - seen.get(choice, 0))
            seen[choice] = count
        if all(number > 0 for number in tokens) and (total is None or sum(tokens) <= total):
            return tokens
    return None


def oddities(**counts: int) -> dict[str, int]:
    """Those that occurred, by name. None of them is a failure; each makes some number less certain.

    content_after_finish: chunks with content behind their choice's finish_reason. events_after_end: events behind the
    stream's end (not read). other_choices: content chunks of further choices. surplus_chunks: content chunks beyond
    the server's own count of tokens (repeated ones, or a wrong usage). surplus_tokens: tokens beyond the limit that
    was sent. untrue_counts: 1 where the counts inside the chunks contradict each other or the usage. no_end,
    no_finish_reason: 1 where the stream ended without its mark, or without telling why. resent: 1 where the server had
    closed the kept connection before it saw the request, which then left once more on a fresh one.
    """
    return {name: count for name, count in counts.items() if count > 0}
