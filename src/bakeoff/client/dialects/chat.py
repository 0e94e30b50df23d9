"""`chat`: POST /chat/completions, OpenAI's chat API."""

from __future__ import annotations

from typing import Any

from .choices import read
from .seam import Dialect, Prompt, as_messages


def _fields(prompt: Prompt) -> dict[str, Any]:
    return {"messages": as_messages(prompt)}


CHAT = Dialect(
    api="chat",
    path="/chat/completions",
    limit="max_tokens",
    end="[DONE]",
    stream_options=True,
    fields=_fields,
    read=read,
)
