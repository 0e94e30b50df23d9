"""Small HTTP requests of the engines themselves (probes, model lists), by the standard library. Nothing is measured."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..errors import EndpointError

BODY_LIMIT = 4 * 1024 * 1024  # bytes; the model list of a large provider is about 500 kB


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


def fetch(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    timeout_s: float = 10.0,
    limit: int = BODY_LIMIT,
) -> Answer:
    """GET, or POST of `body` as JSON. Follows no redirect and uses no proxy, like the measuring client.

    Raises EndpointError (refused, timed out, not HTTP, TLS, name unknown), which names the URL and no header.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_s)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = {"Accept": "*/*", "User-Agent": "bakeoff", "Connection": "close", **(headers or {})}
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
        raise _explained(error, url, timeout_s) from None
    finally:
        connection.close()


def _explained(error: Exception, url: str, timeout_s: float) -> EndpointError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return EndpointError(
            f"the TLS certificate is not accepted: {error.verify_message}",
            where=url,
            remedy="use the name that the certificate is for, or set SSL_CERT_FILE to your authority's certificate",
        )
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "handshake failed").replace("_", " ").lower()
        return EndpointError(
            f"TLS failed: {reason}", where=url, remedy="does the server speak TLS on this port? if not, write http://"
        )
    if isinstance(error, ConnectionRefusedError):
        return EndpointError(
            "connection refused: nothing listens there",
            where=url,
            remedy="start the server, or correct the host and port of `url`",
        )
    if isinstance(error, TimeoutError):
        return EndpointError(
            f"no answer within {timeout_s:g} s", where=url, remedy="check the host, the port and the firewall"
        )
    if isinstance(error, socket.gaierror):
        return EndpointError("the host name is unknown", where=url, remedy="correct the host of `url`")
    if isinstance(error, ConnectionError | http.client.RemoteDisconnected):
        return EndpointError(
            "the server closed the connection without an answer",
            where=url,
            remedy="look at the server's log; a server that speaks TLS needs https://",
        )
    if isinstance(error, http.client.HTTPException):
        return EndpointError(
            "what listens there does not speak HTTP", where=url, remedy="correct the port of `url` (or write https://)"
        )
    if isinstance(error, OSError):
        return EndpointError(
            f"cannot connect: {error.strerror or type(error).__name__}", where=url, remedy="check the host and the port"
        )
    return EndpointError(
        "the request cannot be sent: the URL or a header holds a character that HTTP does not allow",
        where=url,
        remedy="look for line breaks and blanks in `url`, `api_key` and `headers`",
    )
