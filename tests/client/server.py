"""A tiny raw HTTP server on 127.0.0.1: each test says byte by byte what it answers."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from bakeoff.client import Clock, PreparedRequest, loop_runner
from bakeoff.model import Endpoint

SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSING_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"


class Seen:
    """One request as it arrived."""

    def __init__(self, head: bytes, body: bytes, connection: int) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = lines[0].split(" ")
        self.headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:] if line)}
        self.body = body
        self.connection = connection  # number of the connection, from 0

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """The server's side of one connection."""

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self._writer = writer
        self._reader = reader

    async def send(self, *parts: bytes) -> None:
        """Sends the parts in one write."""
        self._writer.write(b"".join(parts))
        await self._writer.drain()

    async def apart(self, *parts: bytes, gap_s: float = 0.02) -> None:
        """Sends the parts so far apart that each is a read of its own."""
        for part in parts:
            await self.send(part)
            await asyncio.sleep(gap_s)

    async def gone(self) -> None:
        """Waits until the client has closed the connection."""
        try:
            while await self._reader.read(1024):
                pass
        except ConnectionError:
            pass

    def close(self) -> None:
        """An orderly end (FIN)."""
        self._writer.close()

    def reset(self) -> None:
        """A hard end (RST)."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    @property
    def closed(self) -> bool:
        return self._writer.is_closing()


T = TypeVar("T")
Script = Callable[[Seen, Wire], Awaitable[None]]


class RawServer:
    """``async with RawServer(script) as server``: the script answers every request; keep-alive unless it closes."""

    def __init__(self, script: Script, host: str = "127.0.0.1", unix: Path | None = None, **options: Any) -> None:
        self._host = host
        self._unix = unix
        self._script = script
        self._options = options
        self._tasks: set[asyncio.Task[None]] = set()
        self._arrival = asyncio.Event()
        self.seen: list[Seen] = []
        self.connections = 0
        self.hung_up = 0  # connections that the client closed

    async def __aenter__(self) -> RawServer:
        self.port = 0
        if self._unix is not None:
            self._server = await asyncio.start_unix_server(self._accepted, self._unix, **self._options)
            return self
        self._server = await asyncio.start_server(self._accepted, self._host, 0, **self._options)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        if self._unix is not None:
            return f"unix://{self._unix}/v1"
        scheme = "https" if "ssl" in self._options else "http"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self.port}/v1"

    async def arrived(self, count: int) -> None:
        """Waits until that many requests have arrived."""
        while len(self.seen) < count:
            self._arrival.clear()
            await self._arrival.wait()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        number, self.connections = self.connections, self.connections + 1
        wire = Wire(writer, reader)
        try:
            while not wire.closed:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(li.split(b":")[1]) for li in head.split(b"\r\n") if li.lower().startswith(b"content-length")),
                    0,
                )
                seen = Seen(head, await reader.readexactly(length), number)
                self.seen.append(seen)
                self._arrival.set()
                await self._script(seen, wire)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.hung_up += 1
        except asyncio.CancelledError:
            pass  # the test is over; streams would report a cancelled handler as an error
        finally:
            self._tasks.discard(task)
            writer.close()


class SkippingClock:
    """A clock whose sleeps take no real time but move the clock on."""

    def __init__(self, real: Clock) -> None:
        self._real = real
        self._ahead_ns = 0
        self.slept: list[float] = []

    def monotonic_ns(self) -> int:
        return self._real.monotonic_ns() + self._ahead_ns

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._ahead_ns += round(seconds * 1e9)
        await asyncio.sleep(0)


def run(work: Awaitable[T]) -> T:
    """Runs on the loop that measurements run on."""

    async def main() -> T:
        return await work

    with loop_runner() as runner:
        return runner.run(main())


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(value: Any) -> bytes:
    """One SSE event with a JSON value."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def text_event(text: str, finish: str | None = None, **more: Any) -> bytes:
    """A /completions chunk."""
    return event({"choices": [{"index": 0, "text": text, "finish_reason": finish}], **more})


def chat_event(finish: str | None = None, **delta: Any) -> bytes:
    """A /chat/completions chunk."""
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def usage_event(prompt: int, completion: int, **more: Any) -> bytes:
    """The trailing usage chunk, with empty choices."""
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}})


def answer(status: str, body: bytes, *headers: str) -> bytes:
    """A whole answer with Content-Length."""
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers])
    return head.encode() + b"\r\n\r\n" + body


def endpoint(url: str, **more: Any) -> Endpoint:
    return Endpoint(base_url=url, model="m", **more)


def requests(count: int) -> list[PreparedRequest]:
    return [
        PreparedRequest(index=i, prompt_id=i + 100, path="/completions", body=b'{"n":%d}' % i, prompt=f"p{i}")
        for i in range(count)
    ]
