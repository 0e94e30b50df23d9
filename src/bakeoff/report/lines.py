"""Text in terminal columns: its width, cutting it, wrapping it."""

from __future__ import annotations

import unicodedata


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
        space = text.rfind(" ", indent + 1, cut + 1)
        if space <= len(text) - len(text.lstrip()):
            space = text.find(" ", cut)  # a word longer than the line (a path) is left whole
        if space < 0:
            break
        lines.append(text[:space].rstrip())
        text = " " * indent + text[space:].lstrip()
    lines.append(text)
    return lines
