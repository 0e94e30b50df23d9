"""What a dialect is: how a request's body is built, how an event is read, and what ends the stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from ...errors import UsageError
from ...model import Api
from ..chunks import Delta, json_object

E = TypeVar("E", bound=msgspec.Struct)

#: Text, token ids (completions only), or messages in the form of OpenAI's chat API.
Prompt: TypeAlias = str | list[int] | list[dict[str, Any]]


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """One API. Everything that is common to all of them (model, stream, sampling) is not its business."""

    api: Api
    path: str  # below the endpoint's base URL
    limit: str  # the body field that limits the answer [tokens]
    end: str  # what ends its stream, as messages name it
    stream_options: bool = False  # knows OpenAI's `stream_options` and engines' extensions to it
    #: The prompt → body fields. Raises UsageError for a prompt that the API cannot take.
    fields: Callable[[Prompt], dict[str, Any]]
    #: (an event's data, its type as SSE names it) → what it adds. Raises ChunkError if it is not a JSON object.
    read: Callable[[bytes, str], Delta]


def as_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """The prompt as chat messages. Raises UsageError for token ids."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    messages = [message for message in prompt if isinstance(message, dict)]
    if len(messages) != len(prompt):
        raise UsageError(
            "a request of messages takes text or messages, not token ids",
            remedy="use `api: completions` for prompts given as token ids",
        )
    return messages


def typed_event(decoder: msgspec.json.Decoder[E], kind: type[E], payload: bytes) -> E:
    """The event as `kind`, whose fields but a textual `type` take anything. What the decoder refuses (broken UTF-8,
    another type of `type`) is read tolerantly. Raises ChunkError if the payload is not a JSON object."""
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        value = json_object(payload)
    name = value.pop("type", None)
    known = {field: value[field] for field in kind.__struct_fields__ if field in value}
    return kind(type=name if isinstance(name, str) else "", **known)


def text_delta(text: str) -> Delta:
    """Generated text; nothing where it is empty."""
    return Delta(text=text, content=bool(text), output=bool(text))


def reasoning_delta(text: str) -> Delta:
    """Generated reasoning."""
    return Delta(reasoning=text, content=bool(text))


def tool_delta(text: str) -> Delta:
    """Generated text of a tool call: a name, or a part of its arguments."""
    return Delta(tool=text, content=bool(text), output=bool(text))
