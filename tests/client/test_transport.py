"""Unix sockets, tunnels, time-outs of each phase, and how many connections there may be."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from bakeoff.client import ClientBlock, ClosedLoop, HttpClient, Timeouts, run_requests
from bakeoff.client.descriptors import allow_connections, prefer_connections
from bakeoff.errors import EndpointError, UsageError
from bakeoff.model import RequestRecord
from bakeoff.web.address import split_url

from .blocks import good, one
from .server import SSE_HEAD, RawServer, Seen, Wire, chunk, endpoint, requests, run, text_event
from .test_address import certificate

__all__ = ["certificate"]


# Unix sockets.


@pytest.mark.parametrize(
    ("url", "unix", "path"),
    [
        ("http+unix://%2Frun%2Fa%20b.sock/v1", "/run/a b.sock", "/v1"),
        ("http+unix://%2Frun%2FServer/v1?x=1", "/run/Server", "/v1?x=1"),
        ("unix:///run/a.sock", "/run/a.sock", ""),
        ("unix:///run/a.sock/v1", "/run/a.sock", "/v1"),
        ("unix:///run/x.d/a%20b.sock/openai/v1", "/run/x.d/a b.sock", "/openai/v1"),
    ],
)
def test_urls_of_unix_sockets(url: str, unix: str, path: str) -> None:
    origin, found = split_url(url)
    assert (origin.unix, found, origin.tls, origin.netloc) == (unix, path, False, "localhost")
    assert str(origin) == f"unix:{unix}"


@pytest.mark.parametrize("url", ["unix:///run/a/v1", "unix://run/a.sock", "http+unix://run%2Fa.sock/v1", "unix:a.sock"])
def test_urls_that_name_no_socket(url: str) -> None:
    with pytest.raises(EndpointError, match="unix"):
        split_url(url)


def test_a_block_and_a_question_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"

    async def main() -> tuple[ClientBlock, int]:
        async with RawServer(good, unix=path) as server:
            got = await run_requests(endpoint(server.url), requests(4), ClosedLoop(2))
            answer = await HttpClient(endpoint(server.url)).request("GET", "/metrics")
            assert server.seen[-1].path == "/metrics"
            assert server.seen[0].headers["host"] == "localhost"
            return got, answer.status

    got, status = run(main())
    assert [(r.error, r.text) for r in got.records] == [(None, "ab")] * 4
    assert status == 200


def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    async def main() -> RequestRecord:
        got = await run_requests(endpoint(f"unix://{tmp_path}/no.sock/v1"), requests(1), ClosedLoop(1))
        return got.records[0]

    record = run(main())
    assert record.error == "connect"
    assert "no such socket" in (record.error_message or "")


# TLS inside a proxy's tunnel.


@pytest.mark.parametrize("runner", ["uvloop", "asyncio"])
def test_tls_through_a_tunnel(runner: str, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        finally:
            writer.close()

    async def main() -> tuple[ClientBlock, list[bytes]]:
        asked: list[bytes] = []
        pumps: list[asyncio.Task[None]] = []

        async with RawServer(good, ssl=context) as server:

            async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
                inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                pumps.append(asyncio.ensure_future(pump(reader, inner_writer)))
                pumps.append(asyncio.ensure_future(pump(inner_reader, writer)))

            proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
            async with proxy:
                monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
                monkeypatch.setattr("bakeoff.web.proxy._loopback", lambda _host: False)
                got = await run_requests(endpoint(server.url), requests(4), ClosedLoop(2))
                for task in pumps:
                    task.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                await asyncio.sleep(0)  # lets the transports close
                return got, [line.replace(b"%d" % server.port, b"PORT") for line in asked]

    if runner == "uvloop":
        got, asked = run(main())
    else:
        with asyncio.Runner() as standard:
            got, asked = standard.run(main())
    assert [(r.error, r.error_message, r.text) for r in got.records] == [(None, None, "ab")] * 4
    assert asked == [b"CONNECT 127.0.0.1:PORT HTTP/1.1"] * 2


# Time-outs.


async def silent(_seen: Seen, _wire: Wire) -> None:
    await asyncio.sleep(60)


async def starts_and_stops(_seen: Seen, wire: Wire) -> None:
    await wire.send(SSE_HEAD, chunk(text_event("a")))
    await asyncio.sleep(60)


async def drips(_seen: Seen, wire: Wire) -> None:
    await wire.send(SSE_HEAD)
    while True:
        await wire.send(chunk(text_event("a")))
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "limits", "says", "text"),
    [
        (silent, {"first_byte_s": 0.1}, "no byte of an answer within 0.1 s", ""),
        (silent, {"request_s": 0.1}, "no end of the answer within 0.1 s", ""),
        (silent, {"request_s": 0.1, "idle_s": 0.02}, "no end of the answer", ""),  # not a gap between bytes
        (starts_and_stops, {"idle_s": 0.1, "first_byte_s": 30.0}, "the answer stood still for 0.1 s", "a"),
        (drips, {"idle_s": 30.0, "request_s": 0.2}, "no end of the answer within 0.2 s", "a"),
    ],
)
def test_each_phase_has_its_limit(script: Any, limits: dict[str, float], says: str, text: str) -> None:
    record = one(script, timeouts=Timeouts(**limits))
    assert record.error == "timeout"
    assert says in (record.error_message or "")
    assert record.text.startswith(text)


def test_a_connection_that_never_opens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel accepts; no TLS handshake follows
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/v1"

        async def main() -> RequestRecord:
            limits = Timeouts(connect_s=0.1)
            return (await run_requests(endpoint(url), requests(1), ClosedLoop(1), timeouts=limits)).records[0]

        record = run(main())
    assert record.error == "connect"
    assert "no connection within 0.1 s" in (record.error_message or "")


def test_a_server_notices_that_its_answer_is_no_longer_wanted() -> None:
    async def main() -> None:
        left = asyncio.Semaphore(0)

        async def until_gone(_seen: Seen, wire: Wire) -> None:
            await wire.send(SSE_HEAD, chunk(text_event("a")))
            await wire.gone()
            left.release()

        async with RawServer(until_gone) as server:
            limits = Timeouts(request_s=0.1)
            await run_requests(endpoint(server.url), requests(2), ClosedLoop(2), timeouts=limits)
            await left.acquire()
            await left.acquire()

    run(main())


# How many.


def test_over_a_thousand_requests_are_in_flight_at_once() -> None:
    count = 1200
    waiting: list[asyncio.Event] = []

    async def main() -> ClientBlock:
        all_there = asyncio.Event()

        async def gather(_seen: Seen, wire: Wire) -> None:
            waiting.append(all_there)
            if len(waiting) == count:  # answers only once all of them have been asked
                all_there.set()
            await all_there.wait()
            await good(_seen, wire)

        allow_connections(2 * count)  # both ends are in this process
        async with RawServer(gather, backlog=2048) as server:
            return await run_requests(endpoint(server.url), requests(count), ClosedLoop(count))

    got = run(main())
    assert [r.error for r in got.records] == [None] * count


def test_the_limit_of_descriptors_is_raised_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _what: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _what, pair: limits.append(pair))
    allow_connections(100)
    assert limits == [(1024, 4096)]
    allow_connections(2000)
    assert limits[-1] == (2256, 4096)
    prefer_connections(9000)  # an open loop may need as many; nobody knows
    assert limits[-1] == (4096, 4096)
    limits[-1] = (1024, 4096)
    with pytest.raises(UsageError, match="5000 connections at a time need 5256 file descriptors"):
        allow_connections(5000)

    def refuse(_what: int, _pair: tuple[int, int]) -> None:
        raise ValueError("not allowed")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pytest.raises(UsageError, match="cannot be raised"):
        allow_connections(3000)
    prefer_connections(3000)
