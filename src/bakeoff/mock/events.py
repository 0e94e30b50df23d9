"""What an answer looks like on the wire, whatever the API: the seam between generating and encoding."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Literal, Protocol

import msgspec

from .asks import Ask

#: What a piece of an answer is: said, thought, or arguments of a tool call.
Kind = Literal["text", "reasoning", "tool"]
DONE = b"data: [DONE]\n\n"
FAILED = "The engine failed while it was generating."
TOOL_NAME = "look_up"


class Tokens(msgspec.Struct, frozen=True):
    """Token counts as `usage` tells them."""

    input: int
    output: int
    cached: int = 0
    reasoning: int = 0


class Ending(msgspec.Struct, frozen=True):
    """How an answer ends. None where nothing is said of it."""

    reason: str | None  # length | stop
    usage: Tokens | None
    done: bool = True  # the mark that nothing follows ([DONE], or the last event of the API)


class Answered(msgspec.Struct, frozen=True):
    """What identifies an answer."""

    id: str
    created: int  # seconds since the epoch


class Events(Protocol):
    """The server-sent events of one streamed answer, and its form as one JSON document."""

    def opening(self) -> bytes:
        """What goes out as soon as the request holds a slot (often nothing)."""

    def role(self) -> bytes:
        """An event of the opening that carries no content yet."""

    def nothing(self) -> bytes:
        """An event in mid-stream that adds nothing."""

    def content(self, text: str, tokens: int, kind: Kind) -> bytes:
        """A piece of the answer; `tokens`: all so far."""

    def closing(self, ending: Ending) -> bytes:
        """All that follows the content."""

    def failure(self) -> bytes:
        """An error in mid-stream."""

    def whole(self, parts: list[tuple[Kind, str]], ending: Ending) -> bytes:
        """The answer as one document."""


def json_bytes(value: object) -> bytes:
    return msgspec.json.encode(value)


def data_event(value: object) -> bytes:
    """An event without a name."""
    return b"data: %b\n\n" % msgspec.json.encode(value)


def named_event(value: dict[str, Any]) -> bytes:
    """An event named after its `type`, as the responses and messages APIs send it."""
    return b"event: %b\ndata: %b\n\n" % (str(value["type"]).encode(), msgspec.json.encode(value))


@lru_cache(maxsize=8192)
def escaped(text: str) -> bytes:
    """Text as it stands between the quotes of a JSON string, UTF-8."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def events_for(ask: Ask, answered: Answered) -> Events:
    """The encoder of the API that was asked."""
    if ask.api == "responses":
        from .events_responses import ResponsesEvents

        return ResponsesEvents(ask, answered)
    if ask.api == "messages":
        from .events_messages import MessagesEvents

        return MessagesEvents(ask, answered)
    from .events_openai import OpenAIEvents

    return OpenAIEvents(ask, answered)
