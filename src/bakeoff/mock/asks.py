"""Reading a request body: what is asked for, or why it cannot be answered."""

from __future__ import annotations

import msgspec

from .words import count_tokens

# Limits of the mock, as a context window limits a real server.
LARGEST_ANSWER = 1_000_000
DEFAULT_COMPLETION_TOKENS = 16  # of /v1/completions without max_tokens, as OpenAI documents it


class Refused(Exception):
    """The request is wrong: answered 400 with this text."""


class _Part(msgspec.Struct):
    type: str = "text"
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None

    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content or ())


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Body(msgspec.Struct):
    """The fields that the mock honours; all others are accepted and change nothing."""

    model: str = "mock"
    prompt: str | list[int | str] | None = None
    messages: list[_Message] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int | None = None
    ignore_eos: bool = False
    stream: bool = False
    stream_options: _StreamOptions | None = None
    n: int | None = None
    cache_prompt: bool = True


class _TokenizeBody(msgspec.Struct):
    content: str | None = None  # llama.cpp
    prompt: str | None = None  # vLLM
    messages: list[_Message] | None = None  # vLLM, chat


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One generation request, checked. `limit` None: as long as the answer naturally is."""

    model: str
    chat: bool
    prompt: str | tuple[int, ...]
    input_tokens: int
    limit: int | None
    least: int
    ignore_eos: bool
    stream: bool
    include_usage: bool
    use_cache: bool


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_tokenize = msgspec.json.Decoder(_TokenizeBody).decode


def read_ask(body: bytes, *, chat: bool) -> Ask:
    """Reads a body of /v1/completions or /v1/chat/completions. Raises Refused."""
    try:
        raw = _decode_body(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise Refused(f"the body cannot be read: {problem}") from None
    if raw.n not in (None, 1):
        raise Refused("n must be 1")
    limit = raw.max_completion_tokens if raw.max_completion_tokens is not None else raw.max_tokens
    if limit is None and not chat:
        limit = DEFAULT_COMPLETION_TOKENS
    if limit is not None and not 1 <= limit <= LARGEST_ANSWER:
        raise Refused(f"max_tokens must be from 1 to {LARGEST_ANSWER}, it is {limit}")
    prompt = _chat_prompt(raw) if chat else _completion_prompt(raw)
    tokens = count_tokens(prompt) if isinstance(prompt, str) else len(prompt)
    if not tokens:
        raise Refused("the prompt is empty")
    return Ask(
        model=raw.model[:200],
        chat=chat,
        prompt=prompt,
        input_tokens=tokens,
        limit=limit,
        least=min(max(1, raw.min_tokens or 1), limit or LARGEST_ANSWER),
        ignore_eos=raw.ignore_eos,
        stream=raw.stream,
        include_usage=raw.stream and raw.stream_options is not None and raw.stream_options.include_usage,
        use_cache=raw.cache_prompt,
    )


def _chat_prompt(raw: _Body) -> str:
    if not raw.messages:
        raise Refused("messages must be a list with at least one message")
    return "\n".join(message.text() for message in raw.messages)


def _completion_prompt(raw: _Body) -> str | tuple[int, ...]:
    prompt = raw.prompt
    if isinstance(prompt, list):
        if len(prompt) == 1 and isinstance(prompt[0], str):
            return prompt[0]
        numbers = tuple(token for token in prompt if isinstance(token, int))
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
        return "\n".join(message.text() for message in raw.messages), True
    raise Refused("content or prompt is missing")
