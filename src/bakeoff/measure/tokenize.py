"""Counting tokens with the server's own tokenizer, over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..client import HttpClient
from ..errors import EndpointError
from ..model import Endpoint


class HttpTokenizer:
    """Counts without special tokens (BOS and the like), by llama.cpp's or vLLM's ``/tokenize``."""

    def __init__(self, endpoint: Endpoint, client: HttpClient) -> None:
        self._endpoint = endpoint
        self._client = client
        self._dialect = endpoint.capabilities.tokenizer

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Token counts, in the order of the texts. Raises EndpointError when the answer has no tokens."""
        # One after the other over one connection: servers with a thread a connection (llama.cpp) would let further
        # ones wait until an idle one times out, which takes seconds.
        return [await self._count(text) for text in texts]

    async def _count(self, text: str) -> int:
        body: dict[str, Any]
        if self._dialect == "vllm":
            body = {"model": self._endpoint.model, "prompt": text, "add_special_tokens": False}
        else:
            body = {"content": text, "add_special": False}
        answer = await self._client.post_json("/tokenize", body)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        if isinstance(tokens, list):
            return len(tokens)
        raise EndpointError(
            "the tokenizer answered without a list of tokens",
            where="/tokenize",
            remedy="set `tokenizer: none` for this variant; prompt lengths are then estimated and marked so",
        )
