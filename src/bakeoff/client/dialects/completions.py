"""`completions`: POST /completions, as OpenAI defined it and llama.cpp, vLLM, SGLang and TGI serve it."""

from __future__ import annotations

from typing import Any

from .choices import read
from .seam import Dialect, Prompt


def _fields(prompt: Prompt) -> dict[str, Any]:
    return {"prompt": prompt}


COMPLETIONS = Dialect(
    api="completions",
    path="/completions",
    limit="max_tokens",
    end="[DONE]",
    stream_options=True,
    fields=_fields,
    read=read,
)
