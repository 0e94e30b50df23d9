from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bakeoff.config import parse_experiment
from bakeoff.errors import ConfigError
from bakeoff.model import Consistency, Divergence, Experiment, Quality, QualityTask


def parsed(quality: object, folder: Path) -> Experiment:
    content = {
        "variants": {
            "base": {"engine": "openai", "url": "http://127.0.0.1:1"},
            "flash": {"engine": "openai", "url": "http://127.0.0.1:2"},
        },
        "workloads": {"chat": {"prompts": {"input_tokens": 8}, "output_tokens": 4, "load": {"concurrency": 1}}},
        "quality": quality,
    }
    return parse_experiment(yaml.safe_dump(content, sort_keys=False), "x.yaml", folder, {})


def refused(quality: object, folder: Path) -> str:
    with pytest.raises(ConfigError) as raised:
        parsed(quality, folder)
    return str(raised.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "q.jsonl").write_text('{"prompt": "1+1=", "answer": "2"}\n')
    (tmp_path / "scorer.py").write_text("def score(answer, item): return 1.0\n")
    return tmp_path


def test_all_of_it(folder: Path) -> None:
    found = parsed(
        {
            "margin_points": 2,
            "tasks": {
                "puzzles": {"datasets": {"chain_sum": 5}, "template": "chat", "repeats": 3, "temperature": 0.7},
                "sums": {"path": "q.jsonl", "scorer": "exact", "max_tokens": 8, "stop": ["\n"], "items": 4},
                "mine": {"path": "q.jsonl", "function": "scorer:score"},
                "letters": {"path": "q.jsonl", "pattern": r"\((\w)\)"},
                "school": {"task": "gsm8k"},
            },
            "consistency": {},
            "divergence": {"prompts": 4},
        },
        folder,
    ).quality
    file = str(folder / "q.jsonl")
    assert found == Quality(
        margin_points=2.0,
        tasks=(
            QualityTask(name="puzzles", source="reasoning-gym", datasets={"chain_sum": 5}, template="chat", repeats=3,
                        temperature=0.7, scorer="task"),
            QualityTask(name="sums", source="jsonl", path=file, scorer="exact", max_tokens=8, stop=("\n",), items=4),
            QualityTask(name="mine", source="jsonl", path=file, scorer="function",
                        function=f"{folder / 'scorer.py'}:score"),
            QualityTask(name="letters", source="jsonl", path=file, scorer="regex", pattern=r"\((\w)\)"),
            QualityTask(name="school", source="lm-eval", task="gsm8k", scorer="task"),
        ),
        consistency=Consistency(),
        divergence=Divergence(prompts=4),
    )  # fmt: skip


def test_nothing_asked_is_nothing(tmp_path: Path) -> None:
    assert parsed(None, tmp_path).quality is None
    assert parsed({"tasks": {"puzzles": {}}}, tmp_path).quality == Quality(
        tasks=(QualityTask(name="puzzles", source="reasoning-gym", scorer="task"),)
    )


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"source": "jsonl"}, "path: is missing"),
        ({"source": "lm-eval"}, "task: is missing"),
        ({"path": "nowhere.jsonl"}, "there is no file 'nowhere.jsonl'"),
        ({"path": "q.jsonl", "datasets": {"gcd": 3}}, "is not for source jsonl"),
        ({"datasets": {"gcd": 3}, "scorer": "exact"}, "is not for source reasoning-gym"),
        ({"path": "q.jsonl", "scorer": "regex"}, "pattern: is missing"),
        ({"path": "q.jsonl", "scorer": "regex", "pattern": "("}, "is no regular expression"),
        ({"path": "q.jsonl", "scorer": "exact", "pattern": "x"}, "is for scorer regex"),
        ({"path": "q.jsonl", "scorer": "function"}, "function: is missing"),
        ({"path": "q.jsonl", "function": "scorer.py"}, "must be module:function"),
        ({"path": "q.jsonl", "function": "no_such_module_there:f"}, "neither no_such_module_there.py"),
        ({"path": "q.jsonl", "scorer": "task"}, "a file has none"),
        ({"path": "q.jsonl", "repeats": 0}, "at least 1"),
        ({"path": "q.jsonl", "scorr": "exact"}, "scorr"),
    ],
)
def test_what_cannot_be_asked_is_told(task: dict[str, object], message: str, folder: Path) -> None:
    assert message in refused({"tasks": {"sums": task}}, folder)


def test_an_empty_question_and_repeats_of_nothing(tmp_path: Path) -> None:
    assert "asks for nothing" in refused({}, tmp_path)
    assert "there are none" in refused({"divergence": {}, "consistency": {}}, tmp_path)
    assert "margin_points" in refused({"tasks": {"p": {}}, "margin_points": 0}, tmp_path)
