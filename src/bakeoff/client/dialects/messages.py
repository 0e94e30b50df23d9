"""`messages`: POST /messages, Anthropic's Messages API, as Anthropic, vLLM, SGLang and llama.cpp serve it.

A message comes as content blocks (text, thinking, tool use), each in deltas; ``message_delta`` tells the stop reason
and the cumulative usage, ``message_stop`` ends the stream. The output_tokens of ``message_start`` are a placeholder.
input_tokens leave out what was read from the cache or written to it, so the prompt is the sum of the three.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..chunks import Delta, Usage, clean, count_of, error_text, text_of
from .seam import Dialect, Prompt, as_messages, reasoning_delta, text_delta, tool_delta, typed_event

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_MAX_REASON = 200


class _Event(msgspec.Struct):
    type: str = ""
    delta: Any = None
    content_block: Any = None
    usage: Any = None
    message: Any = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_Event)


def read(payload: bytes, name: str = "") -> Delta:
    """The delta of one event. Raises ChunkError if the payload is not a JSON object."""
    event = typed_event(_DECODER, _Event, payload)
    kind = event.type or name
    if kind == "content_block_delta":
        return _block_delta(event.delta)
    if kind == "content_block_start":
        return _block_start(event.content_block)
    if kind == "message_start" and isinstance(event.message, dict):
        usage = _usage(event.message.get("usage"))
        if usage is not None:
            usage.completion_tokens = None
        return Delta(usage=usage)
    if kind == "message_delta":
        reason = event.delta.get("stop_reason") if isinstance(event.delta, dict) else None
        reason = clean(str(reason))[:_MAX_REASON] if reason else None
        return Delta(usage=_usage(event.usage), finish_reason=_REASONS.get(reason, reason) if reason else None)
    if event.error or kind == "error":
        return Delta(error=error_text(event.error or event.message or "no reason"))
    return Delta(done=kind == "message_stop")


def _block_delta(delta: Any) -> Delta:
    if not isinstance(delta, dict):
        return Delta()
    kind = delta.get("type")
    if kind == "text_delta":
        return text_delta(text_of(delta.get("text")))
    if kind == "thinking_delta":
        return reasoning_delta(text_of(delta.get("thinking")))
    if kind == "input_json_delta":
        return tool_delta(text_of(delta.get("partial_json")))
    return Delta()  # a signature or a citation is not generated text


def _block_start(block: Any) -> Delta:
    """Blocks start empty, but for the name of a tool, which is generated too."""
    if not isinstance(block, dict):
        return Delta()
    kind = block.get("type")
    if kind == "text":
        return text_delta(text_of(block.get("text")))
    if kind == "thinking":
        return reasoning_delta(text_of(block.get("thinking")))
    return tool_delta(text_of(block.get("name")) if kind in ("tool_use", "server_tool_use") else "")


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    given, cached = count_of(value.get("input_tokens")), count_of(value.get("cache_read_input_tokens"))
    written = count_of(value.get("cache_creation_input_tokens"))
    details = value.get("output_tokens_details")
    # A message_delta may repeat the input or leave it out; some servers write 0 for "see message_start".
    prompt = None if given is None else (given + (cached or 0) + (written or 0)) or None
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=count_of(value.get("output_tokens")),
        reasoning_tokens=count_of(details.get("thinking_tokens")) if isinstance(details, dict) else None,
        cached_tokens=cached if prompt is not None else None,
    )


# The body.


def _fields(prompt: Prompt) -> dict[str, Any]:
    system: list[str] = []
    messages: list[dict[str, Any]] = []
    for message in as_messages(prompt):
        if message.get("role") in ("system", "developer"):
            system.append(text_of(message.get("content")))
        else:
            messages.append(_message(message))
    fields: dict[str, Any] = {"messages": messages}
    if system:
        fields["system"] = "\n\n".join(system)
    return fields


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """One chat message in Anthropic's form; results of tools are the user's there."""
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": text_of(content)}
        return {"role": "user", "content": [result]}
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    if isinstance(content, list):
        content = [_part(part) for part in content]
    if calls:
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
        content = [*blocks, *calls]
    return {"role": role, "content": content}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (TypeError, ValueError):
        arguments = {}
    return {"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": arguments}


def _part(part: Any) -> Any:
    image = part.get("image_url") if isinstance(part, dict) else None
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str):
        return part
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        kind = head.removeprefix("data:").removesuffix(";base64")
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
    return {"type": "image", "source": {"type": "url", "url": url}}


MESSAGES = Dialect(
    api="messages",
    path="/messages",
    limit="max_tokens",
    end="message_stop",
    fields=_fields,
    read=read,
)
