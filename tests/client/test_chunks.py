from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.client.chunks import ChunkError, Delta, Usage, count_of, error_text
from bakeoff.client.dialects import choices
from bakeoff.client.dialects.choices import read


def of(value: Any) -> Delta:
    return read(json.dumps(value).encode())


def chat(**delta: Any) -> Delta:
    return of({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def test_completion_text() -> None:
    assert of({"id": "x", "choices": [{"text": "hi", "logprobs": None}]}) == Delta(text="hi", content=True, output=True)


@pytest.mark.parametrize("delta", [{"role": "assistant"}, {"role": "assistant", "content": ""}, {"content": None}, {}])
def test_a_role_or_an_empty_text_is_no_content(delta: dict[str, Any]) -> None:
    assert not chat(**delta).content


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_content_but_no_output(key: str) -> None:
    delta = chat(**{key: "hm"})
    assert (delta.reasoning, delta.content, delta.output) == ("hm", True, False)


def test_reasoning_under_both_names_is_taken_once() -> None:
    assert chat(reasoning="hm", reasoning_content="hm").reasoning == "hm"


def test_tool_calls_are_output() -> None:
    delta = chat(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}])
    assert (delta.tool, delta.content, delta.output, delta.text) == ("f", True, True, "")
    assert chat(tool_calls=[{"function": {"arguments": '{"a":'}}]).tool == '{"a":'
    assert chat(function_call={"name": "f", "arguments": "{}"}).tool == "f{}"
    assert not chat(tool_calls=[{"index": 0, "function": {"arguments": ""}}]).content


def test_usage_with_details_and_empty_choices() -> None:
    delta = of(
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 7,
                "completion_tokens": 5,
                "total_tokens": 12,
                "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 0},
                "prompt_tokens_details": {"cached_tokens": 4},
            },
        }
    )
    usage = Usage(prompt_tokens=7, completion_tokens=5, reasoning_tokens=3, cached_tokens=4)
    assert delta == Delta(usage=usage)


def test_usage_without_details() -> None:
    usage = of(
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": None}}
    ).usage
    assert usage == Usage(prompt_tokens=7, completion_tokens=5)


def test_timings_of_llama_cpp_keep_only_numbers() -> None:
    delta = of({"choices": [{"text": ""}], "timings": {"prompt_n": 5, "prompt_ms": 1.5, "x": "y", "b": True}})
    assert delta.timings == {"prompt_n": 5.0, "prompt_ms": 1.5}


def test_several_choices() -> None:
    delta = of({"choices": [{"index": 1, "text": "b"}, {"index": 0, "text": "a", "finish_reason": "stop"}]})
    assert (delta.text, delta.content, delta.finish_reason, delta.choice) == ("a", True, "stop", -1)
    other = of({"choices": [{"index": 1, "text": "b", "finish_reason": "stop"}]})
    assert (other.text, other.content, other.finish_reason, other.choice) == ("", True, None, 1)
    twice = of({"choices": [{"index": 0, "text": "a"}, {"index": 0, "text": "b"}]})
    assert twice.text == "ab"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"error": {"message": "boom", "type": "server_error"}}, "boom (server_error)"),
        ({"error": {"message": "boom", "code": 500}}, "boom (500)"),
        ({"error": "boom"}, "boom"),
        ({"error": {"error": {"message": "boom"}}}, "boom"),
        ({"object": "error", "message": "boom", "code": 400}, "boom"),
        ({"error": {"weird": 1}}, '{"weird": 1}'),
    ],
)
def test_errors(value: dict[str, Any], text: str) -> None:
    assert of(value).error == text


def test_no_error() -> None:
    assert of({"error": None, "choices": []}).error is None
    assert error_text({"detail": [{"loc": ["body"]}]}) == '[{"loc": ["body"]}]'
    assert len(error_text("x" * 10_000)) == 2000


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"null", b"12", b'{"a":', b"not json", b'{"a":' + b"[" * 100_000, b'"text"']
)
def test_what_is_no_object_is_an_error(payload: bytes) -> None:
    with pytest.raises(ChunkError):
        read(payload)


def test_unusable_types_count_as_absent_and_the_rest_is_kept() -> None:
    delta = of(
        {
            "choices": [{"index": 0.0, "delta": {"content": "a", "tool_calls": "no"}, "finish_reason": 3}, "junk"],
            "usage": {"prompt_tokens": 7.0, "completion_tokens": "5", "prompt_tokens_details": []},
            "timings": "soon",
        }
    )
    assert (delta.text, delta.finish_reason, delta.usage) == ("a", "3", Usage(prompt_tokens=7))


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (3, 3),
        (3.0, 3),
        (0, 0),
        (-1, None),
        (2**63, None),
        (True, None),
        ("3", None),
        (None, None),
        (float("nan"), None),
        ([], None),
    ],
)
def test_counts_of_tokens(value: Any, count: int | None) -> None:
    assert count_of(value) == count


def test_content_parts() -> None:
    delta = chat(
        content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]
    )
    assert (delta.reasoning, delta.text) == ("hm", "a")


def test_broken_characters_are_replaced() -> None:
    assert read(b'{"choices":[{"text":"a\xff"}]}').text == "a\ufffd"
    assert read(b'{"choices":[{"text":"\\ud83d"}]}').text == "\ufffd"
    assert read('{"choices":[{"text":"🎉\\ud83c\\udf89"}]}'.encode()).text == "🎉🎉"


_TEXTS = st.none() | st.text(max_size=5)
_FUNCTIONS = st.fixed_dictionaries({}, optional={"name": _TEXTS, "arguments": _TEXTS})
_DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": _TEXTS,
        "reasoning": _TEXTS,
        "reasoning_content": _TEXTS,
        "refusal": _TEXTS,
        "tool_calls": st.none() | st.lists(st.fixed_dictionaries({}, optional={"function": _FUNCTIONS}), max_size=2),
    },
)
_CHOICES = st.fixed_dictionaries(
    {}, optional={"index": st.integers(0, 2), "text": _TEXTS, "delta": _DELTAS, "finish_reason": _TEXTS}
)
_USAGE = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": st.none() | st.integers(0, 9),
        "completion_tokens": st.integers(0, 9),
        "completion_tokens_details": st.none() | st.fixed_dictionaries({"reasoning_tokens": st.integers(0, 9)}),
    },
)
_CHUNKS = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.none() | st.lists(_CHOICES, max_size=3),
        "usage": st.none() | _USAGE,
        "timings": st.dictionaries(st.text(max_size=3), st.floats(0, 9), max_size=2),
        "error": st.none() | st.text(max_size=3),
    },
)


@given(_CHUNKS)
def test_the_tolerant_path_agrees_with_the_fast_one(value: dict[str, Any]) -> None:
    payload = json.dumps(value).encode()
    fast = read(payload)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choices, "_decode", _refuse)
        assert read(payload) == fast


def _refuse(_payload: bytes) -> None:
    raise msgspec.ValidationError("no")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda v: (
            st.lists(v)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "usage",
                        "delta",
                        "text",
                        "error",
                        "content",
                        "index",
                        "timings",
                        "function",
                        "tool_calls",
                    ]
                ),
                v,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_object_decodes(value: Any) -> None:
    delta = of({"choices": [{"delta": value}, value], "usage": value, "timings": value, "error": value})
    assert isinstance(delta, Delta)
