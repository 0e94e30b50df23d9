"""/v1/responses: OpenAI's events, each with its type as name and a running number."""

from __future__ import annotations

from typing import Any

from .asks import Ask
from .events import FAILED, TOOL_NAME, Answered, Ending, Kind, Tokens, escaped, json_bytes, named_event

_DELTAS: dict[Kind, str] = {
    "text": "response.output_text.delta",
    "reasoning": "response.reasoning_text.delta",
    "tool": "response.function_call_arguments.delta",
}


def usage_of(tokens: Tokens) -> dict[str, Any]:
    """The usage object."""
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }


class ResponsesEvents:
    """SSE events of one streamed answer of /v1/responses."""

    def __init__(self, ask: Ask, answered: Answered) -> None:
        self._ask, self._id = ask, answered
        self._number = 0  # sequence_number of the next event
        self._output: list[dict[str, Any]] = []  # finished items
        self._kind: Kind | None = None  # of the item that is open
        self._parts: list[str] = []
        self._halves = (b"", b"")

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return named_event({"type": kind, "sequence_number": number, **fields})

    def _response(self, status: str, ending: Ending | None = None) -> dict[str, Any]:
        return {
            "id": self._id.id,
            "object": "response",
            "created_at": self._id.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": None,
            "max_output_tokens": self._ask.limit,
            "model": self._ask.model,
            "output": self._output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage_of(ending.usage) if ending is not None and ending.usage is not None else None,
            "metadata": {},
        }

    def opening(self) -> bytes:
        response = self._response("in_progress")
        created = self._event("response.created", response=response)
        return created + self._event("response.in_progress", response=response)

    def role(self) -> bytes:
        return self.nothing()

    def nothing(self) -> bytes:
        return self._event("response.in_progress", response=self._response("in_progress"))

    def content(self, text: str, tokens: int, kind: Kind) -> bytes:
        before = b"" if kind == self._kind else self._close_item() + self._open_item(kind)
        self._parts.append(text)
        number, self._number = self._number, self._number + 1
        start, end = self._halves
        return b"%b%b%d%b%b%b" % (before, start, number, end, escaped(text), b'"}\n\n')

    # An item of the output: a message, reasoning, or a tool call.

    @property
    def _item_id(self) -> str:
        prefix = {"text": "msg", "reasoning": "rs", "tool": "fc"}[self._kind or "text"]
        return f"{prefix}_{self._id.id.rpartition('_')[2]}_{len(self._output)}"

    def _item(self, text: str, status: str) -> dict[str, Any]:
        item: dict[str, Any] = {"id": self._item_id, "status": status}
        if self._kind == "tool":
            return {**item, "type": "function_call", "call_id": "call_0", "name": TOOL_NAME, "arguments": text}
        if self._kind == "reasoning":
            content = [{"type": "reasoning_text", "text": text}] if text else []
            return {**item, "type": "reasoning", "summary": [], "content": content}
        return {**item, "type": "message", "role": "assistant", "content": [_text_part(text)] if text else []}

    def _open_item(self, kind: Kind) -> bytes:
        self._kind, self._parts = kind, []
        at = len(self._output)
        opened = self._event("response.output_item.added", output_index=at, item=self._item("", "in_progress"))
        place = {"item_id": self._item_id, "output_index": at}
        if kind != "tool":
            place["content_index"] = 0
            part = _text_part("") if kind == "text" else {"type": "reasoning_text", "text": ""}
            opened += self._event("response.content_part.added", **place, part=part)
        name = _DELTAS[kind].encode()
        rest = json_bytes({**place, "logprobs": []} if kind == "text" else place)[1:-1]
        self._halves = (
            b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name),
            b',%b,"delta":"' % rest,
        )
        return opened

    def _close_item(self) -> bytes:
        if self._kind is None:
            return b""
        text, at = "".join(self._parts), len(self._output)
        place: dict[str, Any] = {"item_id": self._item_id, "output_index": at}
        if self._kind == "tool":
            closed = self._event("response.function_call_arguments.done", **place, name=TOOL_NAME, arguments=text)
        elif self._kind == "reasoning":
            closed = self._event("response.reasoning_text.done", **place, content_index=0, text=text)
            part = {"type": "reasoning_text", "text": text}
            closed += self._event("response.content_part.done", **place, content_index=0, part=part)
        else:
            closed = self._event("response.output_text.done", **place, content_index=0, text=text, logprobs=[])
            closed += self._event("response.content_part.done", **place, content_index=0, part=_text_part(text))
        item = self._item(text, "completed")
        closed += self._event("response.output_item.done", output_index=at, item=item)
        self._output.append(item)
        self._kind = None
        return closed

    def closing(self, ending: Ending) -> bytes:
        last = self._close_item()
        if ending.done and ending.reason is not None:
            status = "incomplete" if ending.reason == "length" else "completed"
            last += self._event(f"response.{status}", response=self._response(status, ending))
        return last

    def failure(self) -> bytes:
        return self._event("error", code="server_error", message=FAILED, param=None)

    def whole(self, parts: list[tuple[Kind, str]], ending: Ending) -> bytes:
        for kind, text in parts:
            if kind != self._kind:
                self._close_item()
                self._open_item(kind)
            self._parts.append(text)
        self._close_item()
        return json_bytes(self._response("incomplete" if ending.reason == "length" else "completed", ending))


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
