"""Requests that are not generated: refused, or answered by a fault with something else."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate
from time import monotonic_ns, time

from .fault_table import FaultKind
from .sendlog import SendRecord
from .wire import Exchange, Request


class FixedAnswer:
    """A request that a fault answers with something else, with silence, or with the end of the connection."""

    def __init__(self, index: int, exchange: Exchange, fault: FaultKind) -> None:
        self._index, self._exchange, self._fault = index, exchange, fault
        self._on_end: Callable[[SendRecord], None] | None = None

    def send(self, on_end: Callable[[SendRecord], None]) -> None:
        fault, exchange = self._fault, self._exchange
        if fault.silent:
            self._on_end, exchange.on_lost = on_end, self
            return
        if fault.drop is not None:
            on_end(self._record("fault", 0))
            exchange.cut(reset=fault.drop == "reset")
            return
        status, headers = fault.status or 500, fault.headers
        if fault.retry_date_s is not None:
            at = time() + (fault.date_ahead_s or 0.0) + fault.retry_date_s
            headers = (*headers, ("Retry-After", formatdate(at, usegmt=True)))
        on_end(self._record("fault", status))
        if fault.content_type == "text/event-stream":
            exchange.head(status, fault.content_type, length=None, headers=headers, effect=fault)
            exchange.end(fault.body)
        else:
            exchange.whole(status, fault.body, fault.content_type, headers, effect=fault)

    @property
    def ended(self) -> bool:
        """Nothing is left to be told of it."""
        return self._on_end is None

    def lost(self) -> None:
        """The client has left."""
        self._give_up("cancelled")

    def abandon(self) -> None:
        """The server shuts down."""
        self._give_up("shutdown")

    def _give_up(self, finish: str) -> None:
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(self._record(finish, 0))

    def _record(self, finish: str, status: int) -> SendRecord:
        return plain_record(self._index, self._exchange.request, (finish, status), self._fault.name)


def plain_record(index: int, request: Request, outcome: tuple[str, int], fault: str | None = None) -> SendRecord:
    """The log line of a request that generated nothing; `outcome` = (finish, HTTP status)."""
    return SendRecord(
        request_id=request.headers.get("x-request-id", str(index))[:200],
        index=index,
        path=request.path,
        stream=False,
        status=outcome[1],
        recv_ns=request.recv_ns,
        end_ns=monotonic_ns(),
        finish=outcome[0],
        fault=fault,
    )
