"""Proxies from the environment: which one a request goes through, and what that changes in its message.

``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in lower case too (which wins). A proxy adds its own
time to every latency, so a server on this machine is never asked through one.
"""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from ..errors import EndpointError
from .address import Origin

_FORM = "write it as http://host:port"


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP proxy. `credentials` is the value of Proxy-Authorization, a secret that no text shows."""

    host: str
    port: int
    credentials: str | None = None

    def __repr__(self) -> str:
        return f"Proxy({self})"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no text may show: the credentials as sent, and as they were given."""
        if self.credentials is None:
            return ()
        encoded = self.credentials.removeprefix("Basic ")
        pair = base64.b64decode(encoded).decode("utf-8")
        return (encoded, pair, pair.partition(":")[2])

    def headers(self, origin: Origin) -> dict[str, str]:
        """What a request to that origin must carry for the proxy: nothing inside a tunnel."""
        return {"Proxy-Authorization": self.credentials} if self.credentials and not origin.tls else {}

    def target(self, origin: Origin, path: str) -> str:
        """The request target: the absolute form for plain HTTP (RFC 9112, 3.2.2), the path inside a tunnel."""
        return path if origin.tls else f"{origin}{path}"

    def connect_message(self, origin: Origin) -> bytes:
        """The request that opens a tunnel to an https origin (RFC 9110, 9.3.6)."""
        lines = [f"CONNECT {origin.authority} HTTP/1.1", f"Host: {origin.authority}", "User-Agent: bakeoff"]
        if self.credentials:
            lines.append(f"Proxy-Authorization: {self.credentials}")
        return "\r\n".join([*lines, "", ""]).encode("utf-8")


def proxy_for(origin: Origin, environ: Mapping[str, str] | None = None) -> Proxy | None:
    """The proxy for an origin, or None. `environ`: default, that of the process.

    Raises EndpointError for an unusable proxy, naming the variable and never its value.
    """
    environ = os.environ if environ is None else environ
    if origin.unix or _loopback(origin.host):
        return None
    name, value = _setting(environ, origin.scheme)
    if not value or _excluded(origin, _value(environ, "no_proxy")):
        return None
    return _parse(name, value)


def _setting(environ: Mapping[str, str], scheme: str) -> tuple[str, str]:
    for name in (f"{scheme}_proxy", "all_proxy"):
        # In a CGI program HTTP_PROXY is a request's header "Proxy" (CVE-2016-5385).
        spellings = (name,) if name == "http_proxy" and "REQUEST_METHOD" in environ else (name, name.upper())
        for spelling in spellings:
            if environ.get(spelling, "").strip():
                return spelling, environ[spelling].strip()
    return "", ""


def _value(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _excluded(origin: Origin, listed: str) -> bool:
    """Whether NO_PROXY names the host: a name with all below it, ``host:port``, an address, a network, or ``*``."""
    host = origin.host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    for entry in listed.replace(",", " ").lower().split():
        if entry == "*":
            return True
        if address is not None and _in_network(address, entry):
            return True
        name, _, port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
        if port and port != str(origin.port):
            continue
        name = name.removeprefix("*").strip("[]").lstrip(".")
        if name and (host == name or (address is None and host.endswith(f".{name}"))):
            return True
    return False


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def _parse(name: str, value: str) -> Proxy:
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise EndpointError("the proxy's URL cannot be read", where=name, remedy=_FORM) from None
    if parts.scheme.startswith("socks"):
        raise EndpointError(
            "SOCKS proxies are not supported",
            where=name,
            remedy="name an HTTP proxy, add the server's host to NO_PROXY, or forward a local port to the server",
        )
    if parts.scheme != "http" or not host:
        raise EndpointError(f"not an HTTP proxy (scheme {parts.scheme[:20]!r})", where=name, remedy=_FORM)
    credentials = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        credentials = "Basic " + base64.b64encode(pair.encode("utf-8")).decode("ascii")
    return Proxy(host=host, port=port or 80, credentials=credentials)
