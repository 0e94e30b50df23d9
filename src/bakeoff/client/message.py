"""Request messages: what stands in front of a body on the wire."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import EndpointError
from ..web.address import Origin

# Framing is the client's business; a user's value would make the message unreadable.
_OWN_HEADERS = ("content-length", "transfer-encoding", "connection")


def request_head(
    method: str, origin: Origin, path: str, headers: Mapping[str, str], *, accept: str = "text/event-stream"
) -> bytes:
    """Everything of a request up to the value of Content-Length, which the caller appends with two line ends.

    `headers` replace the defaults of the same name. Raises EndpointError for a header that would break the message
    (its value is not shown: it may be a key).
    """
    fields = {
        "host": ("Host", origin.netloc),
        "user-agent": ("User-Agent", "bakeoff"),
        "accept": ("Accept", accept),
        # Compression would delay and merge the chunks whose arrival is measured.
        "accept-encoding": ("Accept-Encoding", "identity"),
    }
    if method == "POST":
        fields["content-type"] = ("Content-Type", "application/json")
    for name, value in headers.items():
        if name.lower() in _OWN_HEADERS:
            continue
        if any(c in "\r\n\0" for c in name + value) or ":" in name or not name.strip():
            raise EndpointError(
                f"header {name.splitlines()[0][:50] if name.strip() else name!r} has an illegal name or value",
                where=str(origin),
                remedy="remove line breaks from it (a key read from a file often ends in one)",
            )
        fields[name.lower()] = (name, value)
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.values()), "Content-Length: "]
    return "\r\n".join(lines).encode("utf-8")


def frame(head: bytes, body: bytes) -> bytes:
    """A whole request message from a head of `request_head` and its body."""
    return b"%b%d\r\n\r\n%b" % (head, len(body), body)
