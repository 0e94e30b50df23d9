"""OpenAI's JSON around generated text. The parts that do not change within a request are encoded once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from .asks import Ask

DONE = b"data: [DONE]\n\n"
ERROR_EVENT = (
    b'data: {"error":{"message":"The engine failed while it was generating.",'
    b'"type":"InternalServerError","param":null,"code":500}}\n\n'
)


def json_bytes(value: object) -> bytes:
    return msgspec.json.encode(value)


@lru_cache(maxsize=4096)
def escaped(text: str) -> bytes:
    """Text as it stands between the quotes of a JSON string, UTF-8."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def usage_of(input_tokens: int, output_tokens: int, cached_tokens: int) -> dict[str, Any]:
    """The usage object."""
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


class StreamEncoder:
    """SSE events of one streamed answer."""

    def __init__(self, ask: Ask, answer_id: str, created: int) -> None:
        self._chat = ask.chat
        self._frame: dict[str, Any] = {
            "id": answer_id,
            "object": "chat.completion.chunk" if ask.chat else "text_completion",
            "created": created,
            "model": ask.model,
        }
        self._null_usage: dict[str, Any] = {"usage": None} if ask.include_usage else {}
        # The event around a piece of text, cut where the text goes: no JSON is encoded per token. Cut at the last
        # marker: what comes after the text holds nothing that a client chose.
        self._before, self._after = self._event("\x00").rsplit(b"\\u0000", 1)

    def _event(self, text: str | None, *, finish: str | None = None, role: bool = False) -> bytes:
        choice: dict[str, Any] = {"index": 0}
        if self._chat:
            delta: dict[str, Any] = {"role": "assistant", "content": ""} if role else {}
            choice["delta"] = delta if text is None else {**delta, "content": text}
        else:
            choice["text"] = text or ""
        choice |= {"logprobs": None, "finish_reason": finish}
        return b"data: " + json_bytes({**self._frame, "choices": [choice], **self._null_usage}) + b"\n\n"

    def role(self) -> bytes:
        """Chat: the chunk that carries nothing but the role."""
        return self._event(None, role=True)

    def content(self, text: bytes) -> bytes:
        """A chunk of already escaped text."""
        return b"%b%b%b" % (self._before, text, self._after)

    def finish(self, reason: str) -> bytes:
        """The chunk with finish_reason and no content."""
        return self._event(None, finish=reason)

    def usage(self, usage: dict[str, Any]) -> bytes:
        """The last chunk of `include_usage`: no choices."""
        return b"data: " + json_bytes({**self._frame, "choices": [], "usage": usage}) + b"\n\n"


def whole_answer(
    ask: Ask, answer_id: str, created: int, pieces: Sequence[str], ending: tuple[str, dict[str, Any] | None]
) -> bytes:
    """The JSON body of an answer that is not streamed; `ending` = (finish reason, usage or None)."""
    reason, usage = ending
    text = "".join(pieces)
    content: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if ask.chat else {"text": text}
    answer: dict[str, Any] = {
        "id": answer_id,
        "object": "chat.completion" if ask.chat else "text_completion",
        "created": created,
        "model": ask.model,
        "choices": [{"index": 0, **content, "logprobs": None, "finish_reason": reason}],
    }
    if usage is not None:
        answer["usage"] = usage
    return json_bytes(answer)
