"""Faults against a real socket: each is one record with its kind, and no key is ever shown."""

from __future__ import annotations

import asyncio

import pytest

from bakeoff.client import ClientBlock, ClosedLoop, Timeouts, run_requests
from bakeoff.errors import EndpointError

from .blocks import good, one
from .server import (
    CLOSING_HEAD,
    DONE,
    END,
    SSE_HEAD,
    RawServer,
    Seen,
    Wire,
    answer,
    chunk,
    endpoint,
    event,
    requests,
    run,
    text_event,
)

KEY = "sk-very-secret-0123456789"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("401 Unauthorized", "auth"),
        ("403 Forbidden", "auth"),
        ("404 Not Found", "not_found"),
        ("500 Internal Server Error", "http"),
        ("422 Unprocessable", "http"),
    ],
)
def test_error_statuses_and_the_key_is_never_shown(status: str, kind: str) -> None:
    async def refuse(seen: Seen, wire: Wire) -> None:
        await wire.send(answer(status, b'{"error": {"message": "echo: %s"}}' % seen.headers["authorization"].encode()))

    r = one(refuse, headers={"Authorization": f"Bearer {KEY}"})
    assert (r.error, r.status) == (kind, int(status[:3]))
    assert "echo: ***" in (r.error_message or "")
    assert KEY not in repr(r)


def test_the_key_is_not_shown_from_inside_a_stream_either() -> None:
    async def tell(seen: Seen, wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(event({"error": seen.headers["x-api-key"] + " is bad"})), END)

    r = one(tell, headers={"X-Api-Key": KEY})
    assert (r.error, r.error_message) == ("stream_error", "the server reported an error inside the stream: *** is bad")


def test_a_server_that_hangs_runs_into_the_timeout() -> None:
    async def hang(_seen: Seen, wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(text_event("a")))
        await asyncio.sleep(60)

    r = one(hang, timeouts=Timeouts(request_s=0.3))
    assert (r.error, r.text) == ("timeout", "a")
    assert r.sent_ns is not None
    assert r.end_ns is not None
    assert r.end_ns - r.sent_ns >= 290_000_000


def test_a_reset_in_the_middle() -> None:
    async def reset(_seen: Seen, wire: Wire) -> None:
        await wire.apart(SSE_HEAD, chunk(text_event("a")), gap_s=0.1)
        wire.reset()

    r = one(reset)
    assert (r.error, r.text) == ("reset", "a")


def test_a_close_in_the_middle() -> None:
    async def close(_seen: Seen, wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(text_event("a")))
        wire.close()

    assert one(close).error == "truncated"


def test_an_answer_ended_by_the_close_of_the_connection() -> None:
    async def close(_seen: Seen, wire: Wire) -> None:
        await wire.send(CLOSING_HEAD, text_event("a", "stop"), DONE)
        wire.close()

    assert one(close).error is None


def test_a_server_that_forgets_to_end_the_message_after_done() -> None:
    async def forget(_seen: Seen, wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(text_event("a")), chunk(DONE))
        await asyncio.sleep(60)

    r = one(forget)
    assert (r.error, r.text) == (None, "a")


def test_nobody_listens() -> None:
    async def main() -> ClientBlock:
        async with RawServer(good) as server:
            url = server.url
        return await run_requests(endpoint(url), requests(2), ClosedLoop(2))

    for r in run(main()).records:
        assert (r.error, r.sent_ns) == ("connect", None)
        assert "refused" in (r.error_message or "")


def test_a_name_that_does_not_exist() -> None:
    async def main() -> ClientBlock:
        return await run_requests(endpoint("http://no-such-host.invalid/v1"), requests(1), ClosedLoop(1))

    (r,) = run(main()).records
    assert (r.error, "no-such-host.invalid" in (r.error_message or "")) == ("connect", True)


@pytest.mark.parametrize(
    "url", ["ftp://h/v1", "h:80/v1", "http:///v1", "http://h:x/v1", "http://u:p@h/v1", "http://h/ v1"]
)
def test_unusable_urls(url: str) -> None:
    async def main() -> None:
        await run_requests(endpoint(url), requests(1), ClosedLoop(1))

    with pytest.raises(EndpointError) as caught:
        run(main())
    assert caught.value.remedy
    assert "u:p" not in str(caught.value)


def test_a_header_that_would_break_the_message_is_refused_and_not_shown() -> None:
    async def main() -> None:
        e = endpoint("http://127.0.0.1:1/v1", headers={"Authorization": f"Bearer {KEY}\n"})
        await run_requests(e, requests(1), ClosedLoop(1))

    with pytest.raises(EndpointError, match="Authorization") as caught:
        run(main())
    assert KEY not in str(caught.value)
