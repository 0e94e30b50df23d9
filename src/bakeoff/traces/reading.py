"""Opening a trace: which format it is is told by its content, never by its name.

A reader is one file with an object ``READER`` that fulfils `Reader`; others come in as entry points of the group
``bakeoff.readers``. `bakeoff.traces.conformance` checks one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from .limits import Limits, TraceError
from .opening import TraceStream

if TYPE_CHECKING:
    from .timeline import Timeline

# Asked in this order, plugins before the last one: every Chrome trace looks like Kineto's.
BUILT_IN = ("nsys", "ort", "rocprof", "torch_trace", "kineto")
_GROUP = "bakeoff.readers"
HEAD_BYTES = 256 * 1024


class Reader(Protocol):
    """One trace format."""

    name: str  # "kineto"

    def recognises(self, head: bytes, path: Path) -> bool:
        """True when the file is of this format. ``head``: the first HEAD_BYTES, decompressed if gzip. Never raises."""

    def read(self, path: Path, limits: Limits) -> Timeline:
        """The whole trace. Raises TraceError for what cannot be used; broken parts are counted in ``losses``."""


def reader_names() -> tuple[str, ...]:
    """Every reader in the order in which they are asked, plugins included."""
    from importlib.metadata import entry_points

    plugins = sorted(point.name for point in entry_points(group=_GROUP) if point.name not in BUILT_IN)
    return (*BUILT_IN[:-1], *dict.fromkeys(plugins), BUILT_IN[-1])


def get_reader(name: str) -> Reader:
    """The reader of that name. Raises TraceError when there is none or it cannot be loaded."""
    from importlib import import_module
    from importlib.metadata import entry_points

    if name in BUILT_IN:
        return cast(Reader, import_module(f".{name}", __package__).READER)
    for point in entry_points(group=_GROUP, name=name):
        try:
            return cast(Reader, point.load())
        except (ImportError, AttributeError) as error:
            raise TraceError(
                f"the trace reader {name!r} ({point.value}) cannot be loaded: {error}",
                remedy="install what it needs, or update the package that brings it",
            ) from error
    raise TraceError(f"there is no trace reader {name!r}", remedy=f"known: {', '.join(reader_names())}")


def read(path: str | Path, *, format: str | None = None, limits: Limits | None = None) -> Timeline:
    """Reads a trace of any known format. Raises TraceError (an input error, exit code 2).

    format: a reader's name, to skip recognition.
    """
    path = Path(path)
    try:
        return _read(path, format, limits or Limits())
    except TraceError as error:
        error.where = error.where or str(path)
        raise


def _read(path: Path, format: str | None, limits: Limits) -> Timeline:
    head = head_of(path)
    if format is not None:
        return get_reader(format).read(path, limits)
    broken: list[str] = []
    for name in reader_names():
        try:
            reader = get_reader(name)
        except TraceError as error:  # a broken plugin is no reason not to read what others can
            broken.append(error.message)
            continue
        if reader.recognises(head, path):
            return reader.read(path, limits)
    raise TraceError(
        "; ".join(["this is not a trace of a known format", *broken]),
        where=str(path),
        remedy=f"give a profile of one of: {', '.join(reader_names())}; it is recognised by its content",
    )


def head_of(path: Path) -> bytes:
    """The first HEAD_BYTES of the content, decompressed when it is gzip. Raises TraceError for unreadable files."""
    head = b""
    with TraceStream(path, Limits(), piece_bytes=HEAD_BYTES) as stream:
        for piece in stream:
            head += piece
            if len(head) >= HEAD_BYTES:
                break
        cut = stream.truncated
    if not head.strip():
        raise TraceError(
            "the gzip file is broken at its start" if cut else "the file is empty",
            where=str(path),
            remedy="copy the file again" if cut else "profile again; the profiler wrote nothing",
        )
    return head[:HEAD_BYTES]
