"""`responses`: POST /responses, OpenAI's Responses API, as OpenAI, vLLM and llama.cpp serve it.

Each event is a JSON object that names its `type`; there is no [DONE]. A text arrives in deltas and then once more as a
whole (``…done`` events, the final response): only the deltas count. Usage comes with the final response, and its
output_tokens contain those of reasoning.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..chunks import Delta, Usage, clean, count_of, error_text, text_of
from .seam import Dialect, Prompt, as_messages, reasoning_delta, text_delta, tool_delta, typed_event

_TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONING = frozenset({"response.reasoning_text.delta", "response.reasoning_summary_text.delta"})
_TOOL = frozenset(
    {
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.mcp_call_arguments.delta",
        "response.code_interpreter_call_code.delta",
    }
)
_TOOL_ITEMS = frozenset({"function_call", "custom_tool_call", "mcp_call"})
_FINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
_REASONS = {"max_output_tokens": "length"}
_MAX_REASON = 200


class _Event(msgspec.Struct):
    type: str = ""
    delta: Any = None
    item: Any = None
    response: Any = None
    error: Any = None
    message: Any = None
    code: Any = None


_DECODER = msgspec.json.Decoder(_Event)


def read(payload: bytes, name: str = "") -> Delta:
    """The delta of one event. Raises ChunkError if the payload is not a JSON object."""
    event = typed_event(_DECODER, _Event, payload)
    kind = event.type or name
    if kind in _TEXT:
        return text_delta(text_of(event.delta))
    if kind in _REASONING:
        return reasoning_delta(text_of(event.delta))
    if kind in _TOOL:
        return tool_delta(text_of(event.delta))
    if kind in _FINAL:
        return _final(kind, event.response if isinstance(event.response, dict) else {})
    if kind == "response.output_item.added" and isinstance(event.item, dict):
        # The name of a function is generated as well; its arguments follow in deltas.
        return tool_delta(text_of(event.item.get("name")) if event.item.get("type") in _TOOL_ITEMS else "")
    if event.error:
        return Delta(error=error_text(event.error))
    if kind == "error":
        return Delta(error=error_text({"message": event.message, "code": event.code} if event.message else "no reason"))
    return Delta()


def _final(kind: str, response: dict[str, Any]) -> Delta:
    delta = Delta(done=True, usage=_usage(response.get("usage")))
    if kind == "response.failed":
        delta.error = error_text(response.get("error") or "the response failed, without a reason")
    elif kind == "response.incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        reason = clean(str(reason))[:_MAX_REASON] if reason else "incomplete"
        delta.finish_reason = _REASONS.get(reason, reason)
    else:
        output = response.get("output")
        items = output if isinstance(output, list) else []
        called = any(isinstance(item, dict) and item.get("type") in _TOOL_ITEMS for item in items)
        delta.finish_reason = "tool_calls" if called else "stop"
    return delta


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    output, given = value.get("output_tokens_details"), value.get("input_tokens_details")
    return Usage(
        prompt_tokens=count_of(value.get("input_tokens")),
        completion_tokens=count_of(value.get("output_tokens")),
        reasoning_tokens=count_of(output.get("reasoning_tokens")) if isinstance(output, dict) else None,
        cached_tokens=count_of(given.get("cached_tokens")) if isinstance(given, dict) else None,
    )


# The body.


def _fields(prompt: Prompt) -> dict[str, Any]:
    # `store` defaults to true at OpenAI: keeping what was answered is no part of the work that is measured.
    if isinstance(prompt, str):
        return {"input": prompt, "store": False}
    return {"input": [item for message in as_messages(prompt) for item in _items(message)], "store": False}


def _items(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The input items of one chat message: a message, calls of functions, or the output of one."""
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        return [{"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": text_of(content)}]
    items: list[dict[str, Any]] = []
    if content:
        items.append(
            {"role": role, "content": _content(content, "output_text" if role == "assistant" else "input_text")}
        )
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        items.append(
            {
                "type": "function_call",
                "call_id": call.get("id"),
                "name": function.get("name"),
                "arguments": function.get("arguments") or "{}",
            }
        )
    return items


def _content(content: Any, text_type: str) -> Any:
    return [_part(part, text_type) for part in content] if isinstance(content, list) else content


def _part(part: Any, text_type: str) -> Any:
    if not isinstance(part, dict):
        return part
    if part.get("type") == "text":
        return {"type": text_type, "text": part.get("text")}
    image = part.get("image_url")
    if part.get("type") == "image_url" and isinstance(image, dict):
        return {"type": "input_image", "image_url": image.get("url"), "detail": image.get("detail", "auto")}
    return part


RESPONSES = Dialect(
    api="responses",
    path="/responses",
    limit="max_output_tokens",
    end="response.completed",
    fields=_fields,
    read=read,
)
