"""Which proxy a request goes through, and both ways through one against real sockets."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping

import pytest

from bakeoff.client import ClosedLoop, HttpClient, run_requests
from bakeoff.client.target import Target
from bakeoff.errors import EndpointError
from bakeoff.model import RequestRecord
from bakeoff.web.address import split_url
from bakeoff.web.proxy import proxy_for

from .blocks import good
from .server import RawServer, endpoint, requests, run

PASSWORD = "very-secret-p4ss"
HTTP, HTTPS = "http://api.example.com/v1", "https://api.example.com/v1"


def chosen(url: str, environ: Mapping[str, str]) -> str | None:
    proxy = proxy_for(split_url(url)[0], environ)
    return None if proxy is None else str(proxy)


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        (HTTP, {}, None),
        (HTTP, {"HTTP_PROXY": "http://p:3128"}, "p:3128"),
        (HTTP, {"http_proxy": "p:1", "HTTP_PROXY": "q:2"}, "p:1"),
        (HTTPS, {"HTTP_PROXY": "http://p:3128"}, None),
        (HTTPS, {"HTTPS_PROXY": "http://p"}, "p:80"),
        (HTTPS, {"ALL_PROXY": "http://[::1]:3"}, "[::1]:3"),
        (HTTP, {"all_proxy": "http://a:1", "http_proxy": "http://h:2"}, "h:2"),
        (HTTP, {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None),
        (HTTP, {"HTTP_PROXY": "  "}, None),
        # Never to this machine.
        ("http://127.0.0.1:8000/v1", {"ALL_PROXY": "http://p:1"}, None),
        ("http://localhost/v1", {"ALL_PROXY": "http://p:1"}, None),
        ("http://[::1]:8000/v1", {"ALL_PROXY": "http://p:1"}, None),
        ("unix:///run/x.sock/v1", {"ALL_PROXY": "http://p:1"}, None),
    ],
)
def test_which_proxy(url: str, environ: dict[str, str], expected: str | None) -> None:
    assert chosen(url, environ) == expected


@pytest.mark.parametrize(
    ("listed", "url", "excluded"),
    [
        ("*", HTTP, True),
        ("example.com", HTTP, True),
        (".example.com", HTTP, True),
        ("*.example.com", HTTP, True),
        ("API.Example.com", HTTP, True),
        ("other.com, api.example.com:80", HTTP, True),
        ("api.example.com:81", HTTP, False),
        ("ple.com", HTTP, False),
        ("10.0.0.0/8", "http://10.1.2.3/v1", True),
        ("10.0.0.0/8", "http://11.1.2.3/v1", False),
        ("fd00::/8", "http://[fd00::7]:8000/v1", True),
        ("10.1.2.3", "http://10.1.2.3:9/v1", True),
        ("2.3", "http://10.1.2.3:9/v1", False),
        ("", HTTP, False),
    ],
)
def test_no_proxy(listed: str, url: str, excluded: bool) -> None:
    assert (chosen(url, {"ALL_PROXY": "p:1", "NO_PROXY": listed}) is None) is excluded


@pytest.mark.parametrize(
    "value", [f"socks5://u:{PASSWORD}@p:1", f"https://u:{PASSWORD}@p:1", f"http://u:{PASSWORD}@p:x", "http://"]
)
def test_an_unusable_proxy_is_named_and_its_value_is_not(value: str) -> None:
    with pytest.raises(EndpointError) as caught:
        chosen(HTTP, {"HTTP_PROXY": value})
    assert "HTTP_PROXY" in str(caught.value)
    assert PASSWORD not in str(caught.value)
    if value.startswith("socks"):
        assert "SOCKS" in str(caught.value)


def test_credentials_are_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{PASSWORD.replace('-', '%2d')}@p:1")
    origin = split_url(HTTP)[0]
    proxy = proxy_for(origin)
    assert proxy is not None
    encoded = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    assert proxy.headers(origin) == {"Proxy-Authorization": f"Basic {encoded}"}
    assert not any(part in f"{proxy!r} {proxy}" for part in (PASSWORD, encoded))
    target = Target(endpoint(HTTP), ["/completions"])
    head = target.heads["/completions"].decode()
    assert head.startswith("POST http://api.example.com/v1/completions HTTP/1.1\r\nHost: api.example.com\r\n")
    assert f"Proxy-Authorization: Basic {encoded}" in head
    assert target.mask(f"you sent {encoded} ({PASSWORD})") == "you sent *** (***)"


def test_a_plain_request_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[RequestRecord, RawServer]:
        async with RawServer(good) as proxy:
            monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
            got = await run_requests(endpoint("http://far.invalid:81/v1"), requests(1), ClosedLoop(1))
            await HttpClient(endpoint("http://far.invalid:81/v1")).request("GET", "/metrics", ok_statuses=None)
            return got.records[0], proxy

    record, proxy = run(main())
    assert (record.error, record.text) == (None, "ab")
    assert [seen.path for seen in proxy.seen] == [
        "http://far.invalid:81/v1/completions",
        "http://far.invalid:81/metrics",
    ]
    assert proxy.seen[0].headers["host"] == "far.invalid:81"


def tunnelled(reply: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[RequestRecord, bytes]:
    """A request to an https server through a proxy that answers CONNECT so."""
    heard: list[bytes] = []

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(reply)
        await writer.drain()
        writer.close()

    async def main() -> tuple[RequestRecord, bytes]:
        server = await asyncio.start_server(connect, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@127.0.0.1:{port}")
            got = await run_requests(endpoint("https://far.invalid/v1"), requests(1), ClosedLoop(1))
            return got.records[0], heard[0]

    return run(main())


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication Required"),
        (b"", "closed the connection"),
        (b"x" * 70_000, "not HTTP"),
    ],
)
def test_a_tunnel_that_is_refused(reply: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record, heard = tunnelled(reply, monkeypatch)
    assert record.error == "connect"
    assert why in (record.error_message or "")
    assert "through the proxy 127.0.0.1:" in (record.error_message or "")
    assert PASSWORD not in (record.error_message or "")
    assert heard.startswith(b"CONNECT far.invalid:443 HTTP/1.1\r\nHost: far.invalid:443\r\n")
    assert b"Proxy-Authorization: Basic " in heard
