"""Where a block's requests go: the origin, the way there, the heads of the messages, and what must not be shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..model import Endpoint
from ..web.address import join_url, split_url
from ..web.proxy import proxy_for
from .failures import Mask
from .message import request_head


class Target:
    """An endpoint made ready for sending. Raises EndpointError for an unusable URL, header or proxy."""

    def __init__(self, endpoint: Endpoint, paths: Iterable[str]) -> None:
        self.origin = split_url(endpoint.base_url)[0]
        self.proxy = proxy_for(self.origin)
        headers = dict(endpoint.headers)
        secrets = endpoint.secrets
        if self.proxy is not None:
            headers |= self.proxy.headers(self.origin)
            secrets += self.proxy.secrets
        self.heads = {path: self._head(endpoint.base_url, path, headers) for path in set(paths)}
        self.mask = Mask(dataclasses.replace(endpoint, secrets=secrets))
        self.requests_per_minute = endpoint.requests_per_minute

    def _head(self, base_url: str, path: str, headers: dict[str, str]) -> bytes:
        target = split_url(join_url(base_url, path))[1]
        if self.proxy is not None:
            target = self.proxy.target(self.origin, target)
        return request_head("POST", self.origin, target, headers)
