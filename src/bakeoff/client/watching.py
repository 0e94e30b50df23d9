"""The watch over the server during a block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_CHECK_S = 1.0
# After a lost connection the server is looked at soon, but its process needs a moment to be gone.
_CHECK_SOON_S = 0.1


async def watch_server(check: Callable[[], None], connection_lost: asyncio.Event) -> None:
    """Asks about once a second, and soon after a connection was lost, until `check` raises."""
    while True:
        try:
            async with asyncio.timeout(_CHECK_S):
                await connection_lost.wait()
            await asyncio.sleep(_CHECK_SOON_S)
        except TimeoutError:
            pass
        connection_lost.clear()
        check()


def exception_of(future: asyncio.Future[None] | None) -> BaseException | None:
    """What a future ended with, if it has ended with an exception."""
    return future.exception() if future is not None and future.done() and not future.cancelled() else None
