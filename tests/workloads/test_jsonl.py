from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bakeoff.model import Api, BlockSize, Load, Prompts, Workload
from bakeoff.workloads import JsonlPrompts, Prompt, PromptFactory, WorkloadError
from bakeoff.workloads.lines import MAX_LINE_BYTES
from bakeoff.workloads.windows import Sampler

from .tokenizers import Toy, pieces


def _write(folder: Path, *lines: object) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
    return path


def _factory(path: Path, *, api: Api = "completions", requests: int = 4, **kw: Any) -> PromptFactory:
    workload = Workload(
        name="chat",
        prompts=Prompts(source="jsonl", path=str(path)),
        output_tokens=8,
        load=Load(kind="closed", levels=(1.0,)),
        block=BlockSize(requests=requests),
        api=api,
        cache=kw.pop("cache", "unique"),
    )
    return PromptFactory(workload, seed=1, run_id="r", **kw)


def _block(factory: PromptFactory, variant: str = "base", round_: int = 0, count: int = 4) -> list[Prompt]:
    return asyncio.run(factory.block(round=round_, variant=variant, visit="c1", count=count))


def test_all_three_forms_are_read(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    path = _write(
        tmp_path, {"prompt": "one", "id": 7}, "", {"text": "zwei €", "output_tokens": 5}, {"messages": messages}
    )
    chat, completions = JsonlPrompts(path, "chat"), JsonlPrompts(path, "completions")
    assert len(chat) == 3
    assert [chat.entry(n).text for n in range(3)] == ["one", "zwei €", "Be brief.\n\nHi"]
    assert chat.entry(1).turns[0].output_tokens == 5
    assert chat.entry(2).turns[0].messages == messages
    assert completions.entry(2).text == chat.entry(2).text


def test_a_byte_order_mark_and_crlf_are_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\r\n\r\n{"prompt": "b"}')
    prompts = JsonlPrompts(path, "completions")
    assert [prompts.entry(n).text for n in range(len(prompts))] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "not valid JSON"),
        ("[" * 50_000, "not valid JSON"),
        ("[]", "not an object"),
        ({"question": "x"}, "none of prompt, text, messages"),
        ({"prompt": "x", "text": "y"}, "prompt and text"),
        ({"prompt": 5}, '"prompt" must be text'),
        ({"prompt": "  "}, '"prompt" must be text'),
        ({"prompt": "x", "output_tokens": 0}, "output_tokens"),
        ({"prompt": "x", "output_tokens": True}, "output_tokens"),
        ({"messages": []}, "not empty"),
        ({"messages": ["x"]}, '"role"'),
        ({"messages": [{"role": "user", "content": 5}]}, "content"),
        ({"messages": [{"role": "user", "content": [5]}]}, '"type"'),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "need api: chat"),
        ({"messages": [{"role": "user", "content": ""}]}, "no text"),
    ],
)
def test_each_bad_line_is_named(tmp_path: Path, line: object, expected: str) -> None:
    path = _write(tmp_path, {"prompt": "fine"}, line)
    with pytest.raises(WorkloadError) as caught:
        JsonlPrompts(path, "completions")
    text = str(caught.value)
    assert f"{path}:2: " in text
    assert expected in text
    assert "→" in text


def test_all_bad_lines_at_once_but_at_most_twenty(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError) as caught:
        JsonlPrompts(_write(tmp_path, *["no"] * 25), "completions")
    text = str(caught.value)
    assert "25 lines are not prompts" in text
    assert "prompts.jsonl:20: " in text
    assert "prompts.jsonl:21: " not in text
    assert "… and 5 more" in text


def test_a_bad_line_does_not_show_its_content(tmp_path: Path) -> None:
    path = _write(tmp_path, '{"prompt": "sk-planted-secret"')
    with pytest.raises(WorkloadError) as caught:
        JsonlPrompts(path, "completions")
    assert "planted" not in str(caught.value)


def test_an_overlong_line_is_skipped_over_and_named(tmp_path: Path) -> None:
    path = _write(tmp_path, {"prompt": "x" * (3 * MAX_LINE_BYTES)}, "bad")
    with pytest.raises(WorkloadError) as caught:
        JsonlPrompts(path, "completions")
    assert ":1: longer than 1 MiB" in str(caught.value)
    assert ":2: not valid JSON" in str(caught.value)


def test_missing_empty_and_odd_files(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="No such file") as caught:
        JsonlPrompts(tmp_path / "gone.jsonl", "chat")
    assert caught.value.remedy
    with pytest.raises(WorkloadError, match="not a file"):
        JsonlPrompts(tmp_path, "chat")
    with pytest.raises(WorkloadError, match="no prompt"):
        JsonlPrompts(_write(tmp_path, "", "  "), "chat")


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.truncate((1 << 30) + 1)  # sparse: takes no space
    with pytest.raises(WorkloadError, match="1 GiB"):
        JsonlPrompts(path, "chat")


def test_a_file_that_changes_during_the_run_is_noticed(tmp_path: Path) -> None:
    path = _write(tmp_path, {"prompt": "one"}, {"prompt": "two"})
    prompts = JsonlPrompts(path, "chat")
    path.write_text("x\n")
    with pytest.raises(WorkloadError, match="changed"):
        prompts.entry(1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, derandomize=True)
@given(content=st.binary(max_size=200))
def test_no_content_does_anything_but_a_workload_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fuzz.jsonl"
    path.write_bytes(content)
    try:
        prompts = JsonlPrompts(path, "chat")
    except WorkloadError:
        return
    assert all(prompts.entry(n).text.strip() for n in range(len(prompts)))


def test_arms_get_the_same_prompts_but_for_the_nonce_and_the_same_count(tmp_path: Path) -> None:
    path = _write(tmp_path, *({"prompt": f"Tell me about item {n}."} for n in range(12)))
    factory = _factory(path, tokenizer=Toy(pieces))
    base, flash = _block(factory), _block(factory, "flash")
    for one, other in zip(base, flash, strict=True):
        assert one.text.split("\n", 1)[1] == other.text.split("\n", 1)[1]
        assert one.text != other.text
        assert one.input_tokens == other.input_tokens == pieces(one.text) == pieces(other.text)
    assert factory.notes == ()


def test_rounds_move_on_through_the_file_before_anything_repeats(tmp_path: Path) -> None:
    path = _write(tmp_path, *({"prompt": f"item {n}"} for n in range(12)))
    factory = _factory(path, cache="shared")
    seen = [prompt.text for round_ in range(3) for prompt in _block(factory, round_=round_)]
    assert sorted(seen) == sorted(f"item {n}" for n in range(12))
    assert not any("repeat" in note for note in factory.notes)
    again = [prompt.text for round_ in range(3, 6) for prompt in _block(factory, round_=round_)]
    assert sorted(again) == sorted(seen)
    assert again != seen
    assert any("12 prompts are fewer" in note for note in factory.notes)


def test_messages_keep_their_form_and_start_with_the_nonce(tmp_path: Path) -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "text", "text": "What is it?"}]
    lines: list[Any] = [
        {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]},
        {"messages": [{"role": "user", "content": parts}]},
    ]
    path = _write(tmp_path, *lines)
    factory = _factory(path, api="chat", requests=2)
    by_size = {len(p.messages or []): p for p in _block(factory, count=2)}
    plain, rich = by_size[2].messages, by_size[1].messages
    assert plain is not None
    assert rich is not None
    head = plain[0]["content"].split("\n")[0]
    assert len(head) == 30
    assert plain == [{"role": "system", "content": f"{head}\nBe brief."}, {"role": "user", "content": "Hi"}]
    assert rich[0]["content"][0]["type"] == "text"
    assert rich[0]["content"][1:] == parts
    shared = _block(_factory(path, api="chat", requests=2, cache="shared"), count=2)
    assert all(p.messages in [line["messages"] for line in lines] for p in shared)


@settings(deadline=None, derandomize=True)
@given(size=st.integers(1, 30), stride=st.integers(1, 40), seed=st.integers(0, 99))
def test_sampling_uses_every_entry_once_per_pass(size: int, stride: int, seed: int) -> None:
    sampler = Sampler(size, stride=stride, seed=seed)
    drawn = [number for round_ in range(8) for number in sampler.numbers(round_, stride)]
    for start in range(0, len(drawn) - size + 1, size):
        assert sorted(drawn[start : start + size]) == list(range(size))
    fresh = Sampler(size, stride=stride, seed=seed)
    assert fresh.numbers(5, stride) == drawn[5 * stride : 6 * stride]
