"""What an operator does, by its name: PyTorch's ``aten::…`` and ONNX's operator types. Kernel names: `categories`."""

from __future__ import annotations

import re
from functools import lru_cache

from .categories import UNCLASSIFIED, category_of

# First match wins; names that a kernel's name would also carry are left to the kernels' table.
TABLE: tuple[tuple[str, str], ...] = (
    ("dequantise", r"DequantizeLinear|dequant|MatMulNBits.*[dD]equant"),
    ("fused quantised gemm", r"MatMulNBits|MatMulInteger|QLinear(?:MatMul|Conv)|ConvInteger|QGemm|QAttention|"
                             r"quantized::linear|_weight_int[48]pack_mm|onednn::qlinear|_int_mm|_scaled_mm|dynamic_4bit"),
    ("quantise", r"QuantizeLinear|DynamicQuantize|quantize_per|fake_quant"),
    ("attention", r"scaled_dot_product|MultiHeadAttention|GroupQueryAttention|^Attention$|flash_attention|attention"),
    ("norm", r"Normalization|layer_norm|rms_norm|group_norm|batch_norm"),
    ("kv cache", r"slot_mapping"),
    ("rope", r"RotaryEmbedding|rotary"),
    ("convolution", r"^(?:aten::)?_?(?:conv\d?d?|convolution|mkldnn_convolution)|^(?:Fused)?Conv(?:Transpose)?$|"
                    r"thnn_conv|cudnn_convolution"),
    ("gemm", r"^(?:aten::)?(?:mm|bmm|addmm|addbmm|baddbmm|matmul|linear|einsum|addmv|mv|dot|_?mkldnn_linear\w*)$|"
             r"^(?:Fused)?(?:MatMul|Gemm)(?:Activation)?$|mkldnn::_linear|prims::(?:mm|linear)|"
             r"^\w+::(?:\w+_)?(?:mm|gemm|matmul|linear)(?:_\w+)?$"),
    ("embedding", r"embedding|^Gather|Scatter|^aten::(?:index|gather|index_select|scatter\w*|index_put_?|"
                  r"index_add_?)$"),
    ("activation", r"gelu|Gelu|silu|relu|Relu|sigmoid|Sigmoid|tanh|Tanh|Elu|Swish|softplus|glu$|dropout"),
    ("sampling", r"softmax|Softmax|topk|TopK|multinomial|argmax|ArgMax|aten::sort|exponential_"),
    ("pooling", r"[pP]ool|upsample|Resize"),
    ("reduce", r"^(?:aten::)?(?:sum|mean|amax|amin|max|min|cumsum|prod|norm|any|all|std|var)$|^Reduce|^CumSum"),
    ("copy", r"^aten::(?:copy_|_?to|_to_copy|contiguous|clone|cat|stack|transpose|permute|t|view|reshape|_unsafe_view|"
             r"expand\w*|flatten|unflatten|resolve_\w+|result_type|movedim|slice|select|split\w*|chunk|unsqueeze|squeeze|narrow|as_strided|detach|alias|repeat|unbind|"
             r"pin_memory|item|_local_scalar_dense|unsafe_\w+|resize_)$|^(?:Concat|Slice|Transpose|Reshape|Squeeze|"
             r"Unsqueeze|Split|Expand|Identity|Memcpy\w*|Tile|Pad|Flatten|ReorderInput|ReorderOutput)$"),
    ("allocation", r"^aten::(?:empty\w*|zeros\w*|ones\w*|full\w*|new_\w+|zero_|fill_|arange|set_)$|^ConstantOfShape$"),
    ("elementwise", r"^(?:aten::)?(?:add|sub|mul|div|rsub|neg|pow|sqrt|rsqrt|reciprocal|exp|log|log2|sin|cos|abs|where|"
                    r"eq|ne|lt|gt|le|ge|logical_\w+|bitwise_\w+|masked_fill|clamp\w*|floor\w*|round|erf|addcmul|"
                    r"addcdiv|remainder|isnan|maximum|minimum|lerp|square)_?$|"
                    r"^(?:Add|Sub|Mul|Div|Pow|Sqrt|Exp|Log|Neg|Abs|Cast|Where|Equal|Greater\w*|Less\w*|Not|And|Or|Erf|"
                    r"Min|Max|Clip|Floor|Ceil|Round|Cos|Sin|Reciprocal|BiasAdd|FusedAdd|IsNaN|Range)$"),
    ("prefill", r"^prefill$"),
    ("decode", r"^decode$"),
)  # fmt: skip
_COMPILED = tuple((category, re.compile(pattern)) for category, pattern in TABLE)


@lru_cache(maxsize=16384)
def op_category(name: str) -> str:
    """The category of an operator: this table, then the kernels' (custom operators are named like their kernels)."""
    text = name[:512]
    for category, pattern in _COMPILED:
        if pattern.search(text):
            return category
    found = category_of(text)[0]
    return found if found != UNCLASSIFIED else UNCLASSIFIED
