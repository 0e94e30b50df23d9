"""Small requests beside the load: /tokenize, /metrics, /props, /v1/models."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..errors import EndpointError
from ..model import Endpoint, ErrorKind
from ..web.address import Origin, join_url, split_url
from ..web.proxy import Proxy, proxy_for
from .block import Timeouts
from .chunks import excerpt
from .clock import SYSTEM_CLOCK
from .failures import Mask, status_failure
from .http import Exchange, Verdict
from .message import frame, request_head
from .pool import Pool

MAX_ANSWER_BYTES = 8 * 1024 * 1024

_REMEDIES: dict[str, str] = {
    "connect": "start the server, or correct the URL",
    "timeout": "see whether the server is overloaded",
}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole small answer. Header names are in lower case."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes

    def text(self) -> str:
        """The body as text; broken UTF-8 is replaced."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON. Raises EndpointError if it is none."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError):
            raise EndpointError(
                f"the answer is not JSON; it starts {excerpt(self.text(), 120)!r}",
                where=self.url,
                remedy="check that the URL is that of an OpenAI-compatible server",
            ) from None


class HttpClient:
    """GET and POST against the server of one endpoint, with its headers.

    Targets: ``/metrics`` is relative to the server's root (the base URL without its ``/v1``), ``models`` to the base
    URL, and an absolute URL is taken as it is (the endpoint's headers, which may hold keys, go to its own origin only).
    Each call uses a connection of its own, which it closes (an idle connection occupies a thread in some servers);
    inside ``async with`` connections are kept until the end.
    """

    def __init__(self, endpoint: Endpoint, *, timeout_s: float = 30.0) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._origin = split_url(endpoint.base_url)[0]
        proxy = proxy_for(self._origin)
        more = proxy.secrets if proxy is not None else ()
        self._mask = Mask(dataclasses.replace(endpoint, secrets=(*endpoint.secrets, *more)))
        self._pool: Pool | None = None

    async def __aenter__(self) -> HttpClient:
        self._pool = self._new_pool(self._origin, proxy_for(self._origin))
        return self

    async def __aexit__(self, *_exc: object) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def url(self, target: str) -> str:
        """The absolute URL of a target."""
        if "://" in target:
            return target
        base = self._endpoint.base_url
        if target.startswith("/"):
            return base.partition("?")[0].rstrip("/").removesuffix("/v1") + target
        return join_url(base, f"/{target}")

    async def get_json(self, target: str, *, ok_statuses: tuple[int, ...] = (200,)) -> Any:
        """GET, decoded from JSON. Raises EndpointError for other statuses, no connection, time-outs, no JSON."""
        return self._decoded(await self.request("GET", target, ok_statuses=ok_statuses))

    async def post_json(self, target: str, payload: Any, *, ok_statuses: tuple[int, ...] = (200,)) -> Any:
        """POST of a JSON payload, decoded from JSON. Raises EndpointError as `get_json` does."""
        return self._decoded(await self.request("POST", target, payload=payload, ok_statuses=ok_statuses))

    async def get_text(self, target: str, *, ok_statuses: tuple[int, ...] = (200,)) -> str:
        """GET as text. Raises EndpointError as `get_json` does."""
        return (await self.request("GET", target, ok_statuses=ok_statuses)).text()

    async def request(
        self, method: str, target: str, *, payload: Any = None, ok_statuses: tuple[int, ...] | None = (200,)
    ) -> Answer:
        """The whole answer, at most 8 MiB. ok_statuses None: any status. Raises EndpointError."""
        url = self.url(target)
        origin, path = split_url(url)
        own = origin == self._origin
        headers: Mapping[str, str] = self._endpoint.headers if own else {}
        path = path or "/"
        proxy = proxy_for(origin)
        if proxy is not None:
            headers, path = {**headers, **proxy.headers(origin)}, proxy.target(origin, path)
        body = b"" if payload is None else msgspec.json.encode(payload)
        head = request_head(method, origin, path, headers, accept="*/*")
        kept = self._pool if own else None
        pool = kept or self._new_pool(origin, proxy)
        exchange = _SmallExchange(frame(head, body))
        try:
            pool.dispatch(exchange)
            await exchange.done
        finally:
            if pool is not kept:
                await pool.close()
        return self._checked(self._mask(_shown(url)), exchange, ok_statuses)

    def _decoded(self, answer: Answer) -> Any:
        try:
            return answer.json()
        except EndpointError as error:
            raise EndpointError(self._mask(error.message), where=error.where, remedy=error.remedy) from None

    def _checked(self, where: str, exchange: _SmallExchange, ok_statuses: tuple[int, ...] | None) -> Answer:
        if exchange.failure is not None:
            kind, message = exchange.failure
            raise EndpointError(
                self._mask(message), where=where, remedy=_REMEDIES.get(kind, "check the URL and the server's log")
            )
        if ok_statuses is not None and exchange.status not in ok_statuses:
            _, message = status_failure(exchange.status, bytes(exchange.body[:65536]), exchange.headers)
            said, _, remedy = self._mask(message).partition(" → ")
            raise EndpointError(said, where=where, remedy=remedy or "see the server's log")
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in exchange.headers}
        return Answer(url=where, status=exchange.status, headers=headers, body=bytes(exchange.body))

    def _new_pool(self, origin: Origin, proxy: Proxy | None) -> Pool:
        limits = Timeouts(connect_s=min(self._endpoint.connect_timeout_s, self._timeout_s), request_s=self._timeout_s)
        return Pool(origin, limits, SYSTEM_CLOCK.monotonic_ns, proxy=proxy)


class _SmallExchange(Exchange):
    __slots__ = ("body", "done", "failure", "headers", "status")

    def __init__(self, payload: bytes) -> None:
        super().__init__(payload)
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self.failure: tuple[ErrorKind, str] | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.headers = headers

    def on_data(self, data: bytes, now_ns: int) -> Verdict:
        if len(self.body) + len(data) > MAX_ANSWER_BYTES:
            self.failure = ("garbage", f"the answer is longer than {MAX_ANSWER_BYTES >> 20} MiB")
            return Verdict.ABORT
        self.body += data
        return Verdict.MORE

    def on_complete(self, now_ns: int) -> None:
        self._end()

    def on_failure(self, kind: ErrorKind, message: str, now_ns: int) -> None:
        self.failure = self.failure or (kind, message)
        self._end()

    def on_crash(self, error: BaseException) -> None:
        self.ended = True
        if not self.done.done():
            self.done.set_exception(error)

    def _end(self) -> None:
        self.ended = True
        if not self.done.done():
            self.done.set_result(None)


def _shown(url: str) -> str:
    """The URL as messages show it: a query may hold a key."""
    return urlsplit(url)._replace(query="", fragment="").geturl()
