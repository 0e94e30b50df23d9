from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from bakeoff.engines.conformance import check_engine
from bakeoff.engines.cores import available_cores
from bakeoff.engines.fetch import fetch
from bakeoff.engines.llamacpp import ENGINE, read_llamacpp
from bakeoff.errors import ConfigError, EngineMissing, ServerNotReady
from tests.tiny_gguf import write_tiny_gguf

from .conftest import context, running, until, variant


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """A file that starts like a GGUF (enough for checking settings)."""
    path = tmp_path / "model-q8_0.gguf"
    path.write_bytes(b"GGUF" + bytes(60))
    return path


def keys(settings: dict[str, Any], where: Path) -> list[tuple[str, ...]]:
    return [p.key for p in read_llamacpp(settings, os.environ, where)[1]]


def test_defaults(stub: Path) -> None:
    recipe, problems = read_llamacpp({"model": str(stub)}, os.environ, stub.parent)
    assert problems == []
    assert recipe is not None
    llama = recipe.llama
    assert (llama.model, llama.alias) == (str(stub), stub.name)
    assert (llama.context, llama.parallel, llama.k_type, llama.v_type) == (4096, 1, "f16", "f16")
    assert llama.threads == llama.batch_threads == available_cores()


def test_settings_are_taken(stub: Path) -> None:
    settings = {
        "model": str(stub),
        "kv_type": "q8_0",
        "flash_attention": True,  # YAML reads `on` as true
        "threads": 3,
        "batch": 256,
        "body": {"samplers": ["top_k"]},
    }
    recipe, problems = read_llamacpp(settings, os.environ, stub.parent)
    assert problems == []
    assert recipe is not None
    assert (recipe.llama.k_type, recipe.llama.v_type, recipe.llama.flash_attention) == ("q8_0", "q8_0", "on")
    assert (recipe.llama.threads, recipe.llama.batch_threads, recipe.llama.ubatch) == (3, 3, 256)
    assert recipe.body == {"samplers": ["top_k"]}


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"context": "long"}, ("context",)),
        ({"context": 0}, ("context",)),
        ({"threads": 0}, ("threads",)),
        ({"kv_type": "q8"}, ("kv_type",)),
        ({"kv_type": "q8_0", "flash_attention": "off"}, ("kv_type",)),
        ({"v_type": "q4_0", "flash_attention": False}, ("v_type",)),
        ({"kv_type": "f16", "k_type": "f16"}, ("k_type",)),
        ({"ubatch": 512, "batch": 128}, ("ubatch",)),
        ({"mmap": "maybe"}, ("mmap",)),
        ({"flash_attn": "on"}, ("flash_attn",)),
        ({"body": {"stream": False}}, ("body", "stream")),
        ({"seed": -1}, ("seed",)),
    ],
)
def test_wrong_settings_are_problems(stub: Path, settings: dict[str, Any], key: tuple[str, ...]) -> None:
    assert keys({"model": str(stub), **settings}, stub.parent) == [key]


def test_wrong_models_are_problems(stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = stub.parent / "weights.bin"
    other.write_bytes(b"PK\x03\x04")
    for settings in ({}, {"model": 3}, {"model": str(other)}, {"model": str(stub.parent)}, {"model": "${UNSET_PATH}"}):
        assert keys(settings, stub.parent) == [("model",)]
    (problem,) = read_llamacpp({"model": str(stub.parent / "model-q8.gguf")}, os.environ, stub.parent)[1]
    assert str(stub) in problem.remedy
    (problem,) = read_llamacpp({"model": stub.name}, os.environ, stub.parent / "experiment.yaml")[1]
    assert "relative paths" in problem.remedy
    monkeypatch.chdir(stub.parent)
    monkeypatch.setenv("HOME", str(stub.parent))
    assert keys({"model": stub.name}, stub.parent) == []
    assert keys({"model": f"~/{stub.name}"}, stub.parent) == []


def test_missing_library_says_how_to_install_it(stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineMissing) as caught:
        ENGINE.problems({"model": str(stub)}, stub.parent)
    assert "pip install xllamacpp" in str(caught.value)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.mark.real
def test_conformance(tiny: Path, tmp_path: Path) -> None:
    check_engine(ENGINE, {"model": str(tiny), "context": 512}, tmp_path)


@pytest.mark.real
def test_settings_are_in_force(tiny: Path, tmp_path: Path) -> None:
    server = ENGINE.launch(
        variant("llamacpp", model=str(tiny), context=256, parallel=3, kv_type="q8_0", threads=1, mmap=False),
        context(tmp_path),
    )
    try:
        config, facts = server.start.effective_config, server.fingerprint()
        assert (config["n_ctx"], config["total_slots"]) == (256, 3)
        assert facts["model"] == "tiny.gguf"
        assert facts["model_bytes"] == str(tiny.stat().st_size)
        assert len(facts["model_sha256"]) == 64
        assert facts["xllamacpp"]
        assert server.start.page_cache in ("warm", "unknown")
        base = server.endpoint.base_url
        assert "127.0.0.1" in base
        assert server.pid is not None
        listening = {c.laddr.ip for c in psutil.Process(server.pid).net_connections("tcp") if c.status == "LISTEN"}
        assert listening == {"127.0.0.1"}
        chat = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3, "ignore_eos": True}
        answer = fetch(f"{base}/chat/completions", body=chat).json()
        assert answer["usage"]["completion_tokens"] == 3
        tokens = fetch(base.removesuffix("/v1") + "/tokenize", body={"content": "hello world"}).json()["tokens"]
        assert len(tokens) == 2
        assert "llamacpp:prompt_tokens_total" in fetch(base.removesuffix("/v1") + "/metrics").body.decode()
    finally:
        ended = server.stop()
    assert not ended.forced_stop
    assert not running(server.pid)


@pytest.mark.real
def test_file_that_is_no_model_gives_the_log(tmp_path: Path, stub: Path) -> None:
    with pytest.raises(ServerNotReady) as caught:
        ENGINE.launch(variant("llamacpp", model=str(stub)), context(tmp_path))
    assert any("failed to load model" in line for line in caught.value.log_tail)


@pytest.mark.real
def test_kill_9_of_the_parent_ends_the_server(tiny: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from bakeoff.engines import get_engine;"
        "from bakeoff.model import StartContext, Variant;"
        "s = get_engine('llamacpp').launch(Variant(name='a', engine='llamacpp', settings={'model': sys.argv[1]}),"
        " StartContext(log_path=Path(sys.argv[2]), start_id=0, round=0, group=0));"
        "print(s.pid, flush=True); time.sleep(600)"
    )
    argv = [sys.executable, "-c", code, str(tiny), str(tmp_path / "x.log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert running(pid)
        parent.kill()
    assert until(lambda: not running(pid))


@pytest.mark.real
def test_relative_model_and_unset_variable(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_FOLDER", str(tiny.parent))
    server = ENGINE.launch(variant("llamacpp", model="${MODEL_FOLDER}/tiny.gguf"), context(tmp_path))
    server.stop()
    assert str(tiny.parent) not in str(server.fingerprint())
    monkeypatch.delenv("MODEL_FOLDER")
    with pytest.raises(ConfigError, match="MODEL_FOLDER"):
        ENGINE.launch(variant("llamacpp", model="${MODEL_FOLDER}/tiny.gguf"), context(tmp_path))
