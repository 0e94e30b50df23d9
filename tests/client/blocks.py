"""A block against a scripted server."""

from __future__ import annotations

from typing import Any

from bakeoff.client import ClientBlock, ClosedLoop, OpenLoop, PreparedRequest, Timeouts, run_requests
from bakeoff.model import RequestRecord

from .server import (
    DONE,
    END,
    SSE_HEAD,
    RawServer,
    Script,
    Seen,
    Wire,
    chunk,
    endpoint,
    requests,
    run,
    text_event,
    usage_event,
)


async def good(_seen: Seen, wire: Wire) -> None:
    await wire.send(SSE_HEAD, *(chunk(text_event(t)) for t in "ab"), chunk(usage_event(4, 2)), chunk(DONE), END)


def block(
    script: Script,
    count: int,
    load: ClosedLoop | OpenLoop,
    url_more: dict[str, Any],
    made: list[PreparedRequest] | None = None,
    **more: Any,
) -> ClientBlock:
    async def main() -> ClientBlock:
        async with RawServer(script) as server:
            sent = requests(count) if made is None else made
            return await run_requests(endpoint(server.url, **url_more), sent, load, **more)

    return run(main())


def one(script: Script, *, timeouts: Timeouts | None = None, **url_more: Any) -> RequestRecord:
    (record,) = block(script, 1, ClosedLoop(1), url_more, timeouts=timeouts).records
    return record
