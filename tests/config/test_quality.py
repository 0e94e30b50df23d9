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
            "margin": "2 points",
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
        ({"path": "q.jsonl", "scorer": "task"}, "must be 'exact', 'normalised', "),
        ({"path": "q.jsonl", "repeats": 0}, "at least 1"),
        ({"path": "q.jsonl", "scorr": "exact"}, "scorr"),
    ],
)
def test_what_cannot_be_asked_is_told(task: dict[str, object], message: str, folder: Path) -> None:
    assert message in refused({"tasks": {"sums": task}}, folder)


def test_an_empty_question_and_repeats_of_nothing(tmp_path: Path) -> None:
    assert "asks for nothing" in refused({}, tmp_path)
    assert "there are none" in refused({"divergence": {}, "consistency": {}}, tmp_path)
    assert "margin" in refused({"tasks": {"p": {}}, "margin": 0}, tmp_path)


@pytest.mark.parametrize(
    ("written", "points"),
    [("1 point", 1.0), ("1.5 points", 1.5), ("2points", 2.0), ("3", 3.0), (4, 4.0), (0.5, 0.5), (100, 100.0)],
)
def test_a_margin_is_in_points(written: object, points: float, tmp_path: Path) -> None:
    found = parsed({"tasks": {"puzzles": {}}, "margin": written}, tmp_path).quality
    assert found is not None
    assert found.margin_points == points


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("1%", "did you mean '1 points'?"),
        ("a point", "such as '1 point'"),
        (True, "such as '1 point'"),
        ([1], "such as '1 point'"),
        (0, "more than 0"),
        ("101 points", "at most 100"),
        (-1, "more than 0"),
    ],
)
def test_what_is_no_margin_is_told(written: object, said: str, tmp_path: Path) -> None:
    assert said in refused({"tasks": {"puzzles": {}}, "margin": written}, tmp_path)


def test_the_margin_goes_by_one_name(tmp_path: Path) -> None:
    assert "did you mean 'margin'?" in refused({"tasks": {"puzzles": {}}, "margin_points": 1}, tmp_path)


def test_a_scorer_is_none_but_those_that_are_documented(folder: Path) -> None:
    from typing import get_args

    from bakeoff.config.schema import TaskSection

    literal = get_args(TaskSection.model_fields["scorer"].annotation)[0]
    page = Path(__file__).parents[2].joinpath("docs", "quality.md").read_text(encoding="utf-8")
    assert all(f"| `{name}`" in page for name in get_args(literal))
    assert "`task`" not in refused({"tasks": {"sums": {"path": "q.jsonl", "scorer": "guess"}}}, folder)
