"""Questions answered by embedded llama.cpp, with a model that the test makes: it knows nothing, but it is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import bakeoff
from bakeoff.runs import RunFolder
from tests.tiny_gguf import write_tiny_gguf

pytest.importorskip("xllamacpp")


@pytest.mark.real
def test_a_model_against_itself_answers_alike(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "tiny.gguf")
    lines = [{"id": str(i), "prompt": f"question {i} ", "answer": "a", "choices": ["a", "b", "c"]} for i in range(12)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "scorer.py").write_text("def score(answer, item):\n    return float(len(answer) % 2)\n")
    variant = {"engine": "llamacpp", "model": "tiny.gguf", "context": 512, "threads": 1}
    content = {
        "variants": {"base": variant, "same": variant},
        "workloads": {
            "chat": {
                "prompts": {"source": "synthetic", "input_tokens": 32},
                "output_tokens": 4,
                "load": {"concurrency": [1]},
                "block": {"requests": 1},
            }
        },
        "budget": {"pairs": "2..2", "minutes": 5},
        "warmup": {"min_requests": 1, "max_requests": 1},
        "aa": 1,
        "quality": {
            "margin": 50,
            "tasks": {
                "written": {"path": "q.jsonl", "function": "scorer:score", "stop": ["e"], "max_tokens": 12},
                "chosen": {"path": "q.jsonl", "scorer": "choice"},
            },
            "consistency": {"items": 3, "repeats": 2},
        },
    }
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    result = bakeoff.run(tmp_path / "experiment.yaml", root=tmp_path / "runs")
    answers = RunFolder.open(Path(result.run)).answers()
    texts = {
        name: {(a.task, a.item): a.text for a in answers if a.variant == name and a.purpose == "score"}
        for name in ("base", "same")
    }
    assert len(texts["base"]) == 24
    assert texts["base"] == texts["same"]
    chosen = [a for a in answers if a.task == "chosen"]
    assert {a.status for a in chosen} == {"scored"}
    assert {a.text for a in chosen} <= {"a", "b", "c"}
    rows = {(s.task, s.measure): s for s in result.scores}
    assert rows["chosen", "accuracy"].flips == (0, 0)
    assert rows["chosen", "accuracy"].flip_floor is not None
    assert rows["chosen", "accuracy"].flip_floor.point == 0.0
    assert rows[None, "identical"].value.point == 1.0
