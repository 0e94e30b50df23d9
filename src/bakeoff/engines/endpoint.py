"""Settings of an OpenAI-compatible endpoint: where it is, how to sign in, what to send along."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ..errors import EndpointError
from ..model import ProfileHook
from ..web.address import is_socket, socket_url, split_url
from .declared import check_declared
from .literals import literal_in_header, literals_in, only_references
from .secrets import has_reference
from .settings import SettingsReader

_VERSION_SEGMENT = re.compile(r"v[0-9]+[a-z0-9]*\Z")
_CALLS = re.compile(r"/(chat/completions|completions|responses|messages|models)/?\Z")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_LIMIT_FIELDS = ("max_tokens", "max_output_tokens")
_OWN_FIELDS = ("model", "prompt", "messages", "input", "system", "stream", "stream_options", *_LIMIT_FIELDS)
_URL_FORMS = "a unix socket is written http+unix://%2Fpath%2Fto.sock/v1 or unix:///path/to.sock/v1"
TOKENIZERS = ("auto", "llamacpp", "vllm", "none")


@dataclass(frozen=True, kw_only=True)
class EndpointSettings:
    """Resolved endpoint settings (times in seconds). Holds secrets: never serialised, hidden from its repr."""

    model: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tokenizer: str = "auto"
    metrics_path: str | None = None
    ignore_eos: bool | None = None  # None: find out
    stream_usage: bool = True
    requests_per_minute: float | None = None
    request_timeout_s: float = 600.0
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float | None = None
    idle_timeout_s: float | None = None
    chunk_counts: bool | None = None  # None: where chunks may hold several tokens
    profile: ProfileHook | None = None


def read_endpoint(reader: SettingsReader) -> EndpointSettings:
    """Takes the endpoint's settings from a reader; problems are noted there."""
    check_declared(reader)
    metrics_path = reader.text("metrics_path")
    if metrics_path is not None and not metrics_path.startswith("/"):
        reader.wrong(
            "metrics_path", f"must start with '/', not {reader.shown('metrics_path')}", "for example: /metrics"
        )
    headers = _headers(reader)
    key = _api_key(reader)
    if key is not None:
        if "authorization" in {name.lower() for name in headers}:
            reader.wrong("api_key", "is given beside an Authorization header", "keep one of the two")
        headers["Authorization"] = f"Bearer {key}"
    return EndpointSettings(
        model=reader.text("model"),
        headers=headers,
        body=read_body(reader),
        tokenizer=reader.text("tokenizer", "auto", TOKENIZERS) or "auto",
        metrics_path=metrics_path,
        ignore_eos=_switch(reader, "ignore_eos"),
        stream_usage=reader.flag("stream_usage", True),
        requests_per_minute=reader.number("requests_per_minute", low=1e-3),
        request_timeout_s=reader.duration("request_timeout", 600.0),
        connect_timeout_s=reader.duration("connect_timeout", 10.0),
        first_byte_timeout_s=reader.limit("first_byte_timeout"),
        idle_timeout_s=reader.limit("idle_timeout"),
        chunk_counts=_switch(reader, "chunk_counts"),
        profile=_profile(reader),
    )


def _switch(reader: SettingsReader, key: str) -> bool | None:
    """``true``, ``false``, or None for ``auto``, the default."""
    text = reader.text(key, "auto", ("auto", "true", "false"))
    return None if text == "auto" else text == "true"


def _profile(reader: SettingsReader) -> ProfileHook | None:
    """``profile: {folder: DIR}``: where the server's profiler writes, and the paths that switch it on and off."""
    if not reader.has("profile"):
        reader.value("profile")  # a known key
        return None
    inner = reader.nested("profile")
    inner.require("folder", "the folder that the server's profiler writes to, on this machine")
    paths = {}
    for key, usual in (("start", "/start_profile"), ("stop", "/stop_profile")):
        paths[key] = inner.text(key, usual) or usual
        if not paths[key].startswith("/"):
            inner.wrong(key, f"must start with '/', not {inner.shown(key)}", f"for example: {usual}")
    folder = inner.text("folder")
    timeout_s = inner.duration("timeout", 600.0)
    reader.problems.extend(inner.finish())
    if folder is None:
        return None
    return ProfileHook(**paths, folder=os.path.abspath(os.path.expanduser(folder)), timeout_s=timeout_s)


def _literal_secret(reader: SettingsReader, key: str, *inner: str) -> None:
    reader.wrong(
        key,
        "holds a literal secret, which would be saved with the run",
        "put it into an environment variable and write ${NAME} here",
        *inner,
    )


def _api_key(reader: SettingsReader) -> str | None:
    value = reader.value("api_key")
    raw = reader.raw("api_key")
    if reader.has("api_key") and not (only_references(raw) if isinstance(raw, str) else has_reference(raw)):
        _literal_secret(reader, "api_key")
        return None
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or not _sendable(value):
        reader.wrong("api_key", "is empty or holds characters that no HTTP header can carry", "look at the variable")
        return None
    return value


def _sendable(value: str) -> bool:
    return value.isprintable() and value.isascii()


def _headers(reader: SettingsReader) -> dict[str, str]:
    raw = reader.raw("headers")
    headers = reader.texts("headers")
    for name, value in headers.items():
        if not _HEADER_NAME.match(name):
            reader.wrong("headers", "is not a valid header name", "", name)
        elif literal_in_header(name, _written(raw, name)):
            _literal_secret(reader, "headers", name)
        elif not _sendable(value):
            reader.wrong("headers", "holds characters that no HTTP header can carry", "", name)
    return headers


def _written(raw: Any, name: str) -> Any:
    """What the file says under a name that was read as text."""
    return next((value for key, value in raw.items() if str(key) == name), "") if isinstance(raw, Mapping) else raw


def read_body(reader: SettingsReader) -> dict[str, Any]:
    """Extra body fields of every request; those that bakeoff sets itself and literal secrets are problems."""
    raw = reader.raw("body")
    body = reader.mapping("body")
    for name in body:
        # `max_tokens: null` leaves the field out, for APIs that call it `max_completion_tokens`.
        if name in _OWN_FIELDS and not (name in _LIMIT_FIELDS and body[name] is None):
            reader.wrong(
                "body", "is set by bakeoff itself in every request", "use the workload or the variant's `model`", name
            )
    for path in literals_in(raw):
        _literal_secret(reader, "body", *path)
    return body


def read_url(reader: SettingsReader) -> str | None:
    """The base URL up to and including its version segment (``http://host:8000`` → ``…/v1``), or None if wrong."""
    reader.require("url", "for example: url: http://127.0.0.1:8000")
    text = reader.text("url")
    if text is None:
        return None
    if is_socket(text):
        return _socket(reader, text.strip())
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        reader.wrong("url", "is not a URL: its host or port is wrong", "for example: http://127.0.0.1:8000")
        return None
    if parts.username is not None or parts.password is not None:
        # The value is not shown: it holds a password.
        reader.wrong("url", "holds a user name or password", "leave it out and use `headers` with a ${VAR}")
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        reader.wrong(
            "url", f"must start with http:// or https:// and name a host, not {reader.shown('url')}", _URL_FORMS
        )
        return None
    if parts.query or parts.fragment:
        reader.wrong("url", "must not have a query or a fragment", "send keys as `headers` and options as `body`")
        return None
    if not _sendable(text.strip()) or " " in text.strip():
        reader.wrong("url", "holds a blank or a character that must be percent-encoded")
        return None
    return _normal(parts)


def _socket(reader: SettingsReader, text: str) -> str | None:
    try:
        origin, path = split_url(text)
    except EndpointError as error:
        reader.wrong("url", error.message, error.remedy or "")
        return None
    if "?" in path or "#" in text:
        reader.wrong("url", "must not have a query or a fragment", "send keys as `headers` and options as `body`")
        return None
    return socket_url(origin.unix or "", _base_path(path))


def _normal(parts: SplitResult) -> str:
    return urlunsplit((parts.scheme, parts.netloc, _base_path(parts.path), "", ""))


def _base_path(path: str) -> str:
    """The path of the base URL, whichever call below it was named."""
    path = _CALLS.sub("", path).rstrip("/")
    return path if any(_VERSION_SEGMENT.match(segment) for segment in path.split("/")) else f"{path}/v1"


def server_root(base_url: str) -> str:
    """Where the server's own paths (``/health``, ``/metrics``, ``/tokenize``) are: the base URL without ``/v1``."""
    head, _, last = base_url.rpartition("/")
    return head if _VERSION_SEGMENT.match(last) else base_url


def is_local(base_url: str) -> bool:
    """Whether the URL names this machine: by its loopback address, or by a unix socket."""
    if is_socket(base_url):
        return True
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
