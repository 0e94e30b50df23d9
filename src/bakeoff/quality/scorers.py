"""Graders of text answers: exact, normalised, numeric, regex.

An answer that max_tokens cut counts as ``cut`` only while what is missing could still change its score: a text that has
left the expected one already is wrong, and one that has said what was asked for is right. Otherwise leaving out cut
answers would leave out the wrong ones alone.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence

from .items import MAX_ANSWER_CHARACTERS, Grade, Grader, Reply

_CUT = Grade(None, "cut", "ended by max_tokens before an answer could be read")
#: Longest text that a pattern of the user's is tried on: backtracking takes time that grows faster than the text.
_MAX_PATTERN_CHARACTERS = 16_000
_NUMBER = re.compile(
    r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?(?![\d])"
    r"|(?<![\w.])[-+−]?\.\d+"
)
_MAX_DIGITS = 300  # beyond it a number is none that a question asks for


def answer_text(text: str) -> str:
    """The answer without a model's thoughts in front of it (``<think>…</think>``), without blanks around it."""
    text = text[:MAX_ANSWER_CHARACTERS]
    _, closed, after = text.rpartition("</think>")
    if closed:
        return after.strip()
    return "" if text.lstrip().startswith("<think>") else text.strip()


def exact(expected: Sequence[str]) -> Grader:
    """Right if the whole answer, blanks around it aside, is one of the expected texts."""
    return _whole([text.strip() for text in expected], lambda text: text)


def normalised(expected: Sequence[str]) -> Grader:
    """As `exact`, without regard to case, punctuation, runs of blanks and compatible forms of characters."""
    return _whole([normal(text) for text in expected], normal)


def normal(text: str) -> str:
    """NFKC, case folded, punctuation left out, single blanks."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(" " if c.isspace() else c for c in folded if not unicodedata.category(c).startswith("P"))
    return " ".join(kept.split())


def _whole(wanted: Sequence[str], form: Callable[[str], str]) -> Grader:
    def grade(reply: Reply) -> Grade:
        given = form(answer_text(reply.text))
        if given in wanted:
            # What would have followed is unknown, but a single token often is the whole answer that is asked for.
            return Grade(1.0, given=given)
        if reply.cut and any(text.startswith(given) for text in wanted):
            return _CUT
        return Grade(0.0, given=given)

    return grade


def numeric(expected: Sequence[str]) -> Grader:
    """Right if the last number of the answer equals the (last) number of an expected text, to 9 digits.

    Raises ValueError where an expected text holds no number.
    """
    wanted = [number(text) for text in expected]
    if not wanted or any(value is None for value in wanted):
        raise ValueError("the expected answer holds no number")

    def grade(reply: Reply) -> Grade:
        if reply.cut:
            return _CUT  # another number might have followed
        value = number(answer_text(reply.text))
        if value is None:
            return Grade(0.0, reason="holds no number")
        right = any(math.isclose(value, w, rel_tol=1e-9, abs_tol=1e-9) for w in wanted if w is not None)
        return Grade(float(right), given=f"{value:g}")

    return grade


def number(text: str) -> float | None:
    """The last number in a text: ``1,234.5``, ``-3``, ``.5``, ``1e-3``; None where there is none."""
    found = None
    for match in _NUMBER.finditer(text):
        found = match[0]
    if found is None or len(found) > _MAX_DIGITS:
        return None
    value = float(found.replace(",", "").replace("−", "-"))
    return value if math.isfinite(value) else None


def regex(pattern: str, expected: Sequence[str]) -> Grader:
    """Right if what the pattern finds first (its first group, or the whole match) is, normalised, an expected text.

    Raises re.error for a pattern that is none.
    """
    compiled = re.compile(pattern)
    wanted = [normal(text) for text in expected]

    def grade(reply: Reply) -> Grade:
        text = answer_text(reply.text)[:_MAX_PATTERN_CHARACTERS]
        match = compiled.search(text)
        if match is None:
            return _CUT if reply.cut else Grade(0.0, reason="the pattern finds nothing in it")
        if reply.cut and match.end() == len(text):
            return _CUT  # the match might have gone on
        given = match[1] if compiled.groups else match[0]
        return Grade(float(normal(given or "") in wanted), given=given or "")

    return grade


def choice(expected: str) -> Grader:
    """Right if the likeliest continuation is the expected one."""

    def grade(reply: Reply) -> Grade:
        return Grade(float(reply.text == expected), given=reply.text)

    return grade
