"""/v1/messages: Anthropic's events."""

from __future__ import annotations

import json
from typing import Any

from .asks import Ask
from .events import FAILED, TOOL_NAME, Answered, Ending, Kind, Tokens, escaped, json_bytes, named_event

_REASONS = {"length": "max_tokens", "stop": "end_turn"}
_DELTAS: dict[Kind, tuple[str, str]] = {
    "text": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "tool": ("input_json_delta", "partial_json"),
}
_PING = named_event({"type": "ping"})
_FAILURE = named_event({"type": "error", "error": {"type": "api_error", "message": FAILED}})


def usage_of(tokens: Tokens) -> dict[str, Any]:
    """The usage object; tokens taken from the cache are not among its input tokens."""
    return {
        "input_tokens": tokens.input - tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output,
    }


class MessagesEvents:
    """SSE events of one streamed answer of /v1/messages."""

    def __init__(self, ask: Ask, answered: Answered) -> None:
        self._ask, self._id = ask, answered
        self._kind: Kind | None = None  # of the block that is open
        self._index = -1
        self._before = b""
        self._tool = False

    def _message(self, content: list[dict[str, Any]], reason: str | None, usage: Tokens | None) -> dict[str, Any]:
        message: dict[str, Any] = {
            "id": self._id.id,
            "type": "message",
            "role": "assistant",
            "model": self._ask.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
        }
        return message if usage is None else {**message, "usage": usage_of(usage)}

    def opening(self) -> bytes:
        message = self._message([], None, Tokens(self._ask.input_tokens, 0))
        return named_event({"type": "message_start", "message": message})

    def role(self) -> bytes:
        return _PING

    def nothing(self) -> bytes:
        return _PING

    def content(self, text: str, tokens: int, kind: Kind) -> bytes:
        before = b"" if kind == self._kind else self._close_block() + self._open_block(kind)
        return b"%b%b%b%b" % (before, self._before, escaped(text), b'"}}\n\n')

    def _open_block(self, kind: Kind) -> bytes:
        self._kind, self._index = kind, self._index + 1
        self._tool = self._tool or kind == "tool"
        name, field = _DELTAS[kind]
        self._before = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":"'
            % (self._index, name.encode(), field.encode())
        )
        block = _block(kind, "")
        return named_event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _close_block(self) -> bytes:
        if self._kind is None:
            return b""
        self._kind = None
        return named_event({"type": "content_block_stop", "index": self._index})

    def closing(self, ending: Ending) -> bytes:
        last = self._close_block()
        if ending.reason is not None:
            delta = {"stop_reason": self._reason(ending.reason), "stop_sequence": None}
            event: dict[str, Any] = {"type": "message_delta", "delta": delta}
            if ending.usage is not None:
                event["usage"] = usage_of(ending.usage)
            last += named_event(event)
        return last + named_event({"type": "message_stop"}) if ending.done else last

    def _reason(self, reason: str) -> str:
        return "tool_use" if self._tool and reason == "stop" else _REASONS[reason]

    def failure(self) -> bytes:
        return _FAILURE

    def whole(self, parts: list[tuple[Kind, str]], ending: Ending) -> bytes:
        texts: list[tuple[Kind, str]] = []
        for kind, text in parts:
            before = texts.pop()[1] if texts and texts[-1][0] == kind else ""
            texts.append((kind, before + text))
        self._tool = any(kind == "tool" for kind, _ in texts)
        reason = None if ending.reason is None else self._reason(ending.reason)
        return json_bytes(self._message([_block(kind, text) for kind, text in texts], reason, ending.usage))


def _block(kind: Kind, text: str) -> dict[str, Any]:
    if kind == "tool":
        return {"type": "tool_use", "id": "toolu_0", "name": TOOL_NAME, "input": json.loads(text) if text else {}}
    if kind == "reasoning":
        return {"type": "thinking", "thinking": text, "signature": ""}
    return {"type": "text", "text": text}
