"""One event's JSON → what it adds to the answer. Understands /completions and /chat/completions.

The typed decoder takes the hot path; whatever it refuses (content as a list of parts, numbers as floats, broken
UTF-8, half a surrogate pair) goes through a tolerant slow path, because a benchmark must not fail where every
other client works.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_SURROGATES = re.compile("[\ud800-\udfff]")
_MAX_TIMINGS = 64
_EXCERPT_CHARS = 2000


class ChunkError(ValueError):
    """An event is not a JSON object."""


class Usage(msgspec.Struct, gc=False):
    """Token counts of the server, cumulative where every chunk carries them. None: not told."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None


class Delta(msgspec.Struct):
    """What one event adds. `text`, `reasoning` and `tool` are those of the first choice; `content` and `output`
    look at all choices: generated content of any kind, and generated content that is not reasoning."""

    text: str = ""
    reasoning: str = ""
    tool: str = ""
    content: bool = False
    output: bool = False
    finish_reason: str | None = None
    usage: Usage | None = None
    timings: dict[str, float] | None = None
    error: str | None = None


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct, gc=False):
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int | None = None
    text: str | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    timings: dict[str, Any] | None = None
    error: Any = None
    object: Any = None
    message: Any = None


_DECODER = msgspec.json.Decoder(_Chunk)


def decode(payload: bytes) -> Delta:
    """The delta of one event. Raises ChunkError if the payload is not a JSON object."""
    try:
        chunk = _DECODER.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        chunk = _tolerant(payload)
    delta = Delta()
    if chunk.choices:
        _read_choices(chunk.choices, delta)
    if chunk.usage is not None:
        delta.usage = _flat(chunk.usage)
    if chunk.timings:
        delta.timings = _numbers(chunk.timings)
    if chunk.error:
        delta.error = error_text(chunk.error)
    elif chunk.object == "error":
        delta.error = error_text(chunk.message)
    return delta


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
    return _clean(text if len(text) <= limit else text[: limit - 1] + "…")


def _read_choices(choices: list[_Choice], delta: Delta) -> None:
    first = True
    for choice in choices:
        text, reasoning, tool = choice.text or "", "", ""
        message = choice.delta
        if message is not None:
            text = message.content or message.refusal or text
            # Some servers send the same reasoning under both names during a renaming: take one.
            reasoning = message.reasoning_content or message.reasoning or ""
            if message.tool_calls or message.function_call:
                tool = _tool_text(message)
        if text or tool:
            delta.content = delta.output = True
        elif reasoning:
            delta.content = True
        if first and (choice.index or 0) == 0:
            first = False
            delta.text, delta.reasoning, delta.tool = text, reasoning, tool
        if choice.finish_reason and delta.finish_reason is None:
            delta.finish_reason = choice.finish_reason


def _tool_text(message: _Message) -> str:
    functions = [call.function for call in message.tool_calls or []] + [message.function_call]
    return "".join((f.name or "") + (f.arguments or "") for f in functions if f is not None)


def _flat(usage: _Usage) -> Usage:
    completion, prompt = usage.completion_tokens_details, usage.prompt_tokens_details
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        reasoning_tokens=completion.reasoning_tokens if completion else None,
        cached_tokens=prompt.cached_tokens if prompt else None,
    )


def _numbers(timings: dict[str, Any]) -> dict[str, float]:
    pairs = list(timings.items())[:_MAX_TIMINGS]
    return {k: float(v) for k, v in pairs if isinstance(v, (int, float)) and not isinstance(v, bool)}


# The slow path: any JSON object, field by field; what has an unusable type counts as absent.


def _tolerant(payload: bytes) -> _Chunk:
    try:
        # The standard library's parser also takes half surrogate pairs, which servers send when a token ends
        # inside a character.
        value = json.loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ChunkError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ChunkError(f"not a JSON object but {type(value).__name__}")
    choices = value.get("choices")
    usage, timings = value.get("usage"), value.get("timings")
    return _Chunk(
        choices=[_choice(c) for c in choices if isinstance(c, dict)] if isinstance(choices, list) else None,
        usage=_usage(usage) if isinstance(usage, dict) else None,
        timings=timings if isinstance(timings, dict) else None,
        error=value.get("error"),
        object=value.get("object"),
        message=value.get("message"),
    )


def _choice(value: dict[str, Any]) -> _Choice:
    message, reason = value.get("delta"), value.get("finish_reason")
    return _Choice(
        index=_int(value.get("index")),
        text=_text(value.get("text")),
        delta=_message(message) if isinstance(message, dict) else None,
        finish_reason=None if reason is None else _clean(str(reason))[:_EXCERPT_CHARS],
    )


def _message(value: dict[str, Any]) -> _Message:
    content, calls = value.get("content"), value.get("tool_calls")
    return _Message(
        content=_text(content),
        reasoning_content=_text(value.get("reasoning_content")) or _thinking(content),
        reasoning=_text(value.get("reasoning")),
        refusal=_text(value.get("refusal")),
        tool_calls=[_ToolCall(function=_function(c.get("function"))) for c in calls if isinstance(c, dict)]
        if isinstance(calls, list)
        else None,
        function_call=_function(value.get("function_call")),
    )


def _function(value: Any) -> _Function | None:
    if not isinstance(value, dict):
        return None
    arguments = value.get("arguments")
    if isinstance(arguments, (dict, list)):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return _Function(name=_text(value.get("name")), arguments=_text(arguments))


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list):  # content parts: [{"type": "text", "text": "…"}, …]
        parts = [p.get("text") for p in value if isinstance(p, dict)]
        return "".join(_clean(p) for p in parts if isinstance(p, str)) or None
    return None


def _thinking(value: Any) -> str | None:
    if not isinstance(value, list):
        return None
    parts = [_text(p.get("thinking")) for p in value if isinstance(p, dict)]
    return "".join(p for p in parts if p) or None


def _usage(value: dict[str, Any]) -> _Usage:
    completion, prompt = value.get("completion_tokens_details"), value.get("prompt_tokens_details")
    return _Usage(
        prompt_tokens=_int(value.get("prompt_tokens")),
        completion_tokens=_int(value.get("completion_tokens")),
        completion_tokens_details=_CompletionDetails(_int(completion.get("reasoning_tokens")))
        if isinstance(completion, dict)
        else None,
        prompt_tokens_details=_PromptDetails(_int(prompt.get("cached_tokens"))) if isinstance(prompt, dict) else None,
    )


def _int(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):  # NaN, infinity
        return None


def _clean(text: str) -> str:
    return _SURROGATES.sub("\ufffd", text)
