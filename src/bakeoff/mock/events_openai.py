"""/v1/completions and /v1/chat/completions, as OpenAI and vLLM send them.

The parts that do not change within a request are encoded once: no JSON is encoded per token.
"""

from __future__ import annotations

from typing import Any

from .asks import Ask
from .events import DONE, FAILED, TOOL_NAME, Answered, Ending, Kind, Tokens, data_event, escaped, json_bytes

_FAILURE = data_event({"error": {"message": FAILED, "type": "InternalServerError", "param": None, "code": 500}})


def usage_of(tokens: Tokens) -> dict[str, Any]:
    """The usage object."""
    usage: dict[str, Any] = {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    }
    if tokens.reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": tokens.reasoning}
    return usage


class OpenAIEvents:
    """SSE events of one streamed answer of /v1/completions or /v1/chat/completions."""

    def __init__(self, ask: Ask, answered: Answered) -> None:
        self._ask = ask
        self._chat = ask.api == "chat"
        self._id = answered
        name = b"chat.completion.chunk" if self._chat else b"text_completion"
        self._start = b'data: {"id":"%b","object":"%b","created":%d,"model":"%b","choices":[' % (
            answered.id.encode(),
            name,
            answered.created,
            escaped(ask.model),
        )
        self._null_usage = b',"usage":null' if ask.include_usage else b""
        self._continuous = ask.continuous_usage
        before, after = self._around("text")
        # The two halves of the most frequent event; None where each event also counts.
        self._plain = None if ask.continuous_usage else (before, after + b"]" + self._null_usage + b"}\n\n")
        self._tool_started = False

    def _around(self, kind: Kind) -> tuple[bytes, bytes]:
        """The event before and after a piece of text, up to the end of its choice."""
        choice = self._start + b'{"index":0,'
        after = b'"},"logprobs":null,"finish_reason":null}'
        if not self._chat:
            return choice + b'"text":"', b'","logprobs":null,"finish_reason":null}'
        if kind == "reasoning":
            return choice + b'"delta":{"reasoning_content":"', after
        if kind == "tool":
            start = b""
            if not self._tool_started:
                self._tool_started = True
                start = b'"id":"call_0","type":"function",'
            name = b'"name":"%b",' % TOOL_NAME.encode() if start else b""
            delta = b'"delta":{"tool_calls":[{"index":0,%b"function":{%b"arguments":"' % (start, name)
            return choice + delta, b'"}}]},"logprobs":null,"finish_reason":null}'
        return choice + b'"delta":{"content":"', after

    def opening(self) -> bytes:
        return b""

    def role(self) -> bytes:
        delta = b'"delta":{"role":"assistant","content":""}' if self._chat else b'"text":""'
        return (
            self._start + b'{"index":0,%b,"logprobs":null,"finish_reason":null}]' % delta + self._null_usage + b"}\n\n"
        )

    def nothing(self) -> bytes:
        return self._start + b"]" + self._null_usage + b"}\n\n"

    def content(self, text: str, tokens: int, kind: Kind) -> bytes:
        if kind == "text" and self._plain is not None:
            before, after = self._plain
            return before + escaped(text) + after
        before, after = self._around(kind)
        usage = self._null_usage
        if self._continuous:
            counts = (self._ask.input_tokens, tokens, self._ask.input_tokens + tokens)
            usage = b',"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}' % counts
        return before + escaped(text) + after + b"]" + usage + b"}\n\n"

    def count_always(self) -> None:
        """Counts in every chunk, asked for or not."""
        self._continuous, self._plain = True, None

    def closing(self, ending: Ending) -> bytes:
        last = b""
        if ending.reason is not None:
            content = b'"delta":{}' if self._chat else b'"text":""'
            reason = "tool_calls" if self._tool_started and ending.reason == "stop" else ending.reason
            finish = b'{"index":0,%b,"logprobs":null,"finish_reason":"%b"}]' % (content, reason.encode())
            last = self._start + finish + self._null_usage + b"}\n\n"
        if ending.usage is not None and (self._ask.include_usage or self._continuous):
            last += self._start + b'],"usage":%b}\n\n' % json_bytes(usage_of(ending.usage))
        return last + DONE if ending.done else last

    def failure(self) -> bytes:
        return _FAILURE

    def whole(self, parts: list[tuple[Kind, str]], ending: Ending) -> bytes:
        texts: dict[Kind, str] = {}
        for kind, text in parts:
            texts[kind] = texts.get(kind, "") + text
        content: dict[str, Any] = {"text": texts.get("text", "")}
        if self._chat:
            message: dict[str, Any] = {"role": "assistant", "content": texts.get("text", "")}
            if "reasoning" in texts:
                message["reasoning_content"] = texts["reasoning"]
            if "tool" in texts:
                function = {"name": TOOL_NAME, "arguments": texts["tool"]}
                message["tool_calls"] = [{"id": "call_0", "type": "function", "function": function}]
            content = {"message": message}
        answer: dict[str, Any] = {
            "id": self._id.id,
            "object": "chat.completion" if self._chat else "text_completion",
            "created": self._id.created,
            "model": self._ask.model,
            "choices": [{"index": 0, **content, "logprobs": None, "finish_reason": ending.reason}],
        }
        if ending.usage is not None:
            answer["usage"] = usage_of(ending.usage)
        return json_bytes(answer)
