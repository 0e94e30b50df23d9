"""Opening a connection: names, unix sockets, proxies' tunnels, TLS; and why it failed."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any

from ..web.address import Origin
from ..web.proxy import Proxy
from .chunks import excerpt
from .connection import Connection

_MAX_TUNNEL_ANSWER = 64 * 1024


class ConnectFailed(Exception):
    """No connection; the text says why."""


class Dialer:
    """Opens connections to one origin.

    The name is resolved once, so that no look-up falls into a measured latency; all connections go to the address that
    answered first. Certificates are verified against the system's authorities, or against those in the files that
    SSL_CERT_FILE and SSL_CERT_DIR name.
    """

    def __init__(self, origin: Origin, timeout_s: float, proxy: Proxy | None = None) -> None:
        self._origin = origin
        self._timeout_s = timeout_s
        self._proxy = proxy
        self._tls = ssl.create_default_context() if origin.tls else None
        self._address: tuple[str, int] | None = None

    async def connect(self, new: Callable[[], Connection]) -> Connection:
        """A new connection, its protocol made by `new`. Raises ConnectFailed."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._connect(new)
        except TimeoutError:
            why = f"no connection within {self._timeout_s:g} s"
        except socket.gaierror as error:
            host = self._proxy.host if self._proxy else self._origin.host
            raise ConnectFailed(f"cannot resolve the host name {host!r}: {error.strerror}") from None
        except (OSError, ssl.SSLError) as error:
            why = _why(error)
        through = f" through the proxy {self._proxy}" if self._proxy else ""
        raise ConnectFailed(f"cannot connect to {self._origin}{through}: {why}") from None

    async def _connect(self, new: Callable[[], Connection]) -> Connection:
        loop = asyncio.get_running_loop()
        if self._origin.unix is not None:
            _, connection = await loop.create_unix_connection(new, self._origin.unix)
            return connection
        problem: OSError = OSError("no address")
        for address in [self._address] if self._address else await self._resolve():
            try:
                connection = await self._to(address, new)
            except OSError as error:  # ssl.SSLError is one
                problem = error
                continue
            self._address = address
            return connection
        raise problem

    async def _to(self, address: tuple[str, int], new: Callable[[], Connection]) -> Connection:
        loop = asyncio.get_running_loop()
        if self._proxy is None or self._tls is None:
            name = self._origin.host if self._tls else None
            _, connection = await loop.create_connection(new, *address, ssl=self._tls, server_hostname=name)
            return connection
        transport, tunnel = await loop.create_connection(lambda: _Tunnel(loop), *address)
        try:
            transport.write(self._proxy.connect_message(self._origin))
            await tunnel.opened
            connection = new()
            inner = await loop.start_tls(transport, connection, self._tls, server_hostname=self._origin.host)
        except BaseException:
            transport.abort()
            raise
        assert inner is not None  # noqa: S101 - a client's transport
        if not connection.open:  # asyncio's start_tls leaves it to the caller to tell the protocol
            connection.connection_made(inner)
        return connection

    async def _resolve(self) -> list[tuple[str, int]]:
        host, port = (self._proxy.host, self._proxy.port) if self._proxy else (self._origin.host, self._origin.port)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys((str(info[4][0]), int(info[4][1])) for info in found))


class _Tunnel(asyncio.Protocol):
    """Waits for a proxy's answer to CONNECT."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.opened: asyncio.Future[None] = loop.create_future()
        self._answer = b""

    def data_received(self, data: bytes) -> None:
        if self.opened.done():
            return
        self._answer += data
        head, end, _ = self._answer.partition(b"\r\n\r\n")
        if end:
            status = head.split(b"\r\n", 1)[0].split(b" ", 2)
            if len(status) >= 2 and status[1][:1] == b"2":
                self.opened.set_result(None)
                return
            self._refuse(f"it answered {excerpt(b' '.join(status[1:]).decode('latin-1'), 100)!r} to CONNECT")
        elif len(self._answer) > _MAX_TUNNEL_ANSWER:
            self._refuse("its answer to CONNECT is not HTTP")

    def connection_lost(self, exc: Exception | None) -> None:
        self._refuse("it closed the connection before the tunnel was open")

    def _refuse(self, why: str) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(why))


def _why(problem: Any) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({problem.verify_message}) → name its authority in SSL_CERT_FILE"
    if isinstance(problem, ssl.SSLError):
        return f"no TLS ({problem.reason or problem})"
    if isinstance(problem, ConnectionRefusedError):
        return "connection refused (is the server running, and on this port?)"
    if isinstance(problem, FileNotFoundError):
        return "there is no such socket (is the server running?)"
    if getattr(problem, "errno", None) == errno.EMFILE:
        return "no file descriptor is left for it"
    if getattr(problem, "errno", None) == errno.EADDRNOTAVAIL:
        return "no local port is left for it"
    return str(getattr(problem, "strerror", None) or problem or "no address")
