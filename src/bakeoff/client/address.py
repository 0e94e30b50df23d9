"""URLs and request heads: what stands in front of a body on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from ..errors import EndpointError

_PORTS = {"http": 80, "https": 443}
# Framing is the client's business; a user's value would make the message unreadable.
_OWN_HEADERS = ("content-length", "transfer-encoding", "connection")


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Scheme, host and port: what a connection is opened to."""

    scheme: str
    host: str
    port: int

    @property
    def tls(self) -> bool:
        return self.scheme == "https"

    @property
    def netloc(self) -> str:
        """Host and port as the Host header wants them (IPv6 in brackets, a default port left out)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}"


def split_url(url: str) -> tuple[Origin, str]:
    """(origin, path with query) of an http or https URL. Raises EndpointError, never showing user info."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname
    except ValueError as error:
        raise EndpointError(f"this URL cannot be read: {error}", remedy="write http://host:port/v1") from None
    if parts.scheme not in _PORTS or not host:
        raise EndpointError(
            f"not an http(s) URL (scheme {parts.scheme!r}, host {host!r})", remedy="write http://host:port/v1"
        )
    if parts.username or parts.password:
        raise EndpointError(
            "the URL holds a user name or password",
            where=host,
            remedy="take it out of the URL and send it as a header, with the secret in the environment",
        )
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    if any(ord(c) <= 32 or ord(c) == 127 for c in path + host):
        raise EndpointError("the URL holds blanks or control characters", where=host, remedy="percent-encode them")
    return Origin(scheme=parts.scheme, host=host, port=port or _PORTS[parts.scheme]), path


def join_url(base_url: str, path: str) -> str:
    """`path` (with a leading slash) below the base URL; a query of the base URL stays at the end."""
    base, mark, query = base_url.partition("?")
    return base.rstrip("/") + path + mark + query


def request_head(
    method: str, origin: Origin, path: str, headers: Mapping[str, str], *, accept: str = "text/event-stream"
) -> bytes:
    """Everything of a request up to the value of Content-Length, which the caller appends with two line ends.

    `headers` replace the defaults of the same name. Raises EndpointError for a header that would break the message
    (its value is not shown: it may be a key).
    """
    fields = {
        "host": ("Host", origin.netloc),
        "user-agent": ("User-Agent", "bakeoff"),
        "accept": ("Accept", accept),
        # Compression would delay and merge the chunks whose arrival is measured.
        "accept-encoding": ("Accept-Encoding", "identity"),
    }
    if method == "POST":
        fields["content-type"] = ("Content-Type", "application/json")
    for name, value in headers.items():
        if name.lower() in _OWN_HEADERS:
            continue
        if any(c in "\r\n\0" for c in name + value) or ":" in name or not name.strip():
            raise EndpointError(
                f"header {name.splitlines()[0][:50] if name.strip() else name!r} has an illegal name or value",
                where=str(origin),
                remedy="remove line breaks from it (a key read from a file often ends in one)",
            )
        fields[name.lower()] = (name, value)
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.values()), "Content-Length: "]
    return "\r\n".join(lines).encode("utf-8")


def frame(head: bytes, body: bytes) -> bytes:
    """A whole request message from a head of `request_head` and its body."""
    return b"%b%d\r\n\r\n%b" % (head, len(body), body)
