"""What one event of a stream adds to an answer, in one form for all dialects; and a server's texts, bounded."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_SURROGATES = re.compile("[\ud800-\udfff]")
_EXCERPT_CHARS = 2000


class ChunkError(ValueError):
    """An event is not a JSON object."""


class Usage(msgspec.Struct, gc=False):
    """Token counts as the server tells them, cumulative where several events carry them. None: not told."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None

    def updated(self, later: Usage) -> Usage:
        """With what a later event tells; what it does not tell stays."""
        return Usage(
            self.prompt_tokens if later.prompt_tokens is None else later.prompt_tokens,
            self.completion_tokens if later.completion_tokens is None else later.completion_tokens,
            self.reasoning_tokens if later.reasoning_tokens is None else later.reasoning_tokens,
            self.cached_tokens if later.cached_tokens is None else later.cached_tokens,
        )


class Delta(msgspec.Struct, gc=False):
    """What one event adds. `text`, `reasoning`, `tool` and `finish_reason` are those of the first choice; `content`
    and `output` look at all choices: generated content of any kind, and generated content that is not reasoning.

    `choice`: index of the event's choice, -1 where it holds several. `done`: the event ends the stream.
    `finish_reason` is in OpenAI's words (stop, length, tool_calls, content_filter) in every dialect.
    """

    text: str = ""
    reasoning: str = ""
    tool: str = ""
    content: bool = False
    output: bool = False
    finish_reason: str | None = None
    usage: Usage | None = None
    timings: dict[str, float] | None = None
    error: str | None = None
    choice: int = 0
    done: bool = False


def error_text(value: Any) -> str:
    """A readable, bounded text for an error object, in whichever of the usual shapes it comes."""
    if isinstance(value, dict):
        inner = value.get("error")
        if inner:
            return error_text(inner)
        message = value.get("message") or value.get("detail")
        if message:
            kind = value.get("type") or value.get("code")
            text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False, default=str)
            return excerpt(f"{text} ({kind})" if kind else text)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return excerpt(text)


def excerpt(text: str, limit: int = _EXCERPT_CHARS) -> str:
    """The start of a server's text; an ellipsis tells those who look for secrets in it that one may be cut there."""
    return clean(text if len(text) <= limit else text[: limit - 1] + "…")


def clean(text: str) -> str:
    """The text without half surrogate pairs, which no file can hold."""
    return _SURROGATES.sub("\ufffd", text)


def json_object(payload: bytes) -> dict[str, Any]:
    """The tolerant way to read an event: any JSON object, broken UTF-8 replaced. Raises ChunkError."""
    try:
        # The standard library's parser also takes half surrogate pairs, which servers send when a token ends
        # inside a character.
        value = json.loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ChunkError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ChunkError(f"not a JSON object but {type(value).__name__}")
    return value


def text_of(value: Any) -> str:
    """A text, or the texts of a list of content parts; empty for anything else."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):  # content parts: [{"type": "text", "text": "…"}, …]
        parts = [p.get("text") for p in value if isinstance(p, dict)]
        return "".join(clean(p) for p in parts if isinstance(p, str))
    return ""


def count_of(value: Any) -> int | None:
    """A token count: a whole number from 0 on, in 63 bits (of a float, the whole part); None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        count = int(value)
    except (ValueError, OverflowError):  # NaN, infinity
        return None
    return count if 0 <= count < 2**63 else None
