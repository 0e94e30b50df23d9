"""Divergence through a whole run: embedded llama.cpp on models that the test makes, and servers that tell nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

import bakeoff
from bakeoff.app.divergence import prompts_of
from bakeoff.model import QualityTask
from bakeoff.quality.items import Grade, Item, LoadedTask
from bakeoff.runs.divergence import DivergenceStore
from tests.tiny_gguf import write_tiny_gguf

from .flow import experiment


def test_servers_that_tell_no_probabilities_cost_the_divergence_only(tmp_path: Path) -> None:
    path = experiment(tmp_path, quality={"divergence": {"prompts": 2, "tokens": 4}}, aa=0)
    result = bakeoff.run(path, root=tmp_path / "runs")
    assert result.state == "complete"
    assert any(row.metric == "ttft_s" for row in result.comparisons)
    (row,) = result.scores
    assert (row.candidate, row.measure, row.outcome) == ("flash", "kl_mean", "invalid")
    assert row.reason is not None
    assert row.reason.startswith("base: ")
    assert "it has no /completion" in row.reason
    assert "use a server that does: llama.cpp" in row.reason
    assert "vLLM" in row.reason
    assert "base URL" not in row.reason
    (note,) = result.quality
    assert note.reason.startswith("the divergence that was asked for failed: base: it tells no probabilities")
    assert bakeoff.compare(result.run).scores == result.scores


def test_the_tasks_take_turns_and_messages_stay_messages() -> None:
    def loaded(name: str, template: str, count: int) -> LoadedTask:
        items = tuple(
            Item(id=str(n), prompt=f"{name}{n}", grade=lambda _reply: Grade(None, "ungradable")) for n in range(count)
        )
        task = QualityTask(name=name, source="jsonl", template="chat" if template == "chat" else "plain")
        return LoadedTask(task=task, items=items)

    found = prompts_of([loaded("a", "plain", 1), loaded("b", "chat", 3)], 3)
    assert found == ["a0", [{"role": "user", "content": "b0"}], [{"role": "user", "content": "b1"}]]


@pytest.mark.real
def test_a_copy_is_equivalent_and_another_model_is_not(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    write_tiny_gguf(tmp_path / "base.gguf")
    shutil.copyfile(tmp_path / "base.gguf", tmp_path / "copy.gguf")
    write_tiny_gguf(tmp_path / "other.gguf", seed=1)
    models = {"base": "base.gguf", "copy": "copy.gguf", "other": "other.gguf"}
    content = {
        "variants": {n: {"engine": "llamacpp", "model": m, "context": 128, "threads": 1} for n, m in models.items()},
        "workloads": {
            "chat": {
                "prompts": {"source": "synthetic", "input_tokens": 24},
                "output_tokens": 4,
                "load": {"concurrency": [1]},
                "block": {"requests": 2},
            }
        },
        "budget": {"pairs": "2..2", "minutes": 5},
        "aa": 0,
        "quality": {"divergence": {"prompts": 3, "tokens": 8}},
    }
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    result = bakeoff.run(tmp_path / "experiment.yaml", root=tmp_path / "runs")
    rows = {(score.candidate, score.measure): score for score in result.scores}
    assert {rows["copy", name].outcome for _, name in rows} == {"equivalent"}
    mean, top = rows["other", "kl_mean"], rows["other", "same_top"]
    assert mean.base.point == 0.0
    assert mean.value.point is not None
    assert mean.value.point > 0.01
    assert mean.outcome == "different"
    assert top.value.point is not None
    assert top.value.point < 1
    assert "whole vocabulary" in mean.method
    store = DivergenceStore(Path(result.run))
    assert [(walk.variant, walk.repeat, walk.problem) for walk in store.passes()] == [
        ("base", 0, None),
        ("copy", 0, None),
        ("other", 0, None),
        ("base", 1, None),
    ]
    first = store.rows(store.passes()[0])[0]
    assert sum(2.718281828459045**value for value in first.logprobs) == pytest.approx(1.0, abs=1e-5)
