"""Events with `choices`: those of /completions and /chat/completions.

The typed decoder takes the hot path; whatever it refuses (content as a list of parts, numbers as floats, broken
UTF-8, half a surrogate pair) goes through a tolerant slow path, because a benchmark must not fail where every
other client works.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..chunks import Delta, Usage, clean, count_of, error_text, json_object, text_of

_MAX_TIMINGS = 64
_MAX_REASON = 2000


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


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    timings: dict[str, Any] | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


def read(payload: bytes, _name: str = "") -> Delta:
    """The delta of one event. Raises ChunkError if the payload is not a JSON object."""
    try:
        chunk = _decode(payload)
    except (msgspec.DecodeError, RecursionError):
        chunk = _tolerant(json_object(payload))
    delta = Delta()
    choices = chunk.choices
    if choices:
        for choice in choices:
            _read_choice(choice, delta)
        if len(choices) > 1:
            delta.choice = -1
    elif choices is None:
        _read_error(payload, chunk, delta)
    if chunk.usage is not None:
        delta.usage = _flat(chunk.usage)
    if chunk.timings:
        delta.timings = _numbers(chunk.timings)
    if chunk.error:
        delta.error = error_text(chunk.error)
    return delta


def _read_choice(choice: _Choice, delta: Delta) -> None:
    message = choice.delta
    reasoning = tool = None
    if message is None:
        text = choice.text
    else:
        text = message.content or message.refusal or choice.text
        # Some servers send the same reasoning under both names during a renaming: take one.
        reasoning = message.reasoning_content or message.reasoning
        if message.tool_calls or message.function_call:
            tool = _tool_text(message)
    if text or tool:
        delta.content = delta.output = True
    elif reasoning:
        delta.content = True
    if choice.index and choice.index > 0:  # of further choices only the arrival counts
        delta.choice = choice.index
        return
    if text:
        delta.text += text
    if reasoning:
        delta.reasoning += reasoning
    if tool:
        delta.tool += tool
    if choice.finish_reason:
        delta.finish_reason = choice.finish_reason


def _read_error(payload: bytes, chunk: _Chunk, delta: Delta) -> None:
    """vLLM's older form of an error: {"object": "error", "message": …}."""
    if chunk.usage is None and not chunk.error:
        value = json_object(payload)
        if value.get("object") == "error":
            delta.error = error_text(value.get("message"))


def _tool_text(message: _Message) -> str:
    functions = [call.function for call in message.tool_calls or []] + [message.function_call]
    return "".join((f.name or "") + (f.arguments or "") for f in functions if f is not None)


def _flat(usage: _Usage) -> Usage:
    completion, prompt = usage.completion_tokens_details, usage.prompt_tokens_details
    return Usage(
        usage.prompt_tokens,
        usage.completion_tokens,
        completion.reasoning_tokens if completion else None,
        prompt.cached_tokens if prompt else None,
    )


def _numbers(timings: dict[str, Any]) -> dict[str, float]:
    pairs = list(timings.items())[:_MAX_TIMINGS]
    limit = 2.0**63  # no duration and no count is beyond it, and a whole number may be too large for a float
    return {k: float(v) for k, v in pairs if type(v) in (int, float) and -limit < v < limit}


# The slow path: any JSON object, field by field; what has an unusable type counts as absent.


def _tolerant(value: dict[str, Any]) -> _Chunk:
    choices = value.get("choices")
    usage, timings = value.get("usage"), value.get("timings")
    return _Chunk(
        choices=[_choice(c) for c in choices if isinstance(c, dict)] if isinstance(choices, list) else None,
        usage=_usage(usage) if isinstance(usage, dict) else None,
        timings=timings if isinstance(timings, dict) else None,
        error=value.get("error"),
    )


def _choice(value: dict[str, Any]) -> _Choice:
    message, reason = value.get("delta"), value.get("finish_reason")
    return _Choice(
        index=count_of(value.get("index")),
        text=text_of(value.get("text")),
        delta=_message(message) if isinstance(message, dict) else None,
        finish_reason=None if reason is None else clean(str(reason))[:_MAX_REASON],
    )


def _message(value: dict[str, Any]) -> _Message:
    content, calls = value.get("content"), value.get("tool_calls")
    return _Message(
        content=text_of(content),
        reasoning_content=text_of(value.get("reasoning_content")) or _thinking(content),
        reasoning=text_of(value.get("reasoning")),
        refusal=text_of(value.get("refusal")),
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
    return _Function(name=text_of(value.get("name")), arguments=text_of(arguments))


def _thinking(content: Any) -> str:
    """Reasoning that comes as a content part: {"type": "thinking", "thinking": "…" or parts}."""
    if not isinstance(content, list):
        return ""
    return "".join(text_of(p.get("thinking")) for p in content if isinstance(p, dict))


def _usage(value: dict[str, Any]) -> _Usage:
    completion, prompt = value.get("completion_tokens_details"), value.get("prompt_tokens_details")
    return _Usage(
        prompt_tokens=count_of(value.get("prompt_tokens")),
        completion_tokens=count_of(value.get("completion_tokens")),
        completion_tokens_details=_CompletionDetails(count_of(completion.get("reasoning_tokens")))
        if isinstance(completion, dict)
        else None,
        prompt_tokens_details=_PromptDetails(count_of(prompt.get("cached_tokens")))
        if isinstance(prompt, dict)
        else None,
    )
