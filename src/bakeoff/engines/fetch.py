"""Small HTTP requests of the engines themselves (probes, model lists), by the standard library. Nothing is measured."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from ..errors import EndpointError
from ..web.address import Origin, split_url
from ..web.proxy import Proxy, proxy_for

BODY_LIMIT = 4 * 1024 * 1024  # bytes; the model list of a large provider is about 500 kB
_SAID_LIMIT = 100  # characters of what a proxy answers


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP answer. `body` is cut at the limit that the caller set; header names are lower-case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON, or None if it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Way(NamedTuple):
    """How a URL is asked: a connection that opens itself, the request target, and the headers that the way needs."""

    connection: http.client.HTTPConnection
    target: str
    headers: dict[str, str]
    proxy: Proxy | None


def way_to(url: str, timeout_s: float) -> Way:
    """The measuring client's way: unix sockets and proxies too. Raises EndpointError for an unusable URL or proxy."""
    origin, path = split_url(url)
    proxy = proxy_for(origin)
    target, headers = path or "/", {"Host": origin.netloc}
    if proxy is not None:
        target = proxy.target(origin, target)
        headers |= proxy.headers(origin)
    return Way(_connection(origin, proxy, timeout_s), target, headers, proxy)


def fetch(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    timeout_s: float = 10.0,
    limit: int = BODY_LIMIT,
) -> Answer:
    """GET, or POST of `body` as JSON, over :func:`way_to`. Follows no redirect.

    Raises EndpointError (refused, timed out, not HTTP, TLS, name unknown, unusable proxy), which names the URL and no
    header.
    """
    connection, target, needed, proxy = way_to(url, timeout_s)
    sent = {**needed, "Accept": "*/*", "User-Agent": "bakeoff", "Connection": "close", **(headers or {})}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        sent["Content-Type"] = "application/json"
    try:
        connection.request("GET" if data is None else "POST", target, body=data, headers=sent)
        response = connection.getresponse()
        return Answer(
            status=response.status,
            headers={name.lower(): value for name, value in response.getheaders()},
            body=response.read(limit),
        )
    except (OSError, http.client.HTTPException, ValueError) as error:
        # "from None": the text of a ValueError may hold the header value that it complains about.
        raise _explained(error, url, timeout_s, proxy) from None
    finally:
        connection.close()


def _connection(origin: Origin, proxy: Proxy | None, timeout_s: float) -> http.client.HTTPConnection:
    if origin.unix is not None:
        return _UnixConnection(origin.unix, timeout_s)
    host, port = (origin.host, origin.port) if proxy is None else (proxy.host, proxy.port)
    if not origin.tls:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    connection = http.client.HTTPSConnection(host, port, timeout=timeout_s)
    if proxy is not None:
        credentials = {"Proxy-Authorization": proxy.credentials} if proxy.credentials else {}
        connection.set_tunnel(origin.host_brackets, origin.port, credentials)
    return connection


def _explained(error: Exception, url: str, timeout_s: float, proxy: Proxy | None) -> EndpointError:
    message, remedy = _reason(error, timeout_s)
    if proxy is not None:
        message = f"through the proxy {proxy}: {message}"
        remedy = f"{remedy}; or name the host in NO_PROXY, if it is to be asked without a proxy"
    return EndpointError(message, where=url, remedy=remedy)


def _reason(error: Exception, timeout_s: float) -> tuple[str, str]:
    """(what happened, what to do)."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the TLS certificate is not accepted: {error.verify_message}",
            "use the name that the certificate is for, or set SSL_CERT_FILE to your authority's certificate",
        )
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "handshake failed").replace("_", " ").lower()
        return f"TLS failed: {reason}", "does the server speak TLS on this port? if not, write http://"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there", "start the server, or correct the host and port of `url`"
    if isinstance(error, FileNotFoundError):
        return "there is no such socket", "start the server, or correct the path in `url`"
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s", "check the host, the port and the firewall"
    if isinstance(error, socket.gaierror):
        return "the host name is unknown", "correct the host of `url`"
    if isinstance(error, ConnectionError | http.client.RemoteDisconnected):
        return (
            "the server closed the connection without an answer",
            "look at the server's log; a server that speaks TLS needs https://",
        )
    if isinstance(error, http.client.HTTPException):
        return "what listens there does not speak HTTP", "correct the port of `url` (or write https://)"
    if isinstance(error, OSError):
        # Of a tunnel that a proxy refuses, the standard library tells the answer as the only argument.
        said = error.strerror or " ".join(str(error).split())[:_SAID_LIMIT] or type(error).__name__
        return f"cannot connect: {said}", "check the host and the port"
    return (
        "the request cannot be sent: the URL or a header holds a character that HTTP does not allow",
        "look for line breaks and blanks in `url`, `api_key` and `headers`",
    )
