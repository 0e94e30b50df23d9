"""A prompt → the exact bytes of a request body. Nothing that affects the work is left to server defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import UsageError
from ..model import Api, Endpoint, Workload
from .chunks import count_of
from .dialects import DIALECTS, Prompt

_ENCODER = msgspec.json.Encoder()
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


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
    api: Api = "completions"  # how its answer is read
    prompt: str | None = None  # None where the prompt is token ids
    conversation: int | None = None
    turn: int = 0
    think_ns: int = 0
    asked_input_tokens: int | None = None
    asked_output_tokens: int | None = None
    # The answers of the turns before → (body, prompt as shown), where the history holds the server's own answers.
    build: Callable[[Sequence[str]], tuple[bytes, str | None]] | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request stands in its block, and what the workload wants of it.

    `output_tokens`: this prompt's own limit, where it has one; default, the workload's. `input_tokens`: the length
    that the prompt was to have. `history`: the answers of the turns before → the whole prompt of this turn, where the
    history holds the server's own answers.
    """

    index: int
    prompt_id: int
    output_tokens: int | None = None
    input_tokens: int | None = None
    conversation: int | None = None
    turn: int = 0
    think_ns: int = 0
    history: Callable[[Sequence[str]], Prompt] | None = None


def prepare(
    endpoint: Endpoint,
    workload: Workload,
    index: int,
    prompt_id: int,
    prompt: Prompt,
    *,
    output_tokens: int | None = None,
) -> PreparedRequest:
    """The request of a single prompt, as :func:`prepare_at` builds it."""
    place = Place(index=index, prompt_id=prompt_id, output_tokens=output_tokens)
    return prepare_at(endpoint, workload, prompt, place)


def prepare_at(endpoint: Endpoint, workload: Workload, prompt: Prompt, place: Place) -> PreparedRequest:
    """Builds the request of one prompt: text, token ids (completions only), or messages in OpenAI's chat form.

    The fields of ``endpoint.body`` win over all others: nested objects are merged, and None removes a field (for
    example ``{"max_tokens": None, "max_completion_tokens": 64}``). Raises UsageError for token ids where the API takes
    messages.
    """
    frame = _frame(endpoint, workload, place.output_tokens)
    body, shown = _body(endpoint, workload, frame, prompt)
    history = place.history
    return PreparedRequest(
        index=place.index,
        prompt_id=place.prompt_id,
        path=DIALECTS[workload.api].path,
        body=body,
        api=workload.api,
        prompt=shown,
        conversation=place.conversation,
        turn=place.turn,
        think_ns=place.think_ns,
        asked_input_tokens=place.input_tokens,
        asked_output_tokens=_asked(endpoint, frame),
        build=None if history is None else lambda answers: _body(endpoint, workload, frame, history(answers)),
    )


def _frame(endpoint: Endpoint, workload: Workload, output_tokens: int | None) -> dict[str, Any]:
    """The fields around a prompt, before those of the endpoint."""
    dialect, capabilities = DIALECTS[workload.api], endpoint.capabilities
    frame: dict[str, Any] = {"model": endpoint.model, dialect.limit: output_tokens or workload.output_tokens}
    frame["stream"] = True
    if dialect.stream_options and capabilities.stream_usage:
        frame["stream_options"] = {"include_usage": True}
        _merge(frame, capabilities.chunk_counts)
    sampling = workload.sampling
    frame["temperature"] = sampling.temperature
    for name in ("top_p", "top_k", "seed"):
        value = getattr(sampling, name)
        if value is not None:
            frame[name] = value
    if workload.length == "fixed" and capabilities.ignore_eos:
        frame["ignore_eos"] = True
    if workload.cache == "unique":
        _merge(frame, capabilities.cache_off)
    return frame


def _body(endpoint: Endpoint, workload: Workload, frame: Mapping[str, Any], prompt: Prompt) -> tuple[bytes, str | None]:
    """(the body, the prompt as the run folder keeps it)."""
    try:
        fields = DIALECTS[workload.api].fields(prompt)
    except UsageError as error:
        raise UsageError(error.message, where=f"workloads.{workload.name}", remedy=error.remedy) from None
    body = {**frame, **fields}
    _merge(body, endpoint.body)
    return _ENCODER.encode(body), _shown(prompt)


def _asked(endpoint: Endpoint, frame: Mapping[str, Any]) -> int | None:
    """The limit that is sent, by whichever name; None where the endpoint's body takes it out."""
    limits = {name: frame.get(name) for name in _LIMITS}
    limits.update((name, endpoint.body[name]) for name in _LIMITS if name in endpoint.body)
    return next((count for limit in limits.values() if (count := count_of(limit)) is not None), None)


def _shown(prompt: Prompt) -> str | None:
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
