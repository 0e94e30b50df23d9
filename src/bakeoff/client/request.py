"""A prompt → the exact bytes of a request body. Nothing that affects the work is left to server defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import UsageError
from ..model import Endpoint, Workload

_ENCODER = msgspec.json.Encoder()


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, ready to send. `path` is appended to the endpoint's base_url; `body` is JSON.

    Requests of one conversation follow each other in a block's list, in the order of `turn`. A slot of a closed loop
    plays a whole conversation; in an open loop an instant starts one. A later turn leaves `think_ns` after the end
    of the answer before it.
    """

    index: int
    prompt_id: int
    path: str
    body: bytes
    prompt: str | None = None  # None where the prompt is token ids
    conversation: int | None = None
    turn: int = 0
    think_ns: int = 0
    asked_input_tokens: int | None = None
    asked_output_tokens: int | None = None
    # The answers of the turns before → (body, prompt as shown), where the history holds the server's own answers.
    build: Callable[[Sequence[str]], tuple[bytes, str | None]] | None = None


def prepare(
    endpoint: Endpoint,
    workload: Workload,
    index: int,
    prompt_id: int,
    prompt: str | list[int] | list[dict[str, Any]],
    *,
    output_tokens: int | None = None,
) -> PreparedRequest:
    """Builds the request of one prompt: text, token ids (completions only), or chat messages (chat only).

    output_tokens: this prompt's own limit, where it has one; default, the workload's.

    The fields of ``endpoint.body`` win over all others: nested objects are merged, and None removes a field (for
    example ``{"max_tokens": None, "max_completion_tokens": 64}``). Raises UsageError for token ids on a chat API.
    """
    body: dict[str, Any] = {"model": endpoint.model}
    if workload.api == "chat":
        path = "/chat/completions"
        body["messages"] = _messages(prompt, workload)
    else:
        path = "/completions"
        body["prompt"] = prompt
    body["max_tokens"] = output_tokens or workload.output_tokens
    body["stream"] = True
    if endpoint.capabilities.stream_usage:
        body["stream_options"] = {"include_usage": True}
    sampling = workload.sampling
    body["temperature"] = sampling.temperature
    for name in ("top_p", "top_k", "seed"):
        value = getattr(sampling, name)
        if value is not None:
            body[name] = value
    if workload.length == "fixed" and endpoint.capabilities.ignore_eos:
        body["ignore_eos"] = True
    if workload.cache == "unique":
        _merge(body, endpoint.capabilities.cache_off)
    _merge(body, endpoint.body)
    return PreparedRequest(
        index=index,
        prompt_id=prompt_id,
        path=path,
        body=_ENCODER.encode(body),
        prompt=_shown(prompt),
    )


def _messages(prompt: str | list[int] | list[dict[str, Any]], workload: Workload) -> list[dict[str, Any]]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    messages = [message for message in prompt if isinstance(message, dict)]
    if len(messages) != len(prompt):
        raise UsageError(
            "a chat request takes text or messages, not token ids",
            where=f"workloads.{workload.name}",
            remedy="use `api: completions` for prompts given as token ids",
        )
    return messages


def _shown(prompt: str | list[int] | list[dict[str, Any]]) -> str | None:
    """What the run folder keeps as the prompt: text, or messages as JSON; nothing for token ids."""
    if isinstance(prompt, str):
        return prompt
    if prompt and isinstance(prompt[0], dict):
        return _ENCODER.encode(prompt).decode()
    return None


def _merge(body: dict[str, Any], extra: Mapping[str, Any]) -> None:
    for key, value in extra.items():
        current = body.get(key)
        if value is None:
            body.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(current, dict):
            merged = dict(current)  # not in place: the value may be shared with the endpoint
            _merge(merged, value)
            body[key] = merged
        else:
            body[key] = value
