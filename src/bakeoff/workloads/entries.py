"""What a file of prompts holds: single prompts and recorded conversations, in one form."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec

# Between the turns of a conversation, where it is sent as one text.
JOINT = "\n\n"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What one request adds to its conversation.

    text: all new text. messages: the same as chat messages, where the file gives them so (else one user message is
    meant). answer: the recorded answer, which the history of later turns holds; with its message as recorded, where
    there is one. output_tokens: the file's own limit. think_s: pause before the turn, where the file names it [s].
    """

    text: str
    messages: list[dict[str, Any]] | None = None
    answer: str | None = None
    answer_messages: list[dict[str, Any]] | None = None
    output_tokens: int | None = None
    think_s: float | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a file: at least one turn."""

    turns: tuple[Turn, ...]

    @property
    def text(self) -> str:
        """The text of the first turn."""
        return self.turns[0].text


def joined(turns: Sequence[Turn], answers: Sequence[str] | None = None) -> str:
    """The prompt of the last of the turns as one text. answers: of the turns before it; None: the recorded ones."""
    parts: list[str] = []
    for place, turn in enumerate(turns):
        parts.append(turn.text)
        if place < len(turns) - 1:
            parts.append((turn.answer if answers is None else answers[place]) or "")
    return JOINT.join(parts)


def as_messages(turns: Sequence[Turn], answers: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The same as chat messages; a copy that the caller may change."""
    messages: list[dict[str, Any]] = []
    for place, turn in enumerate(turns):
        messages.extend(turn.messages or [{"role": "user", "content": turn.text}])
        if place == len(turns) - 1:
            break
        if answers is not None:
            messages.append({"role": "assistant", "content": answers[place]})
        else:
            messages.extend(turn.answer_messages or [{"role": "assistant", "content": turn.answer or ""}])
    return copy.deepcopy(messages)


def headed(head: str, glue: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the head in front of the first one, which a chat template puts first, too. In place."""
    if not head:
        return messages
    first = messages[0]
    if isinstance(first.get("content"), list):
        first["content"].insert(0, {"type": "text", "text": head})
    else:
        text = message_text(first)
        first["content"] = f"{head}{glue}{text}" if text else head
    return messages


def message_text(message: dict[str, Any]) -> str:
    """All text of one chat message."""
    content = message.get("content")
    if isinstance(content, list):
        texts = (part.get("text") for part in content)
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""
