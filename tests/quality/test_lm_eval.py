"""Tasks of lm-eval: its own loading, request building, filters and metrics, asked of a server of ours.

What needs the library itself is skipped where it is not installed; its tasks are defined here, with data on disk.
"""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bakeoff.model import Capabilities, Endpoint, QualityTask
from bakeoff.quality.items import Reply, TaskError
from bakeoff.quality.lm_eval import _Document, lm_eval_items
from bakeoff.quality.lm_eval_model import endpoint_model, likelihoods

from .tiny_language import TinyLanguage, logprobs, served, tokens_of


def truth(prompt: str, text: str) -> float:
    before, own = tokens_of(prompt, special=True), tokens_of(text, special=False)
    return sum(logprobs([*before, *own[:n]])[token] for n, token in enumerate(own))


def endpoint(url: str) -> Endpoint:
    return Endpoint(base_url=url, model="tiny", capabilities=Capabilities(tokenizer="llamacpp"))


def test_without_the_library_the_remedy_is_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    monkeypatch.setitem(sys.modules, "lm_eval.tasks", None)
    with pytest.raises(TaskError, match="not installed") as caught:
        lm_eval_items(QualityTask(name="t", source="lm-eval", task="x"))
    assert "bakeoff[lm-eval]" in (caught.value.remedy or "")


def test_each_request_of_the_library_is_scored_in_its_order() -> None:
    pairs = [("one", " a"), ("two", " b"), ("one", " c")]
    with served(TinyLanguage("llamacpp")) as url:
        found = asyncio.run(likelihoods(endpoint(url), pairs))
    assert [logprob for logprob, _ in found] == pytest.approx([truth(*pair) for pair in pairs])


class _Source:
    """A task as the library makes them, in as much as scoring one document needs."""

    OUTPUT_TYPE = "generate_until"
    _metric_fn_list: Mapping[str, None] = {"exact_match": None}

    def __init__(self, metrics: Mapping[str, Any] | None = None) -> None:
        self._filters = [SimpleNamespace(apply=self._filter)]
        self._metrics = metrics

    @staticmethod
    def _filter(instances: Sequence[Any]) -> None:
        for instance in instances:
            instance.filtered_resps["last word"] = instance.resps[0].split()[-1] if instance.resps[0].split() else ""

    def doc_to_target(self, doc: Mapping[str, Any]) -> str:
        return str(doc["answer"])

    def process_results(self, doc: Mapping[str, Any], results: Sequence[str]) -> Mapping[str, Any]:
        if self._metrics is not None:
            return self._metrics
        return {"words": 17, "exact_match": float(results[0] == doc["answer"])}


def document(source: _Source) -> _Document:
    instance = SimpleNamespace(
        doc={"answer": "42"},
        args=("how much?", {"until": ["\n"]}),
        request_type="generate_until",
        doc_id=0,
        idx=0,
        resps=[],
        filtered_resps={},
    )
    return _Document(source, [copy.copy(instance)], "t")


def test_a_text_is_scored_by_the_first_filter_and_the_first_metric_that_is_a_score() -> None:
    item = document(_Source()).item("0", "")
    assert (item.prompt, item.expected, item.stop) == ("how much?", "42", ("\n",))
    assert item.grade(Reply("it is 42")).score == 1.0
    assert item.grade(Reply("it is 42\nor 43")).score == 1.0  # a server that did not stop where it was told to
    assert item.grade(Reply("it is 41")).score == 0.0


def test_a_cut_text_is_wrong_only_where_it_had_ended() -> None:
    item = document(_Source()).item("0", "")
    cut = item.grade(Reply("well, let me", cut=True))
    assert (cut.status, cut.score) == ("cut", None)
    assert item.grade(Reply("it is 42", cut=True)).score == 1.0
    assert item.grade(Reply("it is 41\nand so on", cut=True)).score == 0.0


def test_a_task_without_a_score_is_ungradable_with_its_reason() -> None:
    grade = document(_Source({"perplexity": -3.5})).item("0", "").grade(Reply("x y"))
    assert grade.status == "ungradable"
    assert "perplexity" in (grade.reason or "")


# With the library ─────────────────────────────────────────────────────────────────────────────────────────────────────

_TASKS: dict[str, dict[str, Any]] = {
    "words": {
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 4, "do_sample": False},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    },
    "choices": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{gold}}",
        "doc_to_choice": "{{choices}}",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    },
    "rolling": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{question}}",
        "metric_list": [{"metric": "word_perplexity"}],
    },
}
_ROWS: list[dict[str, Any]] = [
    {"question": f"number {n}?", "answer": "aab", "choices": [f"{n}x", f"y{n}", "zz"], "gold": n % 3} for n in range(6)
]

with_library = pytest.mark.filterwarnings("ignore")  # of what the library imports


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Task files with their data; nothing is asked of a hub, and nothing is cached elsewhere."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    pytest.importorskip("lm_eval")
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in _ROWS))
    for name, fields in _TASKS.items():
        task = {
            "task": f"bakeoff_{name}",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(data)}},
            "test_split": "test",
            **fields,
        }
        (tasks / f"{name}.yaml").write_text(json.dumps(task))
    return tasks


def asked(folder: Path, name: str) -> QualityTask:
    return QualityTask(name="t", source="lm-eval", task=name, path=str(folder))


@with_library
def test_items_are_those_of_the_library(folder: Path) -> None:
    items = lm_eval_items(asked(folder, "bakeoff_words"))
    assert [item.prompt for item in items] == [row["question"] for row in _ROWS]
    assert [item.id for item in items] == [str(n) for n in range(6)]
    assert items[0].stop == ("\n",)
    assert items[0].grade(Reply("aab")).score == 1.0
    assert items[0].grade(Reply("aab\nand more")).score == 1.0
    assert items[0].grade(Reply("aa")).score == 0.0


@with_library
def test_choices_are_scored_as_its_own_evaluator_scores_them(folder: Path) -> None:
    import lm_eval
    from lm_eval.tasks import TaskManager

    items = lm_eval_items(asked(folder, "bakeoff_choices"))
    assert items[1].choices == ("1x", "y1", "zz")
    assert items[1].expected == "y1"
    assert items[1].chance == pytest.approx(1 / 3)

    async def scores(url: str) -> list[float | None]:
        return [(await item.ask(endpoint(url))).score for item in items if item.ask is not None]

    with served(TinyLanguage("llamacpp")) as url:
        ours = asyncio.run(scores(url))
        theirs = lm_eval.simple_evaluate(
            model=endpoint_model(endpoint(url)),
            tasks=["bakeoff_choices", "bakeoff_rolling"],
            task_manager=TaskManager(include_path=str(folder)),
            bootstrap_iters=0,
        )
    own = [
        max(range(3), key=lambda place: truth(row["question"], row["choices"][place])) == row["gold"] for row in _ROWS
    ]
    assert ours == [float(right) for right in own]
    samples = sorted(theirs["samples"]["bakeoff_choices"], key=lambda sample: sample["doc_id"])
    assert [sample["acc"] for sample in samples] == ours
    rolled = sorted(theirs["samples"]["bakeoff_rolling"], key=lambda sample: sample["doc_id"])
    told = [sample["resps"][0][0] for sample in rolled]
    assert told == pytest.approx([truth("", row["question"]) for row in _ROWS])


@with_library
def test_what_no_server_can_be_scored_on_is_refused(folder: Path) -> None:
    with pytest.raises(TaskError, match="perplexity"):
        lm_eval_items(asked(folder, "bakeoff_rolling"))
    with pytest.raises(TaskError, match="no task") as caught:
        lm_eval_items(asked(folder, "bakeoff_word"))
    assert "bakeoff_words" in (caught.value.remedy or "")
    with pytest.raises(TaskError, match="no folder"):
        lm_eval_items(asked(folder / "nowhere", "bakeoff_words"))
    (folder.parent / "rows.jsonl").unlink()
    with pytest.raises(TaskError, match="cannot be loaded"):
        lm_eval_items(asked(folder, "bakeoff_words"))
