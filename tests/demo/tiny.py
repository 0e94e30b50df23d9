"""A tiny GGUF file made by the reference writer: every kind of metadata, and matrices whose rows divide by 32."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from bakeoff.demo.models import Source

Type = gguf.GGMLQuantizationType
TOKENS = ["<pad>", "é", "日本", "", " a\nb"]


def write_tiny(path: Path, *, alignment: int = 32, file_type: bool = True) -> None:
    """Two blocks; matrices in F16, F32, Q5_0 and Q8_0, as a mixed source has."""
    writer = gguf.GGUFWriter(path, "gemma3")
    writer.add_name("tiny")
    writer.add_uint32("tiny.u32", 7)
    writer.add_uint64("tiny.u64", 2**40)
    writer.add_int32("tiny.i32", -7)
    writer.add_float32("tiny.f32", 1e-6)
    writer.add_float64("tiny.f64", 1e-300)
    writer.add_bool("tiny.bool", True)
    writer.add_uint8("tiny.u8", 255)
    writer.add_token_list(TOKENS)
    writer.add_token_scores([0.5, -1000.0, 1.0, 2.0, 3.0])
    writer.add_token_types([3, 1, 1, 1, 1])
    writer.add_array("tiny.flags", [True, False])
    if alignment != 32:
        writer.add_custom_alignment(alignment)
    if file_type:
        writer.add_file_type(15)
    for name, data, kind in tensors():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors() -> list[tuple[str, Any, Any]]:
    """(name, data as stored, quantised type or None)."""
    random = np.random.default_rng(1)

    def matrix(*shape: int) -> Any:
        return random.normal(0, 0.02, shape).astype(np.float32)

    return [
        ("token_embd.weight", gguf.quants.quantize(matrix(40, 64), Type.Q8_0), Type.Q8_0),
        ("blk.0.attn_q.weight", gguf.quants.quantize(matrix(96, 64), Type.Q5_0), Type.Q5_0),
        ("blk.0.attn_norm.weight", matrix(64), None),
        ("blk.1.ffn_up.weight", matrix(33, 64).astype(np.float16), None),
        ("blk.1.ffn_down.weight", matrix(64, 32), None),
        ("output_norm.weight", matrix(64), None),
    ]


def values(path: Path) -> dict[str, Any]:
    """Every tensor as float32."""
    reader = gguf.GGUFReader(path)
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}


def types(path: Path) -> dict[str, str]:
    return {t.name: t.tensor_type.name for t in gguf.GGUFReader(path).tensors}


def metadata(path: Path) -> dict[str, Any]:
    """Every field, in order, with its types; without the counts that the reader adds."""
    reader = gguf.GGUFReader(path)
    return {f.name: (f.types, f.contents()) for f in reader.fields.values() if not f.name.startswith("GGUF.")}


def tiny_source(folder: Path, *, assemble: Callable[[Path], object] | None = None) -> Source:
    original = folder / "original.gguf"
    write_tiny(original)
    data = original.read_bytes()
    return Source(
        "tiny.gguf", hashlib.sha256(data).hexdigest(), len(data), assemble or (lambda path: path.write_bytes(data))
    )
