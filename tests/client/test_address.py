from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from bakeoff.client import ClosedLoop, run_requests
from bakeoff.client.message import frame, request_head
from bakeoff.model import RequestRecord
from bakeoff.web.address import split_url

from .server import DONE, END, SSE_HEAD, RawServer, Seen, Wire, chunk, endpoint, requests, run, text_event


@pytest.mark.parametrize(
    ("url", "host", "port", "netloc", "path"),
    [
        ("http://h/v1", "h", 80, "h", "/v1"),
        ("https://api.example.com/v1", "api.example.com", 443, "api.example.com", "/v1"),
        ("http://127.0.0.1:8000/v1", "127.0.0.1", 8000, "127.0.0.1:8000", "/v1"),
        ("http://[::1]:8000/v1?a=b", "::1", 8000, "[::1]:8000", "/v1?a=b"),
        ("https://h:443", "h", 443, "h", ""),
    ],
)
def test_urls(url: str, host: str, port: int, netloc: str, path: str) -> None:
    origin, found = split_url(url)
    assert (origin.host, origin.port, origin.netloc, found) == (host, port, netloc, path)
    assert origin.tls is url.startswith("https")


def test_a_message() -> None:
    origin, path = split_url("http://h:8000/v1")
    message = frame(request_head("POST", origin, path + "/completions", {"X-A": "é"}), b"{}")
    head, _, body = message.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/completions HTTP/1.1"
    assert {"Host: h:8000", "X-A: é", "Content-Type: application/json", "Content-Length: 2"} <= set(lines)
    assert body == b"{}"


async def good(_seen: Seen, wire: Wire) -> None:
    await wire.send(SSE_HEAD, chunk(text_event("a", "stop")), chunk(DONE), END)


async def fetch(server: RawServer, url: str | None = None) -> RequestRecord:
    async with server:
        block = await run_requests(endpoint(url or server.url), requests(2), ClosedLoop(1))
        assert server.connections <= 1
        return block.records[-1]


def test_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    assert run(fetch(RawServer(good, host="::1"))).error is None


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """(certificate, key) of 127.0.0.1, signed by itself."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    pem, key = tmp_path / "pem", tmp_path / "key"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(pem)]
    subprocess.run(command, check=True, capture_output=True)
    return pem, key


def tls_server(certificate: tuple[Path, Path]) -> RawServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return RawServer(good, ssl=context)


def test_tls_with_a_trusted_certificate(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    record = run(fetch(tls_server(certificate)))
    assert (record.error, record.text) == (None, "a")


def test_tls_with_an_unknown_certificate_is_refused(certificate: tuple[Path, Path]) -> None:
    record = run(fetch(tls_server(certificate)))
    assert record.error == "connect"
    assert "certificate is not trusted" in (record.error_message or "")


def test_tls_against_a_plain_server() -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> RequestRecord:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        async with server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            return (await run_requests(endpoint(url), requests(1), ClosedLoop(1))).records[0]

    record = run(main())
    assert record.error == "connect"
    assert "TLS" in (record.error_message or "")
