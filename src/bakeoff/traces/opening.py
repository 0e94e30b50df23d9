"""Reading a file's content as a stream of pieces, plain or gzip, within bounds."""

from __future__ import annotations

import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from .limits import Limits, TraceError

PIECE_BYTES = 4 << 20
_RATIO_FROM = 64 << 20  # below this much text, no ratio is suspicious enough to refuse


def _decompressor() -> Any:
    """A gzip decompressor: ISA-L where it is installed (about twice as fast), zlib otherwise."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.decompressobj(wbits=31)
    return isal_zlib.decompressobj(wbits=31)


def _not_a_file(path: Path, kind: int) -> TraceError:
    """A file is read several times over, which a pipe does not allow; opening one that nobody writes to would hang."""
    if stat.S_ISDIR(kind):
        return TraceError("this is a folder", where=str(path), remedy="name one trace file")
    what = "a pipe" if stat.S_ISFIFO(kind) else "a device or socket"
    return TraceError(
        f"this is {what}, not a file",
        where=str(path),
        remedy="name the file itself (gzip is read as it is), or write the content into a file first",
    )


class TraceStream:
    """The decompressed content of a file, piece by piece; a context manager and an iterator.

    truncated: the gzip data ended early or broke in the middle; what came before it was delivered.
    Raises TraceError for files that cannot be opened, for more than ``limits.raw_bytes`` of content and for a
    compression ratio that no profile reaches (a gzip bomb).
    """

    def __init__(self, path: Path, limits: Limits, *, piece_bytes: int | None = None) -> None:
        self.path = path
        self.truncated = False
        self.raw_bytes = 0
        self._limits = limits
        self._piece_bytes = piece_bytes or PIECE_BYTES
        try:
            kind = path.stat().st_mode
            if not stat.S_ISREG(kind):
                raise _not_a_file(path, kind)
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise TraceError(
                f"the file cannot be read ({error.strerror})", where=str(path), remedy="check its path and permissions"
            ) from error

    def __enter__(self) -> TraceStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        magic = self._file.read(2)
        self._file.seek(0)
        pieces = self._gunzipped() if magic == b"\x1f\x8b" else self._plain()
        for piece in pieces:
            self.raw_bytes += len(piece)
            if self.raw_bytes > self._limits.raw_bytes:
                raise TraceError(
                    f"the content is longer than {self._limits.raw_bytes >> 20} MiB",
                    where=str(self.path),
                    remedy="profile a shorter window",
                )
            yield piece

    def _plain(self) -> Iterator[bytes]:
        while piece := self._file.read(self._piece_bytes):
            yield piece

    def _gunzipped(self) -> Iterator[bytes]:
        """Members may follow one another; the decompressor gives at most a piece at a time."""
        unzip = _decompressor()
        data = b""
        consumed = 0
        while True:
            if not data:
                data = self._file.read(1 << 20)
                if not data:
                    self.truncated = not unzip.eof
                    return
                consumed += len(data)
            try:
                piece = unzip.decompress(data, self._piece_bytes)
            except Exception:  # zlib and ISA-L raise classes of their own for broken data
                self.truncated = True
                return
            if self.raw_bytes + len(piece) > max(_RATIO_FROM, consumed * self._limits.ratio):
                raise TraceError(
                    f"the gzip file unpacks to more than {self._limits.ratio} times its size, as no profile does",
                    where=str(self.path),
                    remedy="this looks like a decompression bomb; if it is a profile, unpack it yourself first",
                )
            if piece:
                yield piece
            data = unzip.unconsumed_tail
            if unzip.eof:
                data = unzip.unused_data
                if not data.strip(b"\0"):  # padding after the last member is common (tar, block devices)
                    data = self._file.read(1 << 20)
                    consumed += len(data)
                    if not data.strip(b"\0"):
                        return
                unzip = _decompressor()


def whole_content(path: Path, limits: Limits, *, at_most: int = 1 << 30) -> tuple[bytes, bool]:
    """(the whole decompressed content, whether it was cut short), for formats that are small by nature.

    Raises TraceError beyond ``at_most`` bytes.
    """
    pieces: list[bytes] = []
    length = 0
    with TraceStream(path, limits) as stream:
        for piece in stream:
            length += len(piece)
            if length > at_most:
                raise TraceError(
                    f"the content is longer than {at_most >> 20} MiB, more than this format is read from",
                    where=str(path),
                    remedy="profile a shorter window",
                )
            pieces.append(piece)
        return b"".join(pieces), stream.truncated
