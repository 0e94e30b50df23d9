"""The whole flow on embedded llama.cpp, with a model that the test makes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import bakeoff
from bakeoff.runs import RunFolder
from tests.tiny_gguf import write_tiny_gguf

pytest.importorskip("xllamacpp")


@pytest.mark.real
def test_llamacpp_from_file_to_verdict(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "tiny.gguf")
    content = {
        "variants": {
            "base": {"engine": "llamacpp", "model": "tiny.gguf", "context": 512, "threads": 1},
            "flash": {
                "engine": "llamacpp",
                "model": "tiny.gguf",
                "context": 512,
                "threads": 1,
                "flash_attention": "off",
            },
        },
        "workloads": {
            "chat": {
                "prompts": {"source": "synthetic", "input_tokens": 32},
                "output_tokens": 6,
                "load": {"concurrency": [1]},
                "block": {"requests": 2},
            }
        },
        "budget": {"pairs": "2..2", "minutes": 5},
        "aa": 0,
    }
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    result = bakeoff.run(tmp_path / "experiment.yaml", root=tmp_path / "runs")
    folder = RunFolder.open(Path(result.run))
    assert result.state == "complete"
    for data in folder.blocks():
        assert data.block.errors == 0, data.columns["error_message"]
        assert list(data.columns["output_tokens"]) == [6, 6]
        assert set(data.columns["tokens_source"]) == {"usage"}
        assert data.block.cache_hit_tokens == 0
    # llama.cpp adds a BOS token to the 32 that were asked for; both arms get the same
    assert {int(n) for data in folder.blocks() for n in data.columns["input_tokens"]} <= {32, 33}
    for start in folder.starts():
        assert start.ready_ns is not None
        assert start.first_token_ns is not None
        assert start.peak_anon_bytes
        assert start.log is not None
        assert "model ready" in (folder.path / start.log).read_text()
    arms = folder.info.environment.variants
    assert arms["base"]["model_sha256"] == arms["flash"]["model_sha256"]
    assert arms["base"]["flash_attention"] != arms["flash"]["flash_attention"]
