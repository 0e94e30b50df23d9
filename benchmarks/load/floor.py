"""The floor: a raw asyncio reader that stamps what it reads and looks at nothing but the end of an answer.

What it gets wrong is the network's and the event loop's share; no client on this loop can be closer to the truth.
Only after the last answer are its bytes taken apart. Run by run.py.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from task import Task, body, child_task

END = b"0\r\n\r\n"


class Reader(asyncio.Protocol):
    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._reads: list[tuple[int, bytes]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self) -> None:
        self._reads = []
        self._crowd.answers.append((time.monotonic_ns(), self._reads))
        self.transport.write(self._crowd.message)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._reads.append((time.monotonic_ns(), data))
        if data.endswith(END):
            self._crowd.ended(self)


class Crowd:
    """All connections; a closed loop sends again when an answer has ended, an open one does not."""

    def __init__(self, task: Task) -> None:
        url = urlsplit(task.url)
        payload = json.dumps(body(task.tokens)).encode()
        self.message = (
            f"POST /v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\n\r\n"
        ).encode() + payload
        self.host, self.port = url.hostname, url.port
        self.task = task
        self.answers: list[tuple[int, list[tuple[int, bytes]]]] = []
        self.through = 0
        self.done = asyncio.Event()

    def ended(self, reader: Reader) -> None:
        self.through += 1
        if self.through == self.task.requests:
            self.done.set()
        elif not self.task.rate and len(self.answers) < self.task.requests:
            reader.send()

    async def play(self) -> None:
        loop = asyncio.get_running_loop()
        count = self.task.requests if self.task.rate else min(self.task.concurrency, self.task.requests)
        readers = [(await loop.create_connection(lambda: Reader(self), self.host, self.port))[1] for _ in range(count)]
        for number, reader in enumerate(readers):
            if self.task.rate:
                loop.call_later(number / self.task.rate, reader.send)
            else:
                reader.send()
        await self.done.wait()
        for reader in readers:
            reader.transport.abort()  # type: ignore[attr-defined]


def stamps(reads: list[tuple[int, bytes]]) -> list[int]:
    """When each chunk with content was complete."""
    found: list[int] = []
    rest = b""
    for at, data in reads:
        *whole, rest = (rest + data).split(b"\n\n")
        for event in whole:
            _, _, payload = event.partition(b"data: ")
            if payload.startswith(b"{"):
                choices = json.loads(payload)["choices"]
                if choices and choices[0]["text"]:
                    found.append(at)
    return found


def main() -> None:
    task = child_task()
    gc.disable()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        async def play() -> Crowd:
            crowd = Crowd(task)
            await crowd.play()
            return crowd

        cpu = time.process_time()
        crowd = runner.run(play())
        cpu = time.process_time() - cpu
    seen = [{"start": sent / 1e9, "sent": sent / 1e9, "chunks": stamps(reads)} for sent, reads in crowd.answers]
    Path(task.out).write_text(json.dumps({"seen": seen, "cpu_s": cpu}))


if __name__ == "__main__":
    main()
