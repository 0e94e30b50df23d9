"""A client on a bare socket: what it sees is what was on the wire."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 20.0


@dataclass
class Reply:
    """One response, read to the end of the connection."""

    head: str
    body: bytes  # with the chunked framing removed
    complete: bool  # the framing says that this is all
    reset: bool = False
    timed_out: bool = False

    @property
    def status(self) -> int:
        return int(self.head.split(" ", 2)[1]) if self.head else 0

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> list[str]:
        """Payloads of the SSE events."""
        return [event.removeprefix("data: ") for event in self.body.decode().split("\n\n") if event]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(data) for data in self.data if data != "[DONE]"]

    @property
    def text(self) -> str:
        """Generated text of a stream."""
        choices = [event["choices"][0] for event in self.events if event.get("choices")]
        return "".join(c["text"] if "text" in c else c["delta"].get("content", "") for c in choices)


def encode(method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> bytes:
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"Host": "mock", "Content-Length": str(len(content)), "Connection": "close", **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content


def ask(port: int, body: object, *, path: str = "/v1/completions", headers: dict[str, str] | None = None) -> Reply:
    """POSTs one request and reads everything."""
    return exchange(port, encode("POST", path, body, headers))


def get(port: int, path: str, headers: dict[str, str] | None = None) -> Reply:
    return exchange(port, encode("GET", path, headers=headers))


def exchange(port: int, data: bytes, *, timeout_s: float = TIMEOUT_S) -> Reply:
    """Sends bytes and reads until the server closes, resets, or is silent for `timeout_s`."""
    received, reset, timed_out = b"", False, False
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        connection.sendall(data)
        try:
            while part := connection.recv(65536):
                received += part
        except ConnectionResetError:
            reset = True
        except TimeoutError:
            timed_out = True
    head, _, rest = received.partition(b"\r\n\r\n")
    body, complete = unframe(head.decode("latin-1"), rest)
    return Reply(head.decode("latin-1"), body, complete, reset, timed_out)


def unframe(head: str, rest: bytes) -> tuple[bytes, bool]:
    """Removes the chunked framing, or checks the length → (body, whether it is complete)."""
    lower = head.lower()
    if "content-length:" in lower:
        length = int(lower.split("content-length:")[1].split("\r\n")[0])
        return rest, len(rest) == length
    if "transfer-encoding: chunked" not in lower:
        return rest, True
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        count = int(size, 16)
        if count == 0:
            return body, rest == b"\r\n"
        body, rest = body + rest[:count], rest[count + 2 :]
    return body, False


def prompt(text: str = "Tell me a story.", *, tokens: int = 6, **more: Any) -> dict[str, Any]:
    """A streamed completion body of exactly `tokens` tokens."""
    usage = {"stream_options": {"include_usage": True}}
    return {"prompt": text, "max_tokens": tokens, "ignore_eos": True, "stream": True, **usage, **more}
