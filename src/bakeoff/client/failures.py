"""What a failed answer means: kinds, texts with a remedy, waiting times, and keys kept out of all of it."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from ..errors import printable
from ..model import Endpoint, ErrorKind
from .chunks import ChunkError, error_text, excerpt, json_object

MAX_MESSAGE_CHARS = 500
_MIN_SECRET_CHARS = 4
_MAX_TARGET_CHARS = 300
_MAX_PLAIN_BYTES = 64 * 1024
_PUBLIC_HEADERS = frozenset({"user-agent", "accept", "content-type", "host"})
_RESET = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
# A reset time above this is a date in seconds since the epoch, not a waiting time.
_EPOCH_S = 1e9

_REMEDIES = {
    401: "check the API key",
    403: "check the API key and what it may use",
    404: "check the base URL (it ends in /v1), the workload's api and the model name",
    429: "lower the load, or set requests_per_minute",
    503: "wait until the server is ready, or lower the load",
}


class Mask:
    """Replaces an endpoint's secrets and header values by ``***``, in case a server echoes them.

    Also where they stand escaped (JSON, Python) or percent-encoded, each line of a many-line one, and the beginning of
    one at the place where an excerpt was cut (marked by ``…``). Values shorter than 4 characters are ignored.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        secrets = set(endpoint.secrets)
        for name, value in endpoint.headers.items():
            if name.lower() in _PUBLIC_HEADERS:
                continue
            # "Bearer KEY": the key alone too, not the word before it.
            secrets.update((value.strip(), value.strip().rpartition(" ")[2]))
        spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
        # The longest first, so that no rest of a longer one stays behind.
        self._secrets = sorted(
            (s for s in spellings if len(s.strip()) >= _MIN_SECRET_CHARS), key=lambda s: (-len(s), s)
        )

    def __call__(self, text: str) -> str:
        """The text, printable and without secrets, cut to 500 characters (after masking: a cut key is not found)."""
        # First the controls: one in the middle of a key would hide it here and vanish on the way to the reader.
        text = self.whole(printable(text))
        return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"

    def whole(self, text: str) -> str:
        """The text without secrets, not cut."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        head, *rest = text.split("…")
        for part in rest:
            head = f"{self._without_beginning(head)}…{part}"
        return head

    def _without_beginning(self, text: str) -> str:
        """The text without the first characters of a secret at its end."""
        for secret in self._secrets:
            first = secret[:_MIN_SECRET_CHARS]
            at = text.find(first, max(0, len(text) - len(secret) + 1))
            while at >= 0:
                if secret.startswith(text[at:]):
                    return text[:at] + "***"
                at = text.find(first, at + 1)
        return text


def _spellings(secret: str) -> set[str]:
    """How a server may spell a secret that it echoes."""
    found: set[str] = set()
    for part in (secret, *secret.splitlines()):
        plain = printable(part)
        found |= {part, plain, " ".join(plain.split()), repr(part)[1:-1]}
        found |= {json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1]}
        found |= {quote(part, errors="replace"), quote(part, safe="", errors="replace")}
    return found


def status_failure(status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> tuple[ErrorKind, str]:
    """Kind and message of an answer with an error status. `body` may be an excerpt; header names in lower case.

    Of a redirect the message names the target, without user info, query and fragment, which may hold keys.
    """
    fields = dict(headers)
    kind: ErrorKind = "http"
    if status in (401, 403):
        kind = "auth"
    elif status == 404:
        kind = "not_found"
    elif status == 429:
        kind = "rate_limited"
    remedy = _REMEDIES.get(status)
    if 300 <= status < 400:
        target = _target(fields.get(b"location", b""))
        said, remedy = f"redirected to {target or 'another place'}", "use the address it redirects to"
    else:
        said = body_text(_plain(body, content_encoding(fields)))
    message = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    return kind, f"{message} → {remedy}" if remedy else message


def _target(location: bytes) -> str:
    """Where a redirect leads, as a message may show it."""
    try:
        parts = urlsplit(location.decode("utf-8", "replace").strip())
        netloc = parts.netloc.rpartition("@")[2]
        return printable(excerpt(urlunsplit((parts.scheme, netloc, parts.path, "", "")), _MAX_TARGET_CHARS))
    except ValueError:
        return ""


def content_encoding(fields: Mapping[bytes, bytes]) -> str:
    """The compression of a body ("" for none), from headers with names in lower case."""
    name = fields.get(b"content-encoding", b"").strip().lower()[:20].decode("latin-1")
    return "" if name == "identity" else name


def _plain(body: bytes, encoding: str) -> bytes:
    """The start of an error body that a proxy compressed unasked; what cannot be unpacked is left out."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return b"" if encoding else body
    unpacker = zlib.decompressobj(wbits=47)  # gzip or zlib, by their own header
    try:
        return unpacker.decompress(body, _MAX_PLAIN_BYTES)
    except zlib.error:
        return b""


def no_stream(body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> tuple[ErrorKind, str]:
    """Kind and message of a 200 whose body (or its start) held no event."""
    encoding = content_encoding(dict(headers))
    if encoding:
        return "garbage", f"the answer is compressed ({encoding}) although that was not offered → switch it off"
    body = body.strip()
    if not body:
        return "empty", "HTTP 200 with an empty body"
    said = body_text(body)
    if body[:1] in b"{[":
        error = _error_of(body)
        if error:
            return "stream_error", f"HTTP 200, but the answer is an error: {error}"
        return "garbage", (
            "the server answered with plain JSON instead of a stream → Bakeoff measures streams: use an "
            f"endpoint that honours `stream: true`. It said: {said}"
        )
    return "garbage", f"the answer is not an event stream → check the base URL. It starts: {said}"


def _error_of(body: bytes) -> str | None:
    try:
        value = json_object(body)
    except ChunkError:
        return None
    if value.get("error"):
        return error_text(value["error"])
    return error_text(value.get("message")) if value.get("object") == "error" else None


def body_text(body: bytes) -> str:
    """What an error body says: the message of its JSON, or the start of its text on one line."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return " ".join(printable(excerpt(body.decode("utf-8", "replace"))).split())
    return " ".join(printable(error_text(value)).split())


def retry_after(headers: Iterable[tuple[bytes, bytes]], wall_s: float) -> float | None:
    """Seconds to wait as the server asks, or None. `wall_s`: seconds since the epoch, for dates.

    Reads ``retry-after-ms``, ``retry-after`` (seconds or an HTTP date) and ``x-ratelimit-reset*`` (seconds, an epoch
    time, or a duration such as ``1m30s``); of several resets, those whose ``remaining`` is 0 count, and the longest.
    A date counts from the server's own ``date``, where it tells one: a wrong clock there makes no wrong waiting time.
    """
    fields = {name.decode("latin-1").lower(): value.decode("latin-1").strip() for name, value in headers}
    server_s = _date(fields.get("date", ""))
    wall_s = wall_s if server_s is None else server_s
    milliseconds = _number(fields.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1e3
    if "retry-after" in fields:
        wait = _seconds_or_date(fields["retry-after"], wall_s)
        if wait is not None:
            return wait
    resets: dict[str, float] = {}
    for name, value in fields.items():
        if name.startswith(("x-ratelimit-reset", "ratelimit-reset")):
            reset = _reset(value, wall_s)
            if reset is not None:
                resets[name] = reset
    used_up = [wait for name, wait in resets.items() if _number(fields.get(name.replace("reset", "remaining"))) == 0]
    return max(used_up or resets.values(), default=None)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _seconds_or_date(text: str, wall_s: float) -> float | None:
    seconds = _number(text)
    if seconds is not None:
        return seconds
    date = _date(text)
    return None if date is None else max(0.0, date - wall_s)


def _date(text: str) -> float | None:
    """Seconds since the epoch of an HTTP date, or None."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _reset(text: str, wall_s: float) -> float | None:
    value = _number(text)
    if value is not None:
        return max(0.0, value - wall_s) if value >= _EPOCH_S else value
    match = _RESET.fullmatch(text)
    if not text or match is None:
        return None
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1e3
