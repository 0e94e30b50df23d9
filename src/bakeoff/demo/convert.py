"""Copies of a GGUF file in other number formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..errors import BakeoffError
from .layout import Layout, Tensor, header, padded, read_layout

# Elements converted at once: 8 MB as float32, plus the temporaries of the quantiser. Bounds the memory.
_SLICE = 2**21

Progress = Callable[[float], None]


class Format(NamedTuple):
    """Which type each tensor of a copy gets, by names of gguf.GGMLQuantizationType and gguf.LlamaFileType."""

    file_type: str
    blocks: str  # matrices of the transformer blocks (blk.*)
    others: str  # every other matrix: token embedding and, if it is not tied to it, the output

    def of(self, tensor: Tensor) -> str:
        """The type of one tensor. Vectors (norms, biases) stay in float32: they cost nothing and are sensitive."""
        if len(tensor.shape) == 1:
            return "F32"
        return self.blocks if tensor.name.startswith("blk.") else self.others


Q8_0 = Format(file_type="MOSTLY_Q8_0", blocks="Q8_0", others="Q8_0")
# Only the block matrices are made smaller. The token embedding, which is also the output matrix here and the largest
# tensor by far (178 MB, Q8_0 in the packaged file as well), keeps the very bytes that it has in the Q8_0 copy:
# otherwise "4-bit weights" would be two changes at once, and no effect could be ascribed to either.
Q4_0_BLOCKS = Format(file_type="MOSTLY_Q4_0", blocks="Q4_0", others="Q8_0")


def convert(source: Path, target: Path, form: Format, progress: Progress = lambda _share: None) -> None:
    """Writes a copy of `source` with the tensor types of `form`; metadata and tensor order are kept.

    A tensor that already has its type is copied byte for byte. `progress` gets the share done, 0..1.
    Raises BakeoffError (no GGUF, or a tensor that cannot have its type) and OSError.
    """
    import gguf

    layout = read_layout(source)
    types = [(tensor, int(gguf.GGMLQuantizationType[form.of(tensor)])) for tensor in layout.tensors]
    for tensor, new_type in types:
        _refuse_uneven(tensor, new_type, source)
    total = sum(math.prod(tensor.shape) for tensor in layout.tensors) or 1
    done = 0
    with source.open("rb") as reader, target.open("wb") as writer:
        writer.write(header(layout, types, _byte_size, int(gguf.LlamaFileType[form.file_type])))
        for tensor, new_type in types:
            for elements in _write_tensor(reader, writer, layout, tensor, new_type):
                done += elements
                progress(done / total)
            written = _byte_size(tensor, new_type)
            writer.write(bytes(padded(written, layout.alignment) - written))


def _write_tensor(reader: BinaryIO, writer: BinaryIO, layout: Layout, tensor: Tensor, new_type: int) -> Iterator[int]:
    """Writes one tensor, some rows at a time; yields the number of elements after each slice."""
    import gguf
    import numpy as np

    old = gguf.GGMLQuantizationType(tensor.type)
    new = gguf.GGMLQuantizationType(new_type)
    columns = tensor.shape[-1]
    rows = math.prod(tensor.shape) // columns
    row_bytes = _byte_size(tensor, tensor.type) // rows
    step = max(1, _SLICE // columns)
    reader.seek(layout.data_start + tensor.offset)
    for first in range(0, rows, step):
        count = min(step, rows - first)
        raw = reader.read(count * row_bytes)
        if len(raw) != count * row_bytes:
            raise BakeoffError(f"the file ends inside {tensor.name}", where=reader.name, remedy="fetch the model again")
        if old != new:
            data = np.frombuffer(raw, dtype=np.uint8).reshape(count, row_bytes)
            raw = gguf.quants.quantize(gguf.quants.dequantize(data, old), new).tobytes()
        writer.write(raw)
        yield count * columns


def _refuse_uneven(tensor: Tensor, new_type: int, source: Path) -> None:
    """Quantised types hold whole blocks of a row. Raises BakeoffError."""
    import gguf

    for kind in (tensor.type, new_type):
        block, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
        if tensor.shape[-1] % block:
            name = gguf.GGMLQuantizationType(kind).name
            raise BakeoffError(
                f"{tensor.name}: rows of {tensor.shape[-1]} do not divide into {name} blocks of {block}",
                where=str(source),
                remedy="use a model whose rows do",
            )


def _byte_size(tensor: Tensor, kind: int) -> int:
    import gguf

    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
    return math.prod(tensor.shape) // int(block) * int(size)
