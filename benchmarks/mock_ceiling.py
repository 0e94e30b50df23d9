"""How fast is the mock server? Its own ceiling, found with a client that only counts bytes.

The server runs on one core and the client on another, where there are two. Each figure is the median of the
repetitions, with the lowest and the highest. CPU is the server's own, user and system, so that it also tells on a
machine that others use.

1. Streams without latency (TTFT 0, TPOT 0), 24 at a time: tokens/s and CPU per token.
2. One-token requests without latency, 64 at a time: requests/s and CPU per request.
3. 64 streams of 50 token/s: how late each chunk is sent (stamp of the send log − deadline of the model), and CPU
   per token. Beside it, the floor: how late a loop that only sleeps wakes up on the same core, as often. The streams
   start together, so each write also waits for those of the streams whose tokens are due just before.

Run: python benchmarks/mock_ceiling.py [--repetitions 5]      (about 2 minutes)
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import cast

import psutil
import uvloop

from bakeoff.mock import SendRecord, read_send_log

SERVER_CORE, CLIENT_CORE = 1, 0


@dataclass
class Load:
    """So many streams at a time, of so many tokens, so many requests in all."""

    tokens: int
    requests: int
    concurrency: int


@dataclass
class Measured:
    seconds: float
    server_cpu_s: float
    client_cpu_s: float
    log: list[SendRecord]


class Counter(asyncio.Protocol):
    """Sends one request after the other on its connection, and reads bytes until each answer has ended."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are of no common class
        self._next()

    def data_received(self, data: bytes) -> None:
        self._shared.bytes += len(data)
        if data.endswith(b"0\r\n\r\n"):
            self._next()

    def _next(self) -> None:
        shared = self._shared
        if shared.left:
            shared.left -= 1
            self._transport.write(shared.message)
            return
        self._transport.close()
        shared.active -= 1
        if not shared.active:
            shared.done.set()


class Shared:
    """What the connections of one run share."""

    def __init__(self, load: Load) -> None:
        body = json.dumps(
            {
                "model": "mock",
                "prompt": "Tell me a story about a river and a bridge.",
                "max_tokens": load.tokens,
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        head = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        self.message = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        self.left, self.active = load.requests, load.concurrency
        self.bytes = 0
        self.done = asyncio.Event()


async def send(port: int, load: Load) -> None:
    shared = Shared(load)
    loop = asyncio.get_running_loop()
    for _ in range(load.concurrency):
        await loop.create_connection(lambda: Counter(shared), "127.0.0.1", port)
    async with asyncio.timeout(120):
        await shared.done.wait()


@contextmanager
def server(log: Path, *flags: str) -> Iterator[tuple[int, psutil.Process]]:
    command = [sys.executable, "-m", "bakeoff.mock", "--send-log", str(log), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        watched = psutil.Process(process.pid)
        if hasattr(watched, "cpu_affinity") and (os.cpu_count() or 1) > SERVER_CORE:
            watched.cpu_affinity([SERVER_CORE])
        try:
            yield int(process.stdout.readline().rpartition(":")[2]), watched
        finally:
            process.terminate()


def cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def measure(load: Load, *flags: str) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "send.jsonl")
        with server(log, *flags) as (port, process):
            uvloop.run(send(port, Load(load.tokens, load.concurrency, load.concurrency)))  # warm
            before, own, began = cpu(process), time.process_time(), time.perf_counter()
            uvloop.run(send(port, load))
            took, used = time.perf_counter() - began, cpu(process) - before
            client = time.process_time() - own
        return Measured(took, used, client, read_send_log(log)[load.concurrency :])


def lateness_ms(log: list[SendRecord], tpot_ms: float) -> list[float]:
    """Stamp − deadline of every chunk [ms]."""
    late: list[float] = []
    for record in log:
        assert record.due_first_ns is not None
        late += [(stamp - record.due_first_ns) / 1e6 - k * tpot_ms for k, stamp in enumerate(record.chunk_ns)]
    return sorted(late)


def floor_ms() -> list[float]:
    """Lateness of a process on the server's core that sleeps until each of 3,200 deadlines a second [ms]."""
    code = (
        "import os, time\n"
        f"hasattr(os, 'sched_setaffinity') and os.cpu_count() > {SERVER_CORE} and "
        f"os.sched_setaffinity(0, {{{SERVER_CORE}}})\n"
        "due = time.monotonic_ns()\n"
        "for _ in range(9600):\n"
        "    due += 312_500\n"
        "    left = due - time.monotonic_ns()\n"
        "    left > 0 and time.sleep(left / 1e9)\n"
        "    print((time.monotonic_ns() - due) / 1e6)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return sorted(float(line) for line in done.stdout.split())


def at(values: list[float], percent: float) -> float:
    """A percentile of sorted values."""
    return values[min(len(values) - 1, int(len(values) * percent / 100))]


def shown(values: list[float], form: str) -> str:
    return f"{median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = range(parser.parse_args().repetitions)
    own = psutil.Process()
    if hasattr(own, "cpu_affinity") and (os.cpu_count() or 1) > 1:
        own.cpu_affinity([CLIENT_CORE])
    streams, single, paced = Load(500, 480, 24), Load(1, 20_000, 64), Load(200, 64, 64)
    unpaced = ("--ttft", "0s", "--tpot", "0s")
    runs: dict[str, list[Measured]] = {"streams": [], "single": [], "paced": []}
    floors: list[list[float]] = []
    for _ in repetitions:  # interleaved, so that a busy minute is not one row's alone
        runs["streams"].append(measure(streams, *unpaced))
        runs["single"].append(measure(single, *unpaced))
        runs["paced"].append(measure(paced, "--ttft", "50ms", "--tpot", "20ms"))
        floors.append(floor_ms())
    rows: list[tuple[str, str]] = []
    for name, load, what in (("streams", streams, "token"), ("single", single, "request")):
        count = load.requests * (load.tokens if what == "token" else 1)
        rate = shown([count / run.seconds for run in runs[name]], ",.0f")
        used = shown([run.server_cpu_s / count * 1e6 for run in runs[name]], ".1f")
        busy = shown([run.client_cpu_s / run.seconds * 100 for run in runs[name]], ".0f")
        label = f"{load.concurrency} × {load.tokens} tokens, no latency"
        rows += [
            (f"{label}: {what}s/s", rate),
            (f"{label}: server CPU per {what} [µs]", used),
            (f"{label}: client's share of its core [%]", busy),
        ]
    late = [lateness_ms(run.log, 20.0) for run in runs["paced"]]
    for percent in (50, 99, 99.9):
        sent = [at(run, percent) for run in late]
        rows.append((f"64 × 50 token/s: send stamp − deadline, p{percent:g} [ms]", shown(sent, ".3f")))
        rows.append((f"a loop that only sleeps, p{percent:g} [ms]", shown([at(run, percent) for run in floors], ".3f")))
    each = [run.server_cpu_s / (paced.requests * paced.tokens) * 1e6 for run in runs["paced"]]
    rows.append(("64 × 50 token/s: server CPU per token [µs]", shown(each, ".1f")))
    print(f"| {len(repetitions)} repetitions, median (lowest–highest) | |\n|---|---|")
    for row in rows:
        print(f"| {row[0]} | {row[1]} |")


if __name__ == "__main__":
    main()
