"""Escape-by-default HTML: text and attribute values are always escaped, only `Markup` made here passes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

_VOID = frozenset(("br", "hr", "meta", "img", "col", "input", "link"))
# Characters that HTML forbids, and lone surrogates, which no encoding can write.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Words of ours are short; a lone backtick of a server's answer must not turn the rest of its line into code.
_CODE = re.compile(r"`([^`\n]{1,120})`")


class Markup(str):
    """Text that is already HTML. Built by `h`, the SVG writer and `join` only; never from what others wrote."""

    __slots__ = ()


Child: TypeAlias = "str | Markup | Iterable[Child] | None"


def h(tag: str, attributes: Mapping[str, str | bool | None] | None = None, *children: Child) -> Markup:
    """One element. An attribute of None or False is left out, True is written without a value."""
    written = []
    for name, value in (attributes or {}).items():
        if value is True:
            written.append(f" {name}")
        elif value is not None and value is not False:
            written.append(f' {name}="{_escape(value, quote=True)}"')
    if tag in _VOID:
        return Markup(f"<{tag}{''.join(written)}>")
    return Markup(f"<{tag}{''.join(written)}>{join(children)}</{tag}>")


def join(children: Iterable[Child]) -> Markup:
    """The children one after another; every plain text escaped."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(_escape(child, quote=False))
        else:
            parts.append(join(child))
    return Markup("".join(parts))


def prose(text: str) -> Markup:
    """A sentence, escaped; what it has in backticks (a command, a setting) as code."""
    pieces = _CODE.split(text)
    return join(h("code", None, piece) if at % 2 else piece for at, piece in enumerate(pieces))


def _escape(text: str, *, quote: bool) -> str:
    return html.escape(_FORBIDDEN.sub("\ufffd", text), quote=quote)
