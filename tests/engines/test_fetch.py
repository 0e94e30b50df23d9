"""The ways of the engines' own small requests: unix sockets, proxies and a tunnel."""

from __future__ import annotations

import base64
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from bakeoff.engines.fetch import fetch
from bakeoff.engines.openai import ENGINE
from bakeoff.errors import EndpointError

from .conftest import Site, context, variant

PASSWORD = "very-secret-p4ss"


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def address_string(self) -> str:
        return "unix"

    def do_GET(self) -> None:
        known = self.path == "/v1/models"
        body = b'{"data": [{"id": "m", "owned_by": "bakeoff"}]}' if known else b"{}"
        self.send_response(200 if known else 404)
        self.send_header("X-Host", self.headers["Host"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()


@contextmanager
def unix_server(path: Path) -> Iterator[None]:
    with socketserver.ThreadingUnixStreamServer(str(path), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("form", ["unix://{path}", "http+unix://{quoted}/v1"])
def test_a_server_behind_a_unix_socket_is_reached(tmp_path: Path, form: str) -> None:
    path = tmp_path / "server.sock"
    quoted = str(path).replace("/", "%2F")
    with unix_server(path):
        server = ENGINE.launch(variant("openai", url=form.format(path=path, quoted=quoted)), context(tmp_path))
        assert fetch(f"http+unix://{quoted}/v1/models").headers["x-host"] == "localhost"
    assert (server.endpoint.base_url, server.endpoint.model) == (f"http+unix://{quoted}/v1", "m")
    with pytest.raises(EndpointError, match="refused"):
        fetch(f"http+unix://{quoted}/v1/models")
    path.unlink()
    with pytest.raises(EndpointError, match="no such socket"):
        fetch(f"http+unix://{quoted}/v1/models")


def test_a_plain_request_goes_through_the_proxy(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", site.url.replace("://", f"://me:{PASSWORD}@"))
    # A proxy is asked with the whole URL.
    site.routes["http://far.invalid:81/v1/models"] = (200, {"data": [{"id": "m"}]})
    server = ENGINE.launch(variant("openai", url="http://far.invalid:81"), context(tmp_path))
    assert server.endpoint.model == "m"
    headers = site.seen[0][1]
    assert headers["host"] == "far.invalid:81"
    assert headers["proxy-authorization"] == "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    site.seen.clear()
    site.routes["/v1/models"] = (200, {"data": [{"id": "near"}]})
    assert fetch(f"{site.url}/v1/models").status == 200  # itself on this machine: asked without a proxy
    assert site.seen[0][0] == "/v1/models"
    assert "proxy-authorization" not in site.seen[0][1]


def test_a_proxy_that_refuses_a_tunnel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        port = listener.getsockname()[1]
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@127.0.0.1:{port}")
        with pytest.raises(EndpointError) as caught:
            fetch("https://far.invalid/v1/models", timeout_s=30.0)
        thread.join()
    assert heard[0].startswith(b"CONNECT far.invalid:443 HTTP/1.")
    assert f"through the proxy 127.0.0.1:{port}" in str(caught.value)
    assert "407" in str(caught.value)
    assert "NO_PROXY" in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_a_proxy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with pytest.raises(EndpointError, match=r"through the proxy .*: connection refused"):
        fetch("http://far.invalid/v1/models")
