"""Reading a request body: what is asked for, or why it cannot be answered. Four APIs, one kind of question."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .words import count_tokens

# Limits of the mock, as a context window limits a real server.
LARGEST_ANSWER = 1_000_000
DEFAULT_COMPLETION_TOKENS = 16  # of /v1/completions without max_tokens, as OpenAI documents it

MockApi = Literal["completions", "chat", "responses", "messages"]
PATHS: dict[str, MockApi] = {
    "/v1/completions": "completions",
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
}


class Refused(Exception):
    """The request is wrong: answered 400 with this text."""


class _Part(msgspec.Struct):
    type: str = "text"
    text: str = ""


class _Message(msgspec.Struct):
    """A message of any of the APIs; an item of /v1/responses may have no role (a tool's output)."""

    role: str = "user"
    content: str | list[_Part] | None = None
    output: str | None = None

    def text(self) -> str:
        return _text(self.content) or self.output or ""


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, str):
        return content
    return "".join([part.text for part in content or ()])


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False
    continuous_usage_stats: bool = False  # vLLM: counts in every chunk


class _Body(msgspec.Struct):
    """The fields that the mock honours; all others are accepted and change nothing."""

    model: str = "mock"
    prompt: str | list[int | str] | None = None
    messages: list[_Message] | None = None
    system: str | list[_Part] | None = None  # messages
    input: str | list[_Message] | None = None  # responses
    instructions: str | None = None  # responses
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None  # responses
    min_tokens: int | None = None
    ignore_eos: bool = False
    stream: bool = False
    stream_options: _StreamOptions | None = None
    n: int | None = None
    cache_prompt: bool = True  # llama.cpp
    cache_salt: str | None = None  # vLLM: prompts of another salt share nothing


class _TokenizeBody(msgspec.Struct):
    content: str | None = None  # llama.cpp
    prompt: str | None = None  # vLLM
    messages: list[_Message] | None = None  # vLLM, chat


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One generation request, checked. `limit` None: as long as the answer naturally is."""

    model: str
    api: MockApi
    prompt: str | tuple[int, ...]
    input_tokens: int
    limit: int | None
    least: int
    ignore_eos: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    use_cache: bool
    salt: str | None


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_tokenize = msgspec.json.Decoder(_TokenizeBody).decode


def read_ask(body: bytes, api: MockApi) -> Ask:
    """Reads a body of one of the APIs. Raises Refused."""
    try:
        raw = _decode_body(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise Refused(f"the body cannot be read: {problem}") from None
    if raw.n not in (None, 1):
        raise Refused("n must be 1")
    limit = _limit(raw, api)
    prompt: str | tuple[int, ...]
    if api == "completions":
        prompt = _completion_prompt(raw)
    elif api == "responses":
        prompt = _responses_prompt(raw)
    else:
        prompt = _chat_prompt(raw, api)
    tokens = count_tokens(prompt) if isinstance(prompt, str) else len(prompt)
    if not tokens:
        raise Refused("the prompt is empty")
    options = raw.stream_options if raw.stream else None
    return Ask(
        model=raw.model[:200],
        api=api,
        prompt=prompt,
        input_tokens=tokens,
        limit=limit,
        least=min(max(1, raw.min_tokens or 1), limit or LARGEST_ANSWER),
        ignore_eos=raw.ignore_eos,
        stream=raw.stream,
        include_usage=options is not None and options.include_usage,
        continuous_usage=options is not None and options.include_usage and options.continuous_usage_stats,
        use_cache=raw.cache_prompt,
        salt=raw.cache_salt,
    )


def _limit(raw: _Body, api: MockApi) -> int | None:
    name, limit = "max_tokens", raw.max_tokens
    if api == "responses":
        name, limit = "max_output_tokens", raw.max_output_tokens
    elif api != "messages" and raw.max_completion_tokens is not None:
        name, limit = "max_completion_tokens", raw.max_completion_tokens
    if limit is None and api == "completions":
        return DEFAULT_COMPLETION_TOKENS
    if limit is None and api == "messages":
        raise Refused("max_tokens: Field required")
    if limit is not None and not 1 <= limit <= LARGEST_ANSWER:
        raise Refused(f"{name} must be from 1 to {LARGEST_ANSWER}, it is {limit}")
    return limit


def _chat_prompt(raw: _Body, api: MockApi) -> str:
    if not raw.messages:
        raise Refused("messages must be a list with at least one message")
    texts = [message.text() for message in raw.messages]
    if api == "messages" and raw.system:
        texts.insert(0, _text(raw.system))
    return "\n".join(texts)


def _responses_prompt(raw: _Body) -> str:
    if raw.input is None:
        raise Refused("input is missing")
    texts = [raw.input] if isinstance(raw.input, str) else [item.text() for item in raw.input]
    return "\n".join([raw.instructions, *texts] if raw.instructions else texts)


def _completion_prompt(raw: _Body) -> str | tuple[int, ...]:
    prompt = raw.prompt
    if isinstance(prompt, list):
        if len(prompt) == 1 and isinstance(prompt[0], str):
            return prompt[0]
        numbers = tuple([token for token in prompt if isinstance(token, int)])
        if len(numbers) != len(prompt):
            raise Refused("one prompt a request: a text or a list of token ids")
        return numbers
    if prompt is None:
        raise Refused("prompt is missing")
    return prompt


def read_tokenize(body: bytes) -> tuple[str, bool]:
    """Reads a body of /tokenize → (text, whether it is vLLM's dialect). Raises Refused."""
    try:
        raw = _decode_tokenize(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise Refused(f"the body cannot be read: {problem}") from None
    if raw.content is not None:
        return raw.content, False
    if raw.prompt is not None:
        return raw.prompt, True
    if raw.messages is not None:
        return "\n".join([message.text() for message in raw.messages]), True
    raise Refused("content or prompt is missing")


def error_body(message: str, kind: str = "invalid_request_error", code: int = 400, api: MockApi | None = None) -> bytes:
    """An error as OpenAI and vLLM send it, or as the messages API does."""
    inner: dict[str, Any] = {"type": kind, "message": message}
    if api == "messages":
        return msgspec.json.encode({"type": "error", "error": inner})
    return msgspec.json.encode({"error": {**inner, "param": None, "code": code}})
