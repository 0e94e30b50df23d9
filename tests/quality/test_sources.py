import json
import random
from pathlib import Path

import pytest

from bakeoff.model import Consistency, Quality, QualityTask
from bakeoff.quality.items import Item, LoadedTask, Reply, TaskError
from bakeoff.quality.scorers import exact
from bakeoff.quality.tasks import load_tasks, portions


def written(folder: Path, *rows: object) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), "utf-8")
    return path


def task(path: Path, **more: object) -> QualityTask:
    return QualityTask(name="sums", source="jsonl", path=str(path), **more)  # type: ignore[arg-type]


def loaded(one: QualityTask) -> dict[str, Item]:
    (found,) = load_tasks(Quality(tasks=(one,)))
    return {item.id: item for item in found.items}


def test_a_file_of_questions(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"id": "a", "group": "add", "prompt": "1+1=", "answer": 2},
        {"prompt": "1+2=", "answer": ["3", "three"], "chance": 0.1},
        {"messages": [{"role": "user", "content": "2+2?"}], "answer": "4"},
    )
    items = loaded(task(path))
    assert set(items) == {"a", "2", "3"}
    assert items["a"].group == "add"
    assert items["a"].grade(Reply("2")).score == 1.0
    assert items["2"].grade(Reply("Three.")).score == 1.0
    assert items["2"].chance == 0.1
    assert items["2"].expected == "3 | three"
    assert items["3"].messages == ({"role": "user", "content": "2+2?"},)
    assert items["3"].prompt == "2+2?"


def test_every_bad_line_is_named_and_none_repeated(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "{secret",
        [1],
        {"answer": "x"},
        {"prompt": "", "answer": "x"},
        {"prompt": "secret"},
        {"prompt": "p", "answer": True},
        {"prompt": "p", "answer": "x", "id": 1.5},
        {"prompt": "p", "answer": "x", "chance": 2},
        {"prompt": "p", "answer": "x", "choices": "ab"},
        {"prompt": "p", "answer": "x", "id": "twice"},
        {"prompt": "p", "answer": "x", "id": "twice"},
    )
    with pytest.raises(TaskError) as raised:
        loaded(task(path))
    said = str(raised.value)
    assert "10 lines are not questions" in said
    for line in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11):
        assert f"questions.jsonl:{line}:" in said
    assert "secret" not in said


def test_an_empty_file_and_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="holds no question"):
        loaded(task(written(tmp_path, "")))
    with pytest.raises(TaskError, match="cannot be read"):
        loaded(task(tmp_path / "nowhere.jsonl"))


def test_numeric_and_choice_need_fitting_answers(tmp_path: Path) -> None:
    path = written(tmp_path, {"prompt": "p", "answer": "some"})
    with pytest.raises(TaskError, match="holds no number"):
        loaded(task(path, scorer="numeric"))
    with pytest.raises(TaskError, match="needs choices"):
        loaded(task(path, scorer="choice"))
    path = written(tmp_path, {"prompt": "p", "answer": "c", "choices": ["a", "b"]})
    with pytest.raises(TaskError, match="none of the choices"):
        loaded(task(path, scorer="choice"))
    path = written(tmp_path, {"id": "q", "prompt": "p", "answer": 1, "choices": [" a", " b"]})
    item = loaded(task(path, scorer="choice"))["q"]
    assert item.choices == (" a", " b")
    assert item.chance == 0.5
    assert item.expected == " b"
    assert item.grade(Reply(" b")).score == 1.0
    assert item.grade(Reply(" a")).score == 0.0
    # with another scorer the choices are only what the answer is drawn from
    assert loaded(task(path, scorer="exact"))["q"].choices == ()


def test_items_are_drawn_by_seed_and_a_prefix_is_a_sample(tmp_path: Path) -> None:
    path = written(tmp_path, *({"id": str(i), "prompt": f"{i}=", "answer": i} for i in range(50)))
    first, again = (list(loaded(task(path, items=20, seed=3))) for _ in range(2))
    assert first == again
    assert len(first) == 20
    assert list(loaded(task(path, items=20, seed=4))) != first
    assert list(loaded(task(path, items=30, seed=3)))[:20] == first


def test_a_function_of_ones_own(tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text(
        "def score(answer, item):\n"
        "    if answer == 'boom': raise KeyError('x')\n"
        "    if answer == 'pass': return None\n"
        "    if answer == 'odd': return 7\n"
        "    return len(answer) / item['most']\n"
    )
    path = written(tmp_path, {"id": "q", "prompt": "p", "most": 4})
    item = loaded(task(path, scorer="function", function=f"{module}:score"))["q"]
    assert item.grade(Reply("ab")).score == 0.5
    assert item.grade(Reply("pass")).status == "ungradable"
    assert "KeyError" in (item.grade(Reply("boom")).reason or "")
    assert "no score from 0 to 1" in (item.grade(Reply("odd")).reason or "")
    assert item.grade(Reply("ab", cut=True)).status == "cut"
    for wrong in (f"{module}:nothing", f"{tmp_path}/none.py:score", "no_such_module_at_all:x", f"{module}:__name__"):
        with pytest.raises(TaskError) as raised:
            loaded(task(path, scorer="function", function=wrong))
        assert raised.value.remedy


def _tasks(*sizes: int, repeats: int = 1) -> list[LoadedTask]:
    return [
        LoadedTask(
            task=QualityTask(name=f"t{n}", source="jsonl", repeats=repeats),
            items=tuple(Item(id=str(i), prompt="p", grade=exact(["x"])) for i in range(size)),
        )
        for n, size in enumerate(sizes)
    ]


def test_portions_deal_every_item_once_and_evenly() -> None:
    dealt = portions(_tasks(13, 7, repeats=2), None, 4)
    keys = [question.key for portion in dealt for question in portion]
    assert len(keys) == len(set(keys)) == 40
    assert {len(portion) for portion in dealt} <= {8, 10, 12}
    for portion in dealt:  # all repeats of an item are in one portion
        assert all(sum(q.item.id == question.item.id and q.task is question.task for q in portion) == 2
                   for question in portion)  # fmt: skip
    assert portions(_tasks(2), None, 5)[2:] == [[], [], []]


def test_the_first_items_of_all_tasks_are_repeated_for_consistency() -> None:
    dealt = portions(_tasks(10, 3), Consistency(items=8, repeats=3), 2)
    asked = [q for portion in dealt for q in portion if q.purpose == "consistency"]
    assert len(asked) == 24
    assert {(q.task.name, q.item.id) for q in asked} == {
        *(("t0", str(i)) for i in range(5)),
        *(("t1", str(i)) for i in range(3)),
    }


def test_reasoning_gym_brings_questions_and_scorers() -> None:
    pytest.importorskip("reasoning_gym")
    from bakeoff.quality.reasoning_gym import DEFAULT_MIX

    random.seed(1)
    one = QualityTask(name="puzzles", source="reasoning-gym", scorer="task")
    items = loaded(one)
    assert len(items) == sum(DEFAULT_MIX.values())
    assert {item.group for item in items.values()} == set(DEFAULT_MIX)
    for item in items.values():
        assert item.grade(Reply(f"I think… <answer>{item.expected}</answer>")).score == 1.0, item.id
        assert item.grade(Reply("<answer>zzz</answer>")).score == 0.0, item.id
        assert item.grade(Reply("let me see", cut=True)).status == "cut"
    random.seed(2)
    assert {key: item.prompt for key, item in loaded(one).items()} == {key: i.prompt for key, i in items.items()}


def test_an_unknown_generator_is_named() -> None:
    pytest.importorskip("reasoning_gym")
    with pytest.raises(TaskError, match="no generator 'chain_sums'"):
        load_tasks(Quality(tasks=(QualityTask(name="x", source="reasoning-gym", datasets={"chain_sums": 3}),)))


def test_without_the_library_its_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "reasoning_gym", None)
    with pytest.raises(TaskError) as raised:
        load_tasks(Quality(tasks=(QualityTask(name="x", source="reasoning-gym"),)))
    assert raised.value.remedy == "pip install 'bakeoff[quality]'"
