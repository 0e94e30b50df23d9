"""FLOP and bytes of an operator, from the shapes and types of its arguments."""

from __future__ import annotations

import math
import re

from .timeline import Detail

_SIZES = (
    (re.compile(r"float8|int8|uint8|unsigned char|signed char|bool|Byte|Char|fp8"), 1),
    (re.compile(r"BFloat16|Half|half|float16|bf16|short|int16"), 2),
    (re.compile(r"double|long|int64|float64|Long|Double"), 8),
    (re.compile(r"float|int|Float|Int"), 4),
)
_ELEMENTWISE = re.compile(
    r"^aten::(?:add|sub|mul|div|neg|pow|rsqrt|silu|gelu|relu|sigmoid|tanh|exp|cos|sin|copy|clamp_min|threshold_backward|"
    r"fill|zero|where|abs|sqrt|addcmul|addcdiv)_?$"
)
_COPIES = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})
_MAX = 1 << 60


def work_of(name: str, detail: Detail) -> tuple[float, float] | None:
    """(FLOP, bytes moved at least) or None when the operator's arithmetic is not known from its shapes.

    A multiply-add is 2 FLOP. Each operand is read once, each result written once: the least that must move.
    """
    dims = detail.input_dims
    width = _width(detail)
    if any(size < 0 or size > _MAX for shape in dims for size in shape):
        return None
    if name in ("aten::mm", "aten::bmm") and len(dims) >= 2:
        return _product(dims[0], dims[1], width)
    if name in ("aten::addmm", "aten::baddbmm", "aten::_addmm_activation") and len(dims) >= 3:
        product = _product(dims[1], dims[2], width)
        return None if product is None else (product[0], product[1] + width * math.prod(dims[0]))
    if name == "aten::linear" and len(dims) >= 2 and len(dims[1]) == 2:
        return _product((math.prod(dims[0][:-1]), dims[0][-1]) if dims[0] else (), dims[1][::-1], width)
    if _ELEMENTWISE.match(name) and dims and any(dims):
        shapes = [shape for shape in dims if shape]
        out = _broadcast(shapes)
        if out is None:
            return None
        return (0.0 if name in _COPIES else float(out)), float(width * (sum(math.prod(s) for s in shapes) + out))
    return None


def _product(a: tuple[int, ...], b: tuple[int, ...], width: int) -> tuple[float, float] | None:
    """Matrix product, batched over equal leading dimensions: [..., m, k] × [..., k, n]."""
    if len(a) < 2 or len(a) != len(b) or a[-1] != b[-2] or a[:-2] != b[:-2]:
        return None
    batch, m, k, n = math.prod(a[:-2]), a[-2], a[-1], b[-1]
    return 2.0 * batch * m * k * n, float(width * batch * (m * k + k * n + m * n))


def _broadcast(shapes: list[tuple[int, ...]]) -> int | None:
    """Number of elements of the broadcast of shapes; None when they do not fit."""
    total = 1
    for axis in range(1, max(len(shape) for shape in shapes) + 1):
        sizes = {shape[-axis] for shape in shapes if len(shape) >= axis} - {1}
        if len(sizes) > 1:
            return None
        total *= sizes.pop() if sizes else 1
    return total


def _width(detail: Detail) -> int:
    """Bytes of one element: of the first argument whose type is known; 4 when none is."""
    for kind in detail.input_types:
        for pattern, size in _SIZES:
            if kind and pattern.search(kind):
                return size
    return 4
