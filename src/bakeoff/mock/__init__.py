"""A server of OpenAI's and Anthropic's APIs with a known latency model, a send log and faults.

It is the ground truth of the tests and a dry run for users: what a client measures can be compared with what
this server really sent, stamp by stamp, on the same monotonic clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
    "FAULTS",
    "Fault",
    "LatencyModel",
    "MockServer",
    "RunningMock",
    "SendRecord",
    "ServeOptions",
    "count_tokens",
    "parse_fault",
    "parse_faults",
    "read_send_log",
    "running",
    "serve",
    "tokenize",
]

if TYPE_CHECKING:
    from .child import RunningMock, running
    from .faults import FAULTS, Fault, parse_fault, parse_faults
    from .latency import LatencyModel
    from .sendlog import SendRecord, read_send_log
    from .server import MockServer, ServeOptions, serve
    from .words import count_tokens, tokenize

_HOMES = {
    "FAULTS": "faults",
    "Fault": "faults",
    "LatencyModel": "latency",
    "MockServer": "server",
    "RunningMock": "child",
    "SendRecord": "sendlog",
    "ServeOptions": "server",
    "count_tokens": "words",
    "parse_fault": "faults",
    "parse_faults": "faults",
    "read_send_log": "sendlog",
    "running": "child",
    "serve": "server",
    "tokenize": "words",
}


def __getattr__(name: str) -> Any:
    """Names are imported on first use (PEP 562): asking for the model does not load the server."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
