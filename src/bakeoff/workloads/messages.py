"""OpenAI chat messages: checked, and split into the turns of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model import Api
from .entries import JOINT, Turn, message_text

MAX_THINK_S = 86_400.0
_THINK = "think_s"  # our own key of a message; never sent


def messages_problem(messages: object, api: Api) -> str | None:
    """What is wrong with a list of chat messages (in words that do not repeat its content), or None."""
    if not isinstance(messages, list) or not messages:
        return '"messages" must be a list that is not empty'
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return f'"messages"[{place}] must be an object with a "role"'
        content = message.get("content")
        if isinstance(content, list):
            if not all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in content):
                return f'"messages"[{place}]: each part of its content must be an object with a "type"'
            if api == "completions" and not all(isinstance(part.get("text"), str) for part in content):
                return f'"messages"[{place}] has parts that are not text; they need api: chat, responses or messages'
        elif content is not None and not isinstance(content, str):
            return f'"messages"[{place}]: its content must be text or a list of parts'
        think = message.get(_THINK)
        if think is not None and not is_think(think):
            return f'"messages"[{place}]: its "think_s" must be a number of seconds from 0 to {MAX_THINK_S:g}'
    if not any(message_text(message).strip() for message in messages):
        return '"messages" hold no text'
    return None


def is_think(value: object) -> bool:
    """Whether a value is a pause [s]."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_THINK_S


def one_turn(messages: Sequence[dict[str, Any]], output_tokens: int | None = None) -> Turn:
    """All messages as a single prompt."""
    return Turn(text=_text(messages), messages=_sendable(messages), output_tokens=output_tokens)


def split_turns(messages: Sequence[dict[str, Any]], output_tokens: int | None = None) -> tuple[Turn, ...]:
    """Messages as a conversation: each turn ends where an answer follows, or at the end of the list.

    What stands before a user's message (system, tools, a greeting) belongs to that turn. Empty where nobody asks.
    """
    turns: list[Turn] = []
    new: list[dict[str, Any]] = []
    answer: list[dict[str, Any]] = []
    for message in [*messages, None]:
        if message is not None and message["role"] == "assistant" and _asks(new):
            answer.append(message)
            continue
        if (answer or message is None) and _asks(new):
            turns.append(_turn(new, answer, output_tokens))
            new, answer = [], []
        if message is not None:
            new.append(message)
    return tuple(turns)


def _asks(messages: Sequence[dict[str, Any]]) -> bool:
    return any(message["role"] not in ("assistant", "system", "developer") for message in messages)


def _turn(new: Sequence[dict[str, Any]], answer: Sequence[dict[str, Any]], output_tokens: int | None) -> Turn:
    thinks = [message[_THINK] for message in new if message.get(_THINK) is not None]
    return Turn(
        text=_text(new),
        messages=_sendable(new),
        answer=_text(answer) if answer else None,
        answer_messages=_sendable(answer) if answer else None,
        output_tokens=output_tokens,
        think_s=float(thinks[-1]) if thinks else None,
    )


def _text(messages: Sequence[dict[str, Any]]) -> str:
    return JOINT.join(filter(None, (message_text(message) for message in messages)))


def _sendable(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in message.items() if key != _THINK} for message in messages]
