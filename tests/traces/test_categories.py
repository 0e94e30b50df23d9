"""What kernels do, by their names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.traces.analyses import ANALYSES
from bakeoff.traces.categories import CATEGORIES, UNCLASSIFIED, category_of, readable, short

KNOWN = {
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "comm",
    "void vllm::cross_device_reduce_1stage<c10::BFloat16, 8>(RankData*, RankSignals)": "comm",
    "void multimem_all_reduce_kernel<float>(float*)": "comm",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(...)": "kv cache",
    "void vllm::concat_and_cache_mla_kernel<unsigned short>()": "kv cache",
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >(Params)": "attention",
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention)": "attention",
    "kernel_unified_attention_2d": "attention",
    "void vllm::paged_attention_v1_kernel<unsigned short>()": "attention",
    "void gptq_marlin::Marlin<(long)1125899906909960>(int4 const*)": "fused quantised gemm",
    "void gemm_half_q_half_gptq_4bit_kernel<true, 4>(half const*)": "fused quantised gemm",
    "void mul_mat_vec_q<(ggml_type)12, 1>(void const*)": "fused quantised gemm",
    "_w8a8_block_fp8_matmul": "fused quantised gemm",
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x8x512": "fused quantised gemm",
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1": "fused quantised gemm",
    "void dequantize_block_q4_K<__half>(void const*, __half*)": "dequantise",
    "void kDequantizeBlockwise<float, 512, 64, 8, 0>(float*)": "dequantise",
    "void vllm::gptq::reconstruct_exllama_4bit_kernel(unsigned int const*)": "dequantise",
    "void kQuantizeBlockwise<float, 64, 2, 0, 0>(float*)": "quantise",
    "quantize_q8_1(float const*, void*)": "quantise",
    "void per_token_group_quant_8bit_kernel<c10::BFloat16>()": "quantise",
    "void marlin::gptq_marlin_repack_kernel<256, 4, false>(unsigned int const*)": "weight repack",
    "fused_moe_kernel": "moe",
    "void vllm::moe::topkGating<8, 128, 4>()": "moe",
    "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN": "gemm",
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_tn": "gemm",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x32x256": "gemm",
    "void gemv2T_kernel_val<int, int, float, float>()": "gemm",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float>()": "gemm",
    "void wvSplitK_hf_sml_<__hip_bfloat16, 64>()": "gemm",
    "void vllm::rms_norm_kernel<c10::BFloat16, 8>()": "norm",
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0": "norm",
    "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassE": "norm",
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>()": "rope",
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>()": "sampling",
    "_topk_forward": "sampling",
    "void cub::DeviceRadixSortHistogramKernel<>()": "sampling",
    "void vllm::act_and_mul_kernel<c10::BFloat16, silu>()": "activation",
    "void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>()": "elementwise",
    "triton_poi_fused_add_mul_0": "elementwise",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<>()": "elementwise",
    "void at::native::reduce_kernel<512, 1, ReduceOp<float> >()": "reduce",
    "triton_per_fused_sum_2": "reduce",
    "__amd_rocclr_copyBuffer": "copy",
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32": "convolution",
    "somebodys_own_kernel": UNCLASSIFIED,
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_kernels(name: str) -> None:
    assert category_of(name)[0] == KNOWN[name]


def test_a_fused_kernel_carries_a_second_label() -> None:
    assert category_of("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1") == ("fused quantised gemm", "moe")
    assert category_of("triton_red_fused_add_mean_rsqrt_0") == ("norm", "reduce")
    assert category_of("somebodys_own_kernel") == (UNCLASSIFIED, None)


def test_mangled_names_are_made_readable() -> None:
    assert readable("_ZN3foo12_GLOBAL__N_13barEi") == "foo::(anonymous namespace)::bar"
    assert readable("_Z5saxpyPfS_f") == "saxpy"
    assert readable("plain_kernel") == "plain_kernel"
    assert readable("_Z") == "_Z"


def test_short_names_say_what_generic_kernels_compute() -> None:
    name = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, "
        "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int)"
    )
    assert short(name) == "vectorized_elementwise_kernel · MulFunctor"
    assert short("volta_sgemm_64x64_nt") == "volta_sgemm_64x64_nt"
    assert short("void saxpy(int, float)") == "saxpy"


@given(st.text(max_size=300))
def test_any_text_has_a_category(name: str) -> None:
    for text in (name, "_Z" + name, "_ZN9999" + name):
        category, second = category_of(text)
        assert category in CATEGORIES
        assert second is None or second in CATEGORIES
        assert isinstance(short(text), str)


def test_names_of_categories_and_analyses_are_unique() -> None:
    assert len(set(CATEGORIES)) == len(CATEGORIES)
    names = [analysis.__name__ for analysis in ANALYSES]
    assert len(set(names)) == len(names)
