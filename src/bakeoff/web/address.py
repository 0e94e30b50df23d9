"""Addresses: URLs of servers, unix sockets among them, and what a connection to one is opened to."""

from __future__ import annotations

from urllib.parse import SplitResult, quote, unquote, urlsplit

import msgspec

from ..errors import EndpointError

_PORTS = {"http": 80, "https": 443}
_SOCKET_SCHEMES = ("http+unix", "unix")
_SOCKET_FORM = "write http+unix://%2Fpath%2Fto.sock/v1 or unix:///path/to.sock/v1"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection is opened to: scheme, host and port, or a unix socket (spoken to in plain HTTP)."""

    scheme: str
    host: str
    port: int
    unix: str | None = None  # path of the socket

    @property
    def tls(self) -> bool:
        return self.scheme == "https"

    @property
    def netloc(self) -> str:
        """Host and port as the Host header wants them (IPv6 in brackets, a default port left out)."""
        return self.host_brackets if self.port == _PORTS[self.scheme] else self.authority

    @property
    def host_brackets(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def authority(self) -> str:
        """Host and port, always with the port."""
        return f"{self.host_brackets}:{self.port}"

    def __str__(self) -> str:
        return f"unix:{self.unix}" if self.unix else f"{self.scheme}://{self.netloc}"


def is_socket(url: str) -> bool:
    """Whether the URL names a unix socket, and so a server of this machine."""
    return url.strip().lower().startswith(tuple(f"{scheme}:" for scheme in _SOCKET_SCHEMES))


def socket_url(path: str, rest: str) -> str:
    """The URL of a socket in the form with its path in the place of the host; `rest`: what follows it."""
    return f"http+unix://{quote(path, safe='')}{rest}"


def split_url(url: str) -> tuple[Origin, str]:
    """(origin, path with query) of a URL. Raises EndpointError, never showing user info.

    Beside http and https: ``http+unix://%2Fpath%2Fto.sock/v1`` (the socket's path percent-encoded in the place of the
    host) and ``unix:///path/to.sock/v1`` (the socket's path ends with the first segment that ends in ``.sock``).
    """
    try:
        parts = urlsplit(url)
        port = parts.port if parts.scheme not in _SOCKET_SCHEMES else None
        host = parts.hostname
    except ValueError as error:
        raise EndpointError(f"this URL cannot be read: {error}", remedy="write http://host:port/v1") from None
    if parts.scheme in _SOCKET_SCHEMES:
        return _split_socket(parts)
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
    path = _path(parts.path, parts.query, host)
    return Origin(scheme=parts.scheme, host=host, port=port or _PORTS[parts.scheme]), path


def _split_socket(parts: SplitResult) -> tuple[Origin, str]:
    socket, path = unquote(parts.netloc), parts.path
    if parts.scheme == "unix":
        segments = path.split("/")
        ends = [n for n, segment in enumerate(segments, 1) if segment.endswith(".sock")]
        if socket or not ends:
            raise EndpointError(
                "a unix: URL needs the absolute path of a socket that ends in .sock", remedy=_SOCKET_FORM
            )
        socket, path = unquote("/".join(segments[: ends[0]])), "".join(f"/{s}" for s in segments[ends[0] :])
    if not socket.startswith("/") or "\0" in socket:
        raise EndpointError("the URL names no absolute path of a unix socket", remedy=_SOCKET_FORM)
    return Origin(scheme="http", host="localhost", port=80, unix=socket), _path(path, parts.query, "localhost")


def _path(path: str, query: str, where: str) -> str:
    whole = path + (f"?{query}" if query else "")
    if any(ord(c) <= 32 or ord(c) == 127 for c in whole + where):
        raise EndpointError("the URL holds blanks or control characters", where=where, remedy="percent-encode them")
    return whole


def join_url(base_url: str, path: str) -> str:
    """`path` (with a leading slash) below the base URL; a query of the base URL stays at the end."""
    base, mark, query = base_url.partition("?")
    return base.rstrip("/") + path + mark + query
