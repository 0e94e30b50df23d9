"""Sends a block's requests at a given load and returns what was seen of each.

Closed loop: N slots, each takes the next request (or conversation) when its last one has ended. Open loop: every
request leaves at its scheduled instant, however many are outstanding. In both, latency counts from the *scheduled*
time, so that a late client shows as delay and cannot flatter a server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..model import Endpoint, RequestRecord
from .block import ClientBlock, ClosedLoop, OpenLoop, Timeouts
from .block_run import BlockRun
from .clock import SYSTEM_CLOCK, Clock
from .descriptors import allow_connections, prefer_connections
from .request import PreparedRequest
from .share import Instants, Slots
from .target import Target
from .work import Chain, OwnWork

if TYPE_CHECKING:
    from .shards import Shards


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
    shards: Shards | None = None,
    processes: int = 1,
) -> ClientBlock:
    """Sends the requests and waits for the end of all that were sent.

    timeouts: default, those of the endpoint. deadline_ns: no request is started after it. on_record: told of each
    record as it ends (after the next request of its slot has left). check: asked about once a second; if it raises,
    requests in flight are closed and recorded as ``server_died``, and its exception leaves with the block so far as
    attribute ``partial``. shards, processes: above one process the block is sent by that many workers of `shards`.

    A failed request is a record with an `error`, never an exception and never sent again; the turns of a conversation
    behind a failed one are recorded as ``cancelled``. Raises EndpointError for an unusable URL, header or proxy;
    ValueError for a load that does not fit the requests; UsageError for more connections than the system allows. When
    cancelled, all sockets are closed at once and nothing is returned.
    """
    limits = timeouts or limits_of(endpoint)
    if isinstance(load, ClosedLoop):
        if load.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {load.concurrency}")
        allow_connections(min(load.concurrency, len(requests)))
    else:
        prefer_connections(len(load.offsets_ns))
    target = Target(endpoint, (request.path for request in requests))
    if shards is not None and processes > 1 and endpoint.requests_per_minute is None:
        return await shards.run(
            endpoint, requests, load, processes, limits, deadline_ns=deadline_ns, on_record=on_record, check=check
        )
    work = OwnWork(requests, target.heads)
    run = BlockRun(target, work, _share(load, work.chains), limits, deadline_ns, clock)
    run.on_record = on_record
    try:
        await run.open()
        return await run.play(None, check)
    finally:
        await run.close()


def limits_of(endpoint: Endpoint) -> Timeouts:
    """The time-outs of an endpoint."""
    return Timeouts(
        connect_s=endpoint.connect_timeout_s,
        request_s=endpoint.request_timeout_s,
        first_byte_s=endpoint.first_byte_timeout_s,
        idle_s=endpoint.idle_timeout_s,
    )


def _share(load: ClosedLoop | OpenLoop, found: Sequence[Chain]) -> Slots | Instants:
    """The whole load, for one process."""
    if isinstance(load, ClosedLoop):
        return Slots(min(load.concurrency, len(found)), load.ramp_ns)
    if len(load.offsets_ns) > len(found):
        raise ValueError(f"{len(load.offsets_ns)} instants but only {len(found)} conversations")
    return Instants(zip(sorted(load.offsets_ns), found, strict=False))
