"""A whole comparison of two servers given by URL: one behind a unix socket, the other behind a forward proxy."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bakeoff.mock import LatencyModel, running
from bakeoff.runs import RunFolder

from .test_flow import cli, only_run

PASSWORD = "planted-9f8e7d6c"
FAST = LatencyModel(ttft_s=0.004, tpot_s=0.001)


class Forwarder:
    """Takes connections on a unix socket, or as an HTTP proxy, and passes them on to one port of this machine."""

    def __init__(self, port: int, unix: Path | None = None) -> None:
        self._to = port
        self._unix = unix
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.heads: list[str] = []  # first lines and headers of all requests
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Forwarder:
        self._thread.start()
        self._ready.wait(30)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._unix is not None:
            server: asyncio.Server = await asyncio.start_unix_server(self._accepted, self._unix)
        else:
            server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        back = None
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._to)
            back = asyncio.ensure_future(_copy(from_server, writer))
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode("latin-1"))
                lines = [line.lower() for line in head.split(b"\r\n")]
                length = sum(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
                # Of a proxy's request target, the server wants the path.
                to_server.write(head.replace(b" http://far.invalid/", b" /", 1) + await reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            if back is not None:
                to_server.close()
                back.cancel()
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()
    except ConnectionError:
        pass


@contextmanager
def two_ways(folder: Path) -> Iterator[tuple[Forwarder, Forwarder]]:
    """(one on the socket `s` of the folder, a proxy); behind each, a mock of its own."""
    with (
        running(FAST) as near,
        running(FAST) as far,
        Forwarder(near.port, unix=folder / "s.sock") as socket,
        Forwarder(far.port) as proxy,
    ):
        yield socket, proxy


def test_a_unix_socket_against_a_server_behind_a_proxy(tmp_path: Path) -> None:
    options = ["--pairs", "2", "--block-requests", "4", "--concurrency", "2", "--minutes", "5"]
    options += ["--input-tokens", "24", "--output-tokens", "4", "--api", "responses", "--quiet"]
    with two_ways(tmp_path) as (socket, proxy):
        done = cli(
            *("run", "--base", f"unix://{tmp_path}/s.sock", "--candidate", "http://far.invalid/v1/responses", *options),
            cwd=tmp_path,
            HTTP_PROXY=f"http://me:{PASSWORD}@127.0.0.1:{proxy.port}",
            http_proxy="",
            NO_PROXY="",
            no_proxy="",
        )
    assert done.returncode in (0, 4), done.stderr
    folder = RunFolder.open(only_run(tmp_path))
    blocks = folder.blocks()
    assert folder.info.state == "complete"
    assert {b.block.variant for b in blocks} == {"base", "candidate"}
    assert all(b.block.errors == 0 and set(b.columns["output_tokens"]) == {4.0} for b in blocks)
    # Everything of an arm went its way: the engine's questions, the counters, the load.
    asked = {head.split(" ")[0] + " " + head.split(" ")[1] for head in proxy.heads}
    assert {"GET http://far.invalid/v1/models", "POST http://far.invalid/v1/responses"} <= asked
    assert all(target.split(" ")[1].startswith("http://far.invalid/") for target in asked)
    assert all("Proxy-Authorization: Basic " in head for head in proxy.heads)
    assert {"GET /v1/models", "POST /v1/responses"} <= {" ".join(head.split(" ")[:2]) for head in socket.heads}
    assert not any("proxy-authorization" in head.lower() for head in socket.heads)
    # Nobody learns the proxy's password.
    texts = [done.stdout.encode(), done.stderr.encode()]
    texts += [file.read_bytes() for file in folder.path.rglob("*") if file.is_file()]
    assert len(texts) > 8
    assert not any(PASSWORD.encode() in text for text in texts)
    result = json.loads((folder.path / "result.json").read_text())
    assert result["comparisons"]


def test_a_refusing_proxy_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    done = cli(
        *("run", "--base", "http://far.invalid", "--candidate", "http://farther.invalid", "--quiet"),
        cwd=tmp_path,
        HTTP_PROXY=f"http://me:{PASSWORD}@127.0.0.1:1",
        http_proxy="",
    )
    assert done.returncode == 2, done.stderr
    assert "through the proxy 127.0.0.1:1" in done.stderr
    assert "NO_PROXY" in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
