from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bakeoff.model import BlockSize, Load, Prompts, Workload
from bakeoff.workloads import PromptFactory, ShareGptPrompts, WorkloadError
from bakeoff.workloads.array_scan import MAX_ELEMENT_BYTES, elements

from .tokenizers import Toy, pieces


def _talk(*parts: str, first: str = "human") -> dict[str, Any]:
    names = [first, "gpt" if first == "human" else "human"]
    return {"id": "x", "conversations": [{"from": names[n % 2], "value": text} for n, text in enumerate(parts)]}


def _write(folder: Path, content: object) -> Path:
    path = folder / "sharegpt.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
    return path


def _factory(path: Path, **kw: Any) -> PromptFactory:
    workload = Workload(
        name="w",
        prompts=Prompts(source="sharegpt", path=str(path), recorded_lengths=True, **kw.pop("more", {})),
        output_tokens=kw.pop("limit", 4096),
        load=Load(kind="closed", levels=(1.0,)),
        block=BlockSize(requests=4),
        api=kw.pop("api", "chat"),
        cache=kw.pop("cache", "shared"),
    )
    return PromptFactory(workload, seed=1, run_id="r", tokenizer=Toy(pieces))


# The scanner ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class _Dribble(io.BytesIO):
    """Gives a few bytes at a time, whatever is asked for: every boundary falls somewhere."""

    def __init__(self, content: bytes, step: int) -> None:
        super().__init__(content)
        self._step = step

    def read(self, _size: int | None = -1, /) -> bytes:
        return super().read(self._step)


@settings(deadline=None, derandomize=True)
@given(
    objects=st.lists(st.dictionaries(st.text(), _JSON, max_size=3), max_size=6),
    step=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
    escaped=st.booleans(),
    array=st.booleans(),
)
def test_every_element_comes_back_whole(
    objects: list[dict[str, Any]], step: int, indent: int | None, escaped: bool, array: bool
) -> None:
    if array:
        text = json.dumps(objects, indent=indent, ensure_ascii=escaped)
    else:
        text = "\n".join(json.dumps(o, indent=indent, ensure_ascii=escaped) for o in objects)
    content = text.encode("utf-8", "surrogatepass")
    found = list(elements(_Dribble(content, step)))
    assert [element.problem for element in found] == [""] * len(objects)
    assert [json.loads((e.data or b"").decode("utf-8", "surrogatepass")) for e in found] == objects
    for element in found:
        assert content[element.offset :].startswith(element.data or b"-")
        assert content.count(b"\n", 0, element.offset) == element.line - 1


@settings(deadline=None, derandomize=True)
@given(content=st.binary(max_size=120), step=st.integers(1, 40))
def test_no_bytes_do_anything_but_end_the_walk(content: bytes, step: int) -> None:
    found = list(elements(_Dribble(content, step)))
    assert all(element.problem for element in found if element.data is None)
    assert sum(element.data is None for element in found) <= 1
    assert sum(len(element.data or b"") for element in found) <= len(content)


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ('[{"a": 1}\n {"b": 2}]', 2, "comma"),
        ('[{"a": 1},\n 5]', 2, "not an object"),
        ('[{"a": 1},\n\n {"b": "}]', 3, "not closed"),
        ('[{"a": 1}', 1, "array is not closed"),
        ('[{"a": 1}] x', 1, "follows the end"),
        ("hello", 1, "not an object"),
    ],
)
def test_a_fault_is_named_with_its_line(content: str, line: int, problem: str) -> None:
    last = list(elements(io.BytesIO(content.encode())))[-1]
    assert (last.line, last.data) == (line, None)
    assert problem in last.problem


def test_an_endless_element_ends_the_walk_and_not_the_memory() -> None:
    class Endless(io.BytesIO):
        given = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.given += size or 0
            return b"x" * (size or 0) if self.given > (1 << 20) else b'[{"a": "' + b"x" * ((size or 0) - 8)

    file = Endless()
    (only,) = elements(file)
    assert "longer than 16 MiB" in only.problem
    assert file.given < 4 * MAX_ELEMENT_BYTES


# The conversations ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_questions_and_answers_of_every_spelling(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        [
            _talk("one", "two", "three", "four"),
            {"conversations": [{"from": "system", "value": "Be brief."}, {"from": "user", "value": "Hi"},
                               {"from": "Assistant", "value": "Ho"}]},
        ],
    )  # fmt: skip
    prompts = ShareGptPrompts(path, turns=2)
    assert len(prompts) == 2
    first, second = prompts.entry(0), prompts.entry(1)
    assert [(turn.text, turn.answer) for turn in first.turns] == [("one", "two"), ("three", "four")]
    assert [(turn.text, turn.answer) for turn in second.turns] == [("Be brief.\n\nHi", "Ho")]
    assert prompts.mean_turns == 1.5
    assert len(ShareGptPrompts(path).entry(0).turns) == 1


def test_what_holds_no_answered_question_is_passed_over_and_counted(tmp_path: Path) -> None:
    talks = [_talk(), _talk("asked"), _talk("asked", " "), _talk("left over", first="gpt"), _talk("asked", "answered")]
    prompts = ShareGptPrompts(_write(tmp_path, talks))
    assert len(prompts) == 1
    assert prompts.notes == ("4 of the file's 5 conversations hold no answered question: passed over",)
    with pytest.raises(WorkloadError, match="no answered question"):
        ShareGptPrompts(_write(tmp_path, talks[:4]))


def test_the_rest_of_a_longer_conversation_starts_at_its_first_question(tmp_path: Path) -> None:
    prompts = ShareGptPrompts(_write(tmp_path, [_talk("the rest of an answer", "q", "a", first="gpt")]), turns=3)
    assert [(turn.text, turn.answer) for turn in prompts.entry(0).turns] == [("q", "a")]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"id": "x"}, 'no list "conversations"'),
        ({"conversations": [5]}, "conversations"),
        ({"conversations": [{"from": "alien", "value": "x"}]}, '"from"'),
        ({"conversations": [{"from": "human", "value": 5}]}, '"value"'),
    ],
)
def test_every_bad_conversation_is_named(tmp_path: Path, entry: object, expected: str) -> None:
    lines = ["[", json.dumps(_talk("q", "a")) + ",", json.dumps(entry) + ",", '{"conversations": tru}', "]"]
    path = _write(tmp_path, "\n".join(lines))
    with pytest.raises(WorkloadError) as caught:
        ShareGptPrompts(path)
    text = str(caught.value)
    assert "2 conversations cannot be read" in text
    assert f"{path}:3: " in text
    assert expected in text
    assert f"{path}:4: not valid JSON" in text
    assert "alien" not in text


def test_a_file_that_changes_during_the_run_is_noticed(tmp_path: Path) -> None:
    path = _write(tmp_path, [_talk("q", "a")])
    prompts = ShareGptPrompts(path)
    path.write_text("[]")
    with pytest.raises(WorkloadError, match="changed"):
        prompts.entry(0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, derandomize=True)
@given(content=st.binary(max_size=200) | _JSON.map(lambda value: json.dumps([value]).encode()))
def test_no_content_does_anything_but_a_workload_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fuzz.json"
    path.write_bytes(content)
    try:
        prompts = ShareGptPrompts(path)
    except WorkloadError:
        return
    assert all(prompts.entry(n).turns[0].answer for n in range(len(prompts)))


def test_answers_are_as_long_as_the_recorded_ones(tmp_path: Path) -> None:
    talks = [_talk("Which is the " + "very " * n + "best?", "It is this one." + " Yes." * n) for n in range(4)]
    factory = _factory(_write(tmp_path, talks), limit=9)
    block = asyncio.run(factory.block(round=0, variant="a", visit="c1", count=4))
    assert sorted(p.output_tokens or 0 for p in block) == [5, 7, 9, 9]
    assert any("more than 9 tokens" in note for note in factory.notes)
    for prompt in block:
        assert prompt.asked_tokens == prompt.input_tokens == pieces(prompt.text)
        assert prompt.messages is not None
        assert [message["role"] for message in prompt.messages] == ["user"]


def test_a_sample_is_drawn_by_seed(tmp_path: Path) -> None:
    path = _write(tmp_path, [_talk(f"question {n}?", "a") for n in range(30)])
    factory = _factory(path, more={"sample": 5})
    texts = [
        p.text
        for round_ in range(3)
        for p in asyncio.run(factory.block(round=round_, variant="a", visit="c1", count=4))
    ]
    assert len(set(texts)) == 5
    assert any("5 prompts are fewer" in note for note in factory.notes)
