"""Sends a block's requests at a given load and returns what was seen of each.

Closed loop: N slots, each takes the next request when its last one has ended. Open loop: every request leaves at
its scheduled instant, however many are outstanding. In both, latency counts from the *scheduled* time, so that a
late client shows as delay and cannot flatter a server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..model import Endpoint, RequestRecord
from .block import ClientBlock, ClosedLoop, OpenLoop, Timeouts
from .block_run import AHEAD_NS, BlockRun
from .clock import SYSTEM_CLOCK, Clock
from .request import PreparedRequest

# At the start of an open loop at most this many connections are opened before the clock starts.
_MAX_OPENED_BEFORE = 64


async def run_requests(
    endpoint: Endpoint,
    requests: Sequence[PreparedRequest],
    load: ClosedLoop | OpenLoop,
    *,
    timeouts: Timeouts | None = None,
    deadline_ns: int | None = None,
    on_record: Callable[[RequestRecord], None] | None = None,
    check: Callable[[], None] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> ClientBlock:
    """Sends the requests and waits for the end of all that were sent.

    timeouts: default, those of the endpoint. deadline_ns: no request is started after it. on_record: told of each
    record as it ends (after the next request of its slot has left). check: asked about once a second; if it raises,
    requests in flight are closed and recorded as ``server_died``, and its exception leaves with the block so far as
    attribute ``partial``. A failed request is a record with an `error`, never an exception and never sent again.
    Raises EndpointError for an unusable URL or header; ValueError for a load that does not fit the requests. When
    cancelled, all sockets are closed at once and nothing is returned.
    """
    limits = timeouts or Timeouts(connect_s=endpoint.connect_timeout_s, request_s=endpoint.request_timeout_s)
    run = BlockRun(endpoint, requests, limits, deadline_ns, clock)
    run.on_record = on_record
    if isinstance(load, ClosedLoop):
        if load.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {load.concurrency}")
        slots = min(load.concurrency, len(requests))
        return await run.execute(slots, partial(run.closed, slots), check)
    if len(load.offsets_ns) > len(requests):
        raise ValueError(f"{len(load.offsets_ns)} instants but only {len(requests)} requests")
    offsets = sorted(load.offsets_ns)
    soon = sum(1 for offset in offsets if offset <= AHEAD_NS)
    return await run.execute(min(soon, _MAX_OPENED_BEFORE), partial(run.open, offsets), check)
