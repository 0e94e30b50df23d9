from __future__ import annotations

import gzip
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bakeoff.client import HttpClient
from bakeoff.client.query import MAX_ANSWER_BYTES
from bakeoff.errors import EndpointError

from .server import RawServer, Script, Seen, Wire, answer, chunk, endpoint, run

KEY = "sk-very-secret-0123456789"


async def echo(seen: Seen, wire: Wire) -> None:
    body = b'{"path": "%s", "method": "%s"}' % (seen.path.encode(), seen.method.encode())
    await wire.send(answer("200 OK", body, "Content-Type: application/json"))


def ask(
    script: Script, question: Callable[[HttpClient], Coroutine[Any, Any, Any]], **more: Any
) -> tuple[Any, RawServer]:
    async def main() -> tuple[Any, RawServer]:
        async with RawServer(script) as server:
            client = HttpClient(endpoint(server.url, headers={"Authorization": f"Bearer {KEY}"}), **more)
            return await question(client), server

    return run(main())


def test_targets_at_the_root_below_the_base_and_absolute() -> None:
    async def question(client: HttpClient) -> list[str]:
        targets = ("/metrics", "models", client.url("/v1/models?x=1"))
        return [(await client.get_json(target))["path"] for target in targets]

    assert ask(echo, question)[0] == ["/metrics", "/v1/models", "/v1/models?x=1"]
    client = HttpClient(endpoint("http://h/openai/v1/?api-version=2"))
    assert client.url("/tokenize") == "http://h/openai/tokenize"
    assert client.url("models") == "http://h/openai/v1/models?api-version=2"


def test_post_json() -> None:
    answered, server = ask(echo, lambda c: c.post_json("/tokenize", {"content": "é"}))
    assert answered["method"] == "POST"
    assert server.seen[0].json == {"content": "é"}
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_get_has_no_body() -> None:
    _, server = ask(echo, lambda c: c.get_text("/metrics"))
    assert (server.seen[0].body, server.seen[0].headers["content-length"]) == (b"", "0")


def test_chunked_text() -> None:
    async def metrics(_seen: Seen, wire: Wire) -> None:
        await wire.apart(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"a 1\n"), chunk(b"b 2\n"), b"0\r\n\r\n"
        )

    assert ask(metrics, lambda c: c.get_text("/metrics"))[0] == "a 1\nb 2\n"


def test_connections_are_closed_after_each_call_or_kept_inside_a_with() -> None:
    async def twice(client: HttpClient) -> None:
        await client.get_text("/a")
        await client.get_text("/b")

    async def kept(client: HttpClient) -> None:
        async with client:
            await twice(client)

    assert ask(echo, twice)[1].connections == 2
    assert ask(echo, kept)[1].connections == 1


def test_keys_go_to_their_own_origin_only() -> None:
    async def main() -> None:
        async with RawServer(echo) as other:
            client = HttpClient(endpoint("http://127.0.0.1:1/v1", headers={"Authorization": f"Bearer {KEY}"}))
            await client.get_json(other.url)
            assert "authorization" not in other.seen[0].headers

    run(main())


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (answer("401 No", b'{"error": {"message": "bad key %s"}}' % KEY.encode()), "HTTP 401: bad key ***"),
        (answer("404 No", b"nothing here"), "HTTP 404: nothing here"),
        (answer("307 No", b"", "Location: http://h2:81/v1/models?key=abc"), "redirected to http://h2:81/v1/models"),
        (answer("500 No", gzip.compress(b"out of memory"), "Content-Encoding: gzip"), "HTTP 500: out of memory"),
        (answer("200 OK", b"<html>"), "not JSON"),
        (answer("200 OK", b"x")[:-1], "before the end"),
        (b"gopher\r\n\r\n", "not HTTP"),
    ],
)
def test_errors_say_where_and_what_to_do(response: bytes, says: str) -> None:
    async def refuse(_seen: Seen, wire: Wire) -> None:
        await wire.send(response)
        wire.close()

    with pytest.raises(EndpointError) as caught:
        ask(refuse, lambda c: c.get_json("models?key=abc"))
    error = caught.value
    assert says in error.message
    assert error.where is not None
    assert error.where.endswith("/v1/models")  # without the query, which may hold a key
    assert error.remedy
    assert KEY not in str(error)


def test_other_statuses_can_be_allowed() -> None:
    async def loading(_seen: Seen, wire: Wire) -> None:
        await wire.send(answer("503 Loading", b'{"status": "loading"}', "X-A: b"))

    assert ask(loading, lambda c: c.get_json("/health", ok_statuses=(200, 503)))[0] == {"status": "loading"}
    got = ask(loading, lambda c: c.request("GET", "/health", ok_statuses=None))[0]
    assert (got.status, got.headers["x-a"], got.text()) == (503, "b", '{"status": "loading"}')


def test_a_giant_answer_is_refused() -> None:
    async def giant(_seen: Seen, wire: Wire) -> None:
        await wire.send(answer("200 OK", b"x" * (MAX_ANSWER_BYTES + 1)))

    with pytest.raises(EndpointError, match="longer than 8 MiB"):
        ask(giant, lambda c: c.get_text("/metrics"))


def test_timeout_and_no_connection() -> None:
    async def hang(_seen: Seen, _wire: Wire) -> None:
        import asyncio

        await asyncio.sleep(60)

    with pytest.raises(EndpointError, match=r"within 0\.2 s"):
        ask(hang, lambda c: c.get_text("/metrics"), timeout_s=0.2)
    with pytest.raises(EndpointError, match="refused") as caught:
        run(HttpClient(endpoint("http://127.0.0.1:1/v1")).get_text("/metrics"))
    assert caught.value.remedy == "start the server, or correct the URL"
