"""What a kernel does, by its name: the first matching row of a table wins; a fused kernel may carry a second label.

The table is ordered by meaning: what a name says about its purpose (communication, KV cache, attention, quantisation)
comes before what it says about its arithmetic (GEMM, elementwise), because a fused kernel names both.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from .timeline import GpuKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .timeline import Timeline

UNCLASSIFIED = "unclassified"
COMM = "comm"
COPY = "copy"

# (category, pattern). Searched anywhere in the name; upper and lower case as vendors write them.
TABLE: tuple[tuple[str, str], ...] = (
    (COMM, r"nccl|rccl|cross_device_reduce|multimem_all_reduce|all_?reduce|AllReduce|all_?gather|AllGather|"
           r"reduce_?scatter|all_?to_?all|nvshmem|deep_?ep|oneshot|twoshot"),
    ("kv cache", r"reshape_and_cache|concat_and_cache_mla|copy_page_indices|copy_blocks|swap_blocks|"
                 r"append_paged_kv|kv_cache_|store_kv|set_kv_buffer"),
    ("attention", r"flash_fwd|flash_bwd|flash_attn|flash::|FlashAttn|fmha|Fmha|FMHA|paged_attention|unified_attention|"
                  r"attn_fwd|attn_bwd|_mla_|\bmla_|sage_fwd|BatchPrefill|BatchDecode|[dD]ecode_?[aA]ttention|"
                  r"[aA]ttention|attn"),
    ("fused quantised gemm", r"Marlin|marlin_gemm|gemm_half_q_half_gptq|gemm_half_q_half|gemm_forward_4bit|gemm_w4a16|"
                             r"kgemm_4bit_inference|gemm_4bit_(?:simt|sm)|mul_mat_(?:vec_)?q|block_fp8|mxfp4|"
                             r"bmm_.*E2m1|gemm_a8w8|w8a8|scaled_mm|DeepGemm|deep_gemm|fp8_gemm|int4_gemm|awq_gemm"),
    ("dequantise", r"[dD]equant|reconstruct_.*(?:gptq|exllama)|convert_(?:q|iq)\d"),
    ("quantise", r"kQuantizeBlockwise|kInt8VectorQuant|fp8_quant|per_token_group_quant|cvt_fp16_to_fp4|quantize_q8|"
                 r"[qQ]uantize|_quant_|per_token_quant"),
    ("weight repack", r"marlin_repack|prepack_B|[rR]epack"),
    ("moe", r"fused_moe|_matmul_ogs|moe_align|topkGating|topk_?gating|MoeSorting|moe_sort|group_gemm|grouped_gemm|"
            r"\bmoe|_moe_|Moe|routing_compute|bitmatrix"),
    ("convolution", r"conv(?!ert)|Conv(?!ert)|scudnn|cudnn.*(?:dgrad|wgrad|fprop)|implicit|winograd|Winograd|im2col|"
                    r"[dw]grad|cask_cudnn|nchwToNhwc|nhwcToNchw|miopen(?!.*BatchNorm)|MIOpen(?!.*BatchNorm)|"
                    r"computeOffsets|_dgrad_|_wgrad_"),
    ("gemm", r"nvjet|xmma_gemm|s16816gemm|cutlass|gemv|splitKreduce|Cijk_|ck_tile.*gemm|wvSplitK|gemm|Gemm|GEMM|"
             r"matmul|MatMul|dot_kernel|\bdot_|_mm_|gett_|cublasLtEpilogue"),
    ("norm", r"rms_?norm|RMSNorm|layer_?norm|LayerNorm|Layer_?[nN]orm|group_?norm|GroupNorm|batch_?norm|BatchNorm|"
             r"\bbn_|bnorm|BnFwd|BnBwd|rsqrt|[nN]orm\d?d?(?:Fwd|Bwd)|GammaBeta"),
    ("rope", r"rotary|rope|Rotary|RoPE"),
    ("sampling", r"top_?[kp]|TopK|TopP|sampl|[sS]oft_?[mM]ax|RadixSort|radixSort|bitonicSort|argmax|ArgMax|multinomial|"
                 r"penalt"),
    ("optimizer", r"multi_tensor|[aA]dam|FusedOptimizer|[sS]gd(?:_|Math)"),
    ("embedding", r"[eE]mbedding|index_?select|indexSelect|gather|Gather|scatter|Scatter|index_elementwise|"
                  r"index_(?:put|get)|vectorized_gather|compute_grad_weight|segment"),
    ("pooling", r"[pP]ool|upsample|interpolate"),
    ("loss", r"nll_loss|NLLCriterion|cross_entropy|CrossEntropy|mse_loss"),
    ("activation", r"act_and_mul|silu|SiLU|gelu|GELU|Gelu|relu|ReLU|swiglu|SwiGLU|threshold_kernel|clamp_scalar|"
                   r"[dD]ropout"),
    (COPY, r"rocclr_|copyBuffer|fillBuffer|memcpy|Memcpy|memset|Memset|transpose|Transpose|permute"),
    ("elementwise", r"elementwise|triton_poi|CatArray|direct_copy|distribution_|where_kernel|arange|compare_|fill_|"
                    r"transform_kernel|add_kernel|mul_kernel|copy_kernel|scale.*Tensor|axpy"),
    ("reduce", r"reduce_kernel|reduce_1Block|triton_(?:red|per)|[rR]educe|reduction|cumsum|scan_|Scan|cub::|"
               r"sum_kernel|lpnorm|ReduceOp"),
    # Science codes: a loop body over a grid, whatever it computes.
    ("grid", r"par_ranged\dd|Kokkos|RAJA|stencil|jacobi"),
    ("wait", r"spin_kernel|sleep_kernel|nanosleep"),
)  # fmt: skip
CATEGORIES = (*(name for name, _ in TABLE), UNCLASSIFIED)
_COMPILED = tuple((name, re.compile(pattern)) for name, pattern in TABLE)
_MANGLED = re.compile(r"_Z\w*?(?=\d)")


def readable(name: str) -> str:
    """The source names inside an Itanium-mangled name, joined by ``::``; other names as they are."""
    if not name.startswith("_Z"):
        return name
    words = []
    at = 2
    while at < len(name):
        digits = re.compile(r"\d+").match(name, at)
        if digits is None:
            at += 1
            continue
        length, at = int(digits[0][:4]), digits.end()
        word = name[at : at + length]
        if 0 < length == len(word) and re.match(r"[A-Za-z_]", word):
            words.append("(anonymous namespace)" if word.startswith("_GLOBAL__N") else word)
            at += length
    return "::".join(words) or name


_NOISE = re.compile(
    r"^(?:void|static void) |\(anonymous namespace\)::|<unnamed>::|\b(?:at::native|at::cuda|cudnn::\w+|c10|std)::|"
    r"\(int\)|\(bool\)|\(unsigned (?:long|int)\)"
)
_GENERIC = frozenset({"BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "ReduceOp", "TensorListMetadata"})
_CORE = re.compile(r"\b\w*(?:[fF]unctor|_kernel_cuda|_kernel_impl|KernelImpl|Ops)\w*")


def short(name: str) -> str:
    """A kernel's name for a table: without return type, arguments and the namespaces that all kernels share; of
    PyTorch's generic kernels what they compute stands first, because only that tells them apart."""
    text = _NOISE.sub("", readable(name))
    head, bracket, inner = text.partition("<")
    if not bracket:
        return text.partition("(")[0] or text
    if "elementwise" in head or head in ("reduce_kernel", "multi_tensor_apply_kernel"):
        core = next((core for core in _CORE.findall(inner) if core not in _GENERIC and "gpu_kernel" not in core), "")
        if core:
            return f"{head} · {core}"
    return text


@lru_cache(maxsize=65536)
def category_of(name: str) -> tuple[str, str | None]:
    """(category, second label or None) of a kernel name. Pure; unknown names are ``unclassified``."""
    text = readable(name)[:2048]
    found = [category for category, pattern in _COMPILED if pattern.search(text)]
    if not found:
        return UNCLASSIFIED, None
    return found[0], (found[1] if len(found) > 1 else None)


def category_ids(timeline: Timeline) -> NDArray[np.int8]:
    """For each GPU event the index into CATEGORIES: by name for kernels, ``copy`` for copies and memsets."""
    import numpy as np

    memo = timeline.memo
    if "category_ids" not in memo:
        number = {name: index for index, name in enumerate(CATEGORIES)}
        gpu = timeline.gpu
        of_name = np.full(len(timeline.names), number[UNCLASSIFIED], np.int8)
        for index in np.unique(gpu.name[gpu.kind == GpuKind.KERNEL]):
            of_name[index] = number[category_of(timeline.names[index])[0]]
        memo["category_ids"] = np.where(gpu.kind == GpuKind.KERNEL, of_name[gpu.name], number[COPY]).astype(np.int8)
    ids: NDArray[np.int8] = memo["category_ids"]
    return ids
