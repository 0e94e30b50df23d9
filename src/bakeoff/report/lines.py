"""Text in terminal columns: its width, cutting it, wrapping it."""

from __future__ import annotations

import re
import unicodedata

# A number with its unit, and an interval: one thing to the eye, so no line ends inside of it.
_ONE_THING = re.compile(r"\d (?:%|ms|s|min|h|[kMG]?B|J|W)(?![\w%])|\[[−+\d][^\[\]]{0,30}\]")


def columns(text: str) -> int:
    """Terminal columns: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fit(text: str, width: int) -> str:
    """The text, cut to so many columns with an ellipsis."""
    if columns(text) <= width:
        return text
    while text and columns(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def wrap(text: str, width: int, indent: int = 0) -> list[str]:
    """Lines of at most `width` columns; continuation lines are indented; runs of spaces inside a line are kept."""
    lines: list[str] = []
    while columns(text) > width:
        cut = len(fit(text, width + 1).removesuffix("…"))
        begin = len(text) - len(text.lstrip()) + 1
        space = _last_space(text, begin, cut + 1)
        if space < 0:
            space = text.find(" ", cut)  # a word longer than the line (a path) is left whole
        if space < 0:
            break
        lines.append(text[:space].rstrip())
        text = " " * indent + text[space:].lstrip()
    lines.append(text)
    return lines


def _last_space(text: str, begin: int, end: int) -> int:
    """Place of the last space in text[begin:end] at which a line may end, else -1."""
    one_thing = [match.span() for match in _ONE_THING.finditer(text[: end + 40])]
    space = plain = text.rfind(" ", begin, end)
    while space >= 0 and any(start < space < stop for start, stop in one_thing):
        space = text.rfind(" ", begin, space)
    return plain if space < 0 else space
