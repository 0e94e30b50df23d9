"""Every API against whole answers in its specified form, at any segmentation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.client.chunks import ChunkError, Delta, Usage
from bakeoff.client.dialects import DIALECTS
from bakeoff.model import Api

from . import transcripts
from .answers import HEAD, pieces, received, timeless

TRANSCRIPTS: dict[Api, bytes] = {
    "completions": transcripts.COMPLETIONS,
    "chat": transcripts.CHAT,
    "responses": transcripts.RESPONSES,
    "messages": transcripts.MESSAGES,
}
APIS = st.sampled_from(sorted(TRANSCRIPTS))


def of(api: Api, value: Any, name: str = "") -> Delta:
    return DIALECTS[api].read(json.dumps(value).encode(), name)


@pytest.mark.parametrize(
    ("api", "text", "reasoning", "finish", "tokens", "chunks"),
    [
        ("completions", " Hello 语", "", "length", (5, 2, None, 4), 2),
        ("chat", "Héf{}", "Hm.", "tool_calls", (9, 8, 3, 0), 4),
        ("responses", "Grüßenof{}", "Hm. So.", "tool_calls", (11, 10, 3, 6), 7),
        ("messages", "你好f{}", "Hm.", "tool_calls", (35, 9, 2, 20), 5),
    ],
)
def test_a_whole_answer(
    api: Api, text: str, reasoning: str, finish: str, tokens: tuple[int | None, ...], chunks: int
) -> None:
    r = received(TRANSCRIPTS[api], api=api)
    assert (r.error, r.status, r.finish_reason, r.tokens_source) == (None, 200, finish, "usage")
    assert (r.text, r.reasoning) == (text, reasoning)
    assert (r.input_tokens, r.output_tokens, r.reasoning_tokens, r.cached_tokens) == tokens
    assert (len(r.chunk_ns), r.oddities) == (chunks, {})


@given(APIS, st.lists(st.integers(0, 10_000), max_size=30))
@settings(max_examples=200, deadline=None)
def test_any_segmentation_gives_the_same_answer(api: Api, cuts: list[int]) -> None:
    whole = TRANSCRIPTS[api]
    assert timeless(received(*pieces(whole, cuts), api=api)) == timeless(received(whole, api=api))


@pytest.mark.parametrize("api", sorted(TRANSCRIPTS))
def test_byte_by_byte_and_with_crlf(api: Api) -> None:
    whole = TRANSCRIPTS[api]
    expected = timeless(received(whole, api=api))
    assert timeless(received(*(whole[i : i + 1] for i in range(len(whole))), api=api)) == expected
    crlf = HEAD + whole[len(HEAD) :].replace(b"\n", b"\r\n")
    assert timeless(received(*(crlf[i : i + 1] for i in range(len(crlf))), api=api)) == expected


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_the_events_need_no_name_and_a_name_stands_in_for_a_missing_type(api: Api) -> None:
    whole = TRANSCRIPTS[api]
    expected = timeless(received(whole, api=api))
    lines = whole[len(HEAD) :].split(b"\n")
    nameless = HEAD + b"\n".join(line for line in lines if not line.startswith(b"event:"))
    assert timeless(received(nameless, api=api)) == expected

    def without_type(line: bytes) -> bytes:
        value = json.loads(line.removeprefix(b"data: "))
        return b"data: " + json.dumps({k: v for k, v in value.items() if k != "type"}).encode()

    typeless = HEAD + b"\n".join(without_type(line) if line.startswith(b"data:") else line for line in lines)
    assert timeless(received(typeless, api=api)) == expected


@pytest.mark.parametrize("api", sorted(TRANSCRIPTS))
def test_an_answer_that_is_cut_before_its_end_is_truncated(api: Api) -> None:
    whole = TRANSCRIPTS[api]
    end_of_text = whole.index(b"\n\n", len(HEAD) + 1) + 2
    r = received(whole[:end_of_text], api=api)
    assert r.error == "truncated"
    assert DIALECTS[api].end in (r.error_message or "")


@pytest.mark.parametrize(
    ("event", "finish", "error"),
    [
        ({"type": "response.completed", "response": {"output": []}}, "stop", None),
        (
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
            "length",
            None,
        ),
        (
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}},
            "content_filter",
            None,
        ),
        ({"type": "response.incomplete", "response": {"incomplete_details": None}}, "incomplete", None),
        (
            {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "boom"}}},
            None,
            "boom (server_error)",
        ),
        ({"type": "response.failed"}, None, "the response failed, without a reason"),
    ],
)
def test_how_a_response_ends(event: dict[str, Any], finish: str | None, error: str | None) -> None:
    delta = of("responses", event)
    assert (delta.done, delta.finish_reason, delta.error) == (True, finish, error)


@pytest.mark.parametrize(
    ("api", "event", "error"),
    [
        (
            "responses",
            {"type": "error", "code": "ERR", "message": "gone", "param": None, "sequence_number": 1},
            "gone (ERR)",
        ),
        ("responses", {"error": {"message": "gone", "type": "server_error"}}, "gone (server_error)"),
        ("responses", {"type": "error"}, "no reason"),
        (
            "messages",
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "Overloaded (overloaded_error)",
        ),
        ("messages", {"error": "gone"}, "gone"),
        ("messages", {"type": "error"}, "no reason"),
    ],
)
def test_errors_inside_a_stream(api: Api, event: dict[str, Any], error: str) -> None:
    assert of(api, event) == Delta(error=error)
    r = received(HEAD + b"event: error\ndata: " + json.dumps(event).encode() + b"\n\n", api=api)
    assert (r.error, error in (r.error_message or "")) == ("stream_error", True)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
        (None, None),
    ],
)
def test_stop_reasons_of_messages(reason: str | None, finish: str | None) -> None:
    assert of("messages", {"type": "message_delta", "delta": {"stop_reason": reason}}).finish_reason == finish


def test_the_placeholder_of_message_start_is_no_output() -> None:
    body = TRANSCRIPTS["messages"].replace(b'"usage":{"output_tokens":9,', b'"usage":{')
    r = received(body, api="messages")
    assert (r.output_tokens, r.tokens_source, r.input_tokens) == (None, "unknown", 35)


def test_the_later_message_delta_counts_and_may_repeat_the_input() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0, "output_tokens": 4}
    assert of("messages", {"type": "message_delta", "delta": {}, "usage": usage}).usage == Usage(
        prompt_tokens=15, completion_tokens=4, cached_tokens=5
    )
    zero = of("messages", {"type": "message_delta", "usage": {"input_tokens": 0, "output_tokens": 4}}).usage
    assert zero == Usage(completion_tokens=4)  # "see message_start"
    twice = TRANSCRIPTS["messages"].replace(
        b"event: message_stop",
        b'event: message_delta\ndata: {"type":"message_delta","delta":{},"usage":{"output_tokens":11}}\n\n'
        b"event: message_stop",
    )
    assert received(twice, api="messages").output_tokens == 11


@pytest.mark.parametrize("api", ["responses", "messages"])
@pytest.mark.parametrize("payload", [b"", b"[]", b"null", b"12", b'"text"', b'{"type":', b"not json"])
def test_what_is_no_object_is_an_error(api: Api, payload: bytes) -> None:
    with pytest.raises(ChunkError):
        DIALECTS[api].read(payload, "")


_NAMES = st.sampled_from(
    [
        "response.output_text.delta",
        "response.completed",
        "response.output_item.added",
        "response.failed",
        "error",
        "odd",
        "message_start",
        "message_delta",
        "content_block_start",
        "content_block_delta",
        "message_stop",
    ]
)
_KEYS = ["type", "delta", "item", "response", "error", "message", "usage", "content_block", "text", "output", "name"]
_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda v: st.lists(v) | st.dictionaries(st.sampled_from(_KEYS), v),
    max_leaves=10,
)


@given(st.sampled_from(["responses", "messages"]), _NAMES, st.dictionaries(st.sampled_from(_KEYS), _VALUES))
def test_any_json_object_is_survived(api: Api, name: str, value: dict[str, Any]) -> None:
    assert isinstance(of(api, value, name), Delta)
    assert isinstance(of(api, {**value, "type": name}), Delta)


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_broken_characters_are_replaced(api: Api) -> None:
    whole = TRANSCRIPTS[api]
    broken = whole.replace(b"Gr\xc3\xbc", b"Gr\xc3").replace(b"\xe4\xbd\xa0", b"\xe4\xbd")
    r = received(broken, api=api)
    assert (r.error, "\ufffd" in r.text) == (None, True)
