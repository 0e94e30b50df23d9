from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.engines.fetch import fetch
from bakeoff.engines.llamacpp import ENGINE
from bakeoff.engines.memory_log import parse_memory_log, read_memory_log
from tests.tiny_gguf import write_tiny_gguf

from .conftest import context, variant

MIB, GIB = 2**20, 2**30
LLAMA_CPU = """\
0.00.005.538 I load_tensors:   CPU_Mapped model buffer size =   271.81 MiB
0.00.005.879 I llama_context:        CPU  output buffer size =     1.00 MiB
0.00.005.971 I llama_kv_cache:        CPU KV buffer size =     12.00 MiB
0.00.005.972 I llama_kv_cache:        CPU KV buffer size =      3.00 MiB
0.00.007.811 I sched_reserve:        CPU compute buffer size =     64.50 MiB
"""
LLAMA_CUDA = """\
load_tensors:        CUDA0 model buffer size =  4096.00 MiB
load_tensors:   CPU_Mapped model buffer size =   280.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB
sched_reserve:      CUDA0 compute buffer size =   300.00 MiB
sched_reserve:  CUDA_Host compute buffer size =    10.00 MiB
"""
VLLM = """\
INFO [gpu_model_runner.py:2338] Model loading took 14.9888 GiB and 3.2 seconds
INFO [gpu_worker.py:298] Available KV cache memory: 55.20 GiB
INFO [gpu_model_runner.py:2900] Graph capturing finished in 20 secs, took 0.50 GiB
"""
VLLM_CPU = "INFO [cpu_worker.py:260] Explicitly set (2.0/11.71) GiB for KV cache on node 0.\n"


def test_llama_cpp_on_a_cpu() -> None:
    parts, on_device = parse_memory_log(LLAMA_CPU)
    assert parts == {"weights": 271.81 * MIB, "compute": 65.5 * MIB, "kv cache": 15 * MIB}
    assert not on_device


def test_llama_cpp_on_a_gpu_tells_of_the_device() -> None:
    parts, on_device = parse_memory_log(LLAMA_CUDA)
    assert parts == {"weights": 4096 * MIB, "kv cache": 512 * MIB, "compute": 300 * MIB}
    assert on_device


def test_vllm() -> None:
    assert parse_memory_log(VLLM) == (
        {"weights": pytest.approx(14.9888 * GIB), "kv cache": pytest.approx(55.2 * GIB), "compute": 0.5 * GIB},
        True,
    )
    assert parse_memory_log(VLLM_CPU) == ({"kv cache": 2 * GIB}, False)


def test_a_log_that_tells_nothing(tmp_path: Path) -> None:
    assert parse_memory_log("listening on port 8000\n") == ({}, False)
    assert read_memory_log(tmp_path / "none.log") == ({}, False)


@pytest.mark.real
def test_the_embedded_server_tells_how_its_memory_splits_and_is_then_as_quiet_as_ever(tmp_path: Path) -> None:
    model = write_tiny_gguf(tmp_path / "tiny.gguf")
    server = ENGINE.launch(variant("llamacpp", model=str(model), context=512), context(tmp_path, page_cache="cold"))
    try:
        before = (tmp_path / "logs" / "0.log").read_text()
        fetch(f"{server.endpoint.base_url}/completions", body={"prompt": "hello", "max_tokens": 16, "ignore_eos": True})
        after = (tmp_path / "logs" / "0.log").read_text()[len(before) :]
    finally:
        server.stop()
    parts, on_device = read_memory_log(tmp_path / "logs" / "0.log")
    assert set(parts) == {"weights", "kv cache", "compute"}
    assert 0 < parts["weights"] <= 1.1 * model.stat().st_size
    assert not on_device
    assert "sampler chain" not in after  # told at the level of loading


@given(st.text(max_size=2000))
def test_any_text_is_read(text: str) -> None:
    parts, _ = parse_memory_log(text)
    assert all(value >= 0 for value in parts.values())
