"""Readiness: when does the port open, and when does the server say that its model is loaded?

The phases of a cold start are polled 50 to 200 times a second at first, so that they are true to ±20 ms, and less
often in a long start, where the poll itself would take time from the server that it waits for.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import EndpointError, EngineError, ServerNotReady
from ..units import seconds
from .fetch import fetch
from .process import ServerProcess

_CONNECT_TIMEOUT_S = 1.0
_ANSWER_TIMEOUT_S = 2.0  # a server may accept early and answer only when it is ready; its process is looked at between


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """What "ready" means: GET http://host:port{path} answers one of `status` within `timeout_s` of the spawn."""

    host: str
    port: int
    path: str = "/health"
    status: tuple[int, ...] = (200,)
    timeout_s: float = 600.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def _connects(host: str, port: int) -> bool:
    """Whether something accepts there.

    The port that we wait for may lie in the range from which the system picks *our* end of the connection. If it
    picked the same one, the socket would connect to itself (TCP's simultaneous open): a false "open", on a port that
    the server then cannot have. So our end is bound first and looked at.
    """
    with contextlib.suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))  # noqa: S104  # a client, not a listener
                if probe.getsockname()[1] == port:
                    continue
                probe.settimeout(_CONNECT_TIMEOUT_S)
                probe.connect(address)
                return True
    return False


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that is free on this host right now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


def require_free(host: str, port: int) -> None:
    """Raises EngineError when somebody else listens there: their answers would pass for our server's.

    Asked in two ways. Binding finds a listener that does not accept, connecting one on the wildcard address (which
    macOS lets us bind beside). SO_REUSEADDR, because the closing connections of our own last server are no listener.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise EngineError(
                    f"cannot listen on {host} port {port}: {error.strerror}",
                    remedy="choose a port above 1023 and an address of this machine, or leave `port` out",
                ) from None
            taken = True
        else:
            taken = False
    if taken or _connects(host, port):
        raise EngineError(
            f"port {port} on {host} is already in use by another program; its answers would be taken for this server's",
            where=f"{host}:{port}",
            remedy=f"stop that program (`lsof -i :{port}` names it), or leave `port` out to take a free one",
        )


def _pause_s(elapsed_s: float) -> float:
    """5 ms in the first 2 s, 20 ms in the first minute, then 100 ms (0.2 % of such a start)."""
    if elapsed_s < 2:
        return 0.005
    return 0.02 if elapsed_s < 60 else 0.1


def _require_alive(process: ServerProcess, phase: str) -> None:
    if process.alive:
        return
    code = process.returncode
    how = "ended" if code is None else (f"was ended by signal {-code}" if code < 0 else f"exited with code {code}")
    raise ServerNotReady(
        f"the server {how} before it was ready ({phase})",
        remedy="the log says why; try the same command by hand",
        log_tail=process.tail(),
    )


def wait_ready(
    process: ServerProcess, readiness: Readiness, on_phase: Callable[[str], None] = lambda _phase: None
) -> tuple[int, int]:
    """Waits until the server is ready; returns (port_ns, ready_ns), monotonic.

    Raises ServerNotReady with the log's last lines when the process ends or the time is over. Stops nothing.
    """
    host, port = readiness.host, readiness.port
    begun = process.spawn_ns
    on_phase("spawned")
    while not _connects(host, port):
        _require_alive(process, "waiting for its port")
        _require_time(process, readiness, f"nothing listens on port {port}")
        time.sleep(_pause_s((time.monotonic_ns() - begun) / 1e9))
    port_ns = time.monotonic_ns()
    on_phase("port")
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}{readiness.path}"
    last = "no answer yet"
    while True:
        _require_alive(process, "its port was open")
        try:
            answer = fetch(url, headers=readiness.headers, timeout_s=_ANSWER_TIMEOUT_S, limit=65536)
            if answer.status in readiness.status:
                break
            last = f"HTTP {answer.status}"
        except EndpointError as error:
            last = error.message
        _require_time(process, readiness, f"GET {readiness.path} gives: {last}; expected {_statuses(readiness.status)}")
        time.sleep(_pause_s((time.monotonic_ns() - begun) / 1e9))
    ready_ns = time.monotonic_ns()
    _require_alive(process, "its port answers, so another program must have taken it")
    on_phase("ready")
    return port_ns, ready_ns


def _statuses(status: Sequence[int]) -> str:
    return " or ".join(map(str, status))


def _require_time(process: ServerProcess, readiness: Readiness, state: str) -> None:
    if (time.monotonic_ns() - process.spawn_ns) / 1e9 < readiness.timeout_s:
        return
    raise ServerNotReady(
        f"the server was not ready after {seconds(readiness.timeout_s)}: {state}",
        remedy="raise `ready.timeout`, or correct `ready.path`, `ready.status` or the port in the command",
        log_tail=process.tail(),
    )
