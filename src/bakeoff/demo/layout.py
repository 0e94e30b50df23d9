"""The layout of a GGUF file (version 2 or 3, little-endian): metadata as it stands, and where each tensor lies.

The metadata is kept as raw bytes, so a copy has every field exactly, whatever its type. (The reader of the `gguf`
package makes Python objects of each of the 262,144 tokens: 8 s and 700 MB for this model; its enumerations and
quantisation are used, its reader is not.) Format: docs/gguf.md of the ggml project.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..errors import BakeoffError

MAGIC = b"GGUF"
VERSION = 3
UINT32, STRING, ARRAY = 4, 8, 9
FILE_TYPE_KEY = b"general.file_type"
ALIGNMENT_KEY = b"general.alignment"
DEFAULT_ALIGNMENT = 32

# Bytes of the scalar value types: u8 i8 u16 i16 u32 i32 f32 bool, u64 i64 f64.
_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_MAX_DIMENSIONS = 4


class Tensor(NamedTuple):
    """One tensor: shape as numpy has it (rows first, the contiguous dimension last), type, place in the data."""

    name: str
    shape: tuple[int, ...]
    type: int  # gguf.GGMLQuantizationType
    offset: int  # from the start of the data [bytes]


class Layout(NamedTuple):
    """What stands before the data."""

    metadata: bytes  # all key-value pairs, as they stand in the file
    pairs: int
    file_type_at: int | None  # where the uint32 of general.file_type stands in `metadata`
    alignment: int
    tensors: tuple[Tensor, ...]
    data_start: int


class _Cursor:
    """Walks over little-endian bytes."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def take(self, code: str) -> int:
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return int(value)

    def text(self) -> bytes:
        length = self.take("Q")
        if self.at + length > len(self.data):
            raise ValueError("a text runs over the end of the file")
        self.at += length
        return bytes(self.data[self.at - length : self.at])

    def skip(self, value_type: int) -> None:
        """Passes over one value of that type."""
        if value_type == STRING:
            length = self.take("Q")
            self.at += length
        elif value_type == ARRAY:
            element, count = self.take("I"), self.take("Q")
            if element in _SCALAR_BYTES:
                self.at += _SCALAR_BYTES[element] * count
            else:
                for _ in range(count):
                    self.skip(element)
        elif value_type in _SCALAR_BYTES:
            self.at += _SCALAR_BYTES[value_type]
        else:
            raise ValueError(f"unknown value type {value_type}")
        if self.at > len(self.data):
            raise ValueError("a value runs over the end of the file")


def read_layout(path: Path) -> Layout:
    """Reads the layout of a GGUF file. Raises BakeoffError if it is none, and OSError."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(_Cursor(data))
    except (ValueError, struct.error, IndexError, RecursionError) as error:  # ValueError: an empty file, too
        raise BakeoffError(
            f"this is no GGUF file that can be copied: {error}", where=str(path), remedy="fetch the model again"
        ) from error


def _parse(cursor: _Cursor) -> Layout:
    if cursor.data[:4] != MAGIC:
        raise ValueError("it does not begin with GGUF")
    cursor.at = 4
    version, tensor_count, pairs = cursor.take("I"), cursor.take("Q"), cursor.take("Q")
    if version not in (2, VERSION):
        raise ValueError(f"version {version} (or big-endian)")
    start, alignment, file_type_at = cursor.at, DEFAULT_ALIGNMENT, None
    for _ in range(pairs):
        key, value_type = cursor.text(), cursor.take("I")
        value_at = cursor.at
        cursor.skip(value_type)
        if key == ALIGNMENT_KEY and value_type == UINT32:
            alignment = struct.unpack_from("<I", cursor.data, value_at)[0]
        elif key == FILE_TYPE_KEY and value_type == UINT32:
            file_type_at = value_at - start
    if alignment <= 0 or alignment & (alignment - 1):
        raise ValueError(f"alignment {alignment} is no power of two")
    metadata = bytes(cursor.data[start : cursor.at])
    tensors = tuple(_tensor(cursor) for _ in range(tensor_count))
    return Layout(metadata, pairs, file_type_at, alignment, tensors, padded(cursor.at, alignment))


def _tensor(cursor: _Cursor) -> Tensor:
    name, dimensions = cursor.text().decode("utf-8"), cursor.take("I")
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise ValueError(f"{name} has {dimensions} dimensions")
    shape = tuple(cursor.take("Q") for _ in range(dimensions))[::-1]
    if 0 in shape:
        raise ValueError(f"{name} is empty")
    return Tensor(name, shape, cursor.take("I"), cursor.take("Q"))


def padded(size: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // alignment) * alignment


def header(
    layout: Layout, tensors: list[tuple[Tensor, int]], byte_size: Callable[[Tensor, int], int], kind: int
) -> bytes:
    """Everything before the data of a copy whose tensors have the given types, padded to the alignment.

    `byte_size(tensor, type)` gives a tensor's size [bytes]; `kind` is the copy's general.file_type.
    """
    metadata, pairs = bytearray(layout.metadata), layout.pairs
    if layout.file_type_at is not None:
        struct.pack_into("<I", metadata, layout.file_type_at, kind)
    else:
        metadata += struct.pack("<Q", len(FILE_TYPE_KEY)) + FILE_TYPE_KEY + struct.pack("<II", UINT32, kind)
        pairs += 1
    out = bytearray(MAGIC + struct.pack("<IQQ", VERSION, len(tensors), pairs) + metadata)
    offset = 0
    for tensor, new_type in tensors:
        name = tensor.name.encode()
        out += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(tensor.shape))
        out += struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape)) + struct.pack("<IQ", new_type, offset)
        offset += padded(byte_size(tensor, new_type), layout.alignment)
    return bytes(out.ljust(padded(len(out), layout.alignment), b"\0"))
