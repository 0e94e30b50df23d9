"""What real servers and networks do to a stream, byte by byte: none of it may move a number unseen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .answers import DONE, HEAD, READ_NS, chat, event, pieces, received, stream, text, timeless, total, usage

# When a token arrives.


def test_the_role_and_empty_chunks_are_no_token() -> None:
    r = received(
        HEAD + chat(role="assistant", content=""),  # read 1: prefill has not even begun
        chat(content=""),
        chat(content=None),
        chat(content="a"),  # read 4
        chat(),
        chat(content="b"),  # read 6
        chat("stop", content=""),
        total(3, 2),
        DONE,
        api="chat",
    )
    assert (r.first_byte_ns, r.first_token_ns, r.last_token_ns) == (READ_NS, 4 * READ_NS, 6 * READ_NS)
    assert (r.chunk_ns, r.error) == ([4 * READ_NS, 6 * READ_NS], None)


def test_a_trailing_usage_chunk_and_done_are_not_the_last_token() -> None:
    r = received(HEAD + text("a"), text("b", "stop"), total(3, 2), DONE)
    assert (r.last_token_ns, r.end_ns) == (2 * READ_NS, 5 * READ_NS)
    assert r.output_tokens == 2


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_the_first_token_and_text_the_first_output(key: str) -> None:
    r = received(HEAD + chat(**{key: "hm"}), chat("stop", content="a"), DONE, api="chat")
    assert (r.first_token_ns, r.first_output_ns) == (READ_NS, 2 * READ_NS)
    assert (r.reasoning, r.text, len(r.chunk_ns)) == ("hm", "a", 2)


def test_reasoning_as_a_content_part() -> None:
    r = received(
        HEAD + chat(content=[{"type": "thinking", "thinking": "hm"}]),
        chat("stop", content=[{"type": "text", "text": "a"}]),
        DONE,
        api="chat",
    )
    assert (r.first_token_ns, r.first_output_ns, r.reasoning, r.text) == (READ_NS, 2 * READ_NS, "hm", "a")


def test_events_of_one_read_share_its_stamp_and_are_marked() -> None:
    a, b, c, d = (text(t) for t in "abcd")
    r = received(HEAD + a, b + c + d[:25], d[25:], text("", "stop") + DONE)
    assert r.chunk_ns == [READ_NS, 2 * READ_NS, 2 * READ_NS, 3 * READ_NS]
    assert r.chunk_coalesced == [False, False, True, False]


@given(st.lists(st.integers(0, 10_000), max_size=12))
@settings(max_examples=150, deadline=None)
def test_a_stamp_is_that_of_the_read_that_completes_the_event(cuts: list[int]) -> None:
    events = [text(t) for t in ("a", "", "é语", "🎉")] + [text("", "stop"), DONE]
    whole = stream(*events)
    reads = pieces(whole, cuts)
    ends, at = [], len(HEAD)
    for one in events:
        at += len(one)
        ends.append(at)
    expected = []
    for position in (0, 2, 3):
        seen = 0
        for number, data in enumerate(reads, 1):
            seen += len(data)
            if seen >= ends[position]:
                expected.append(number * READ_NS)
                break
    r = received(*reads)
    assert r.chunk_ns == expected
    assert r.chunk_coalesced == [i > 0 and expected[i - 1] == s for i, s in enumerate(expected)]


def test_a_wrong_clock_of_the_server_moves_nothing() -> None:
    body = text("a", "stop") + DONE
    skewed = HEAD.replace(b"\r\n\r\n", b"\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n") + body
    assert received(skewed) == received(HEAD + body)


def test_no_duration_comes_from_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> float:
        raise AssertionError("the wall clock was asked")

    monkeypatch.setattr("time.time", asked)
    r = received(HEAD + text("a"), text("b", "stop"), total(3, 2), DONE)
    assert (r.first_token_ns, r.last_token_ns, r.end_ns) == (READ_NS, 2 * READ_NS, 5 * READ_NS)


# Where a stream ends.


def test_without_done_or_without_a_finish_reason() -> None:
    assert received(stream(text("a", "stop"))).oddities == {"no_end": 1}
    r = received(stream(text("a"), DONE))
    assert (r.error, r.finish_reason, r.oddities) == (None, None, {"no_finish_reason": 1})
    assert received(stream(text("a"))).error == "truncated"


def test_content_behind_the_finish_reason_is_read_and_noted() -> None:
    r = received(HEAD + text("a", "stop"), text("b"), text("c") + DONE)
    assert (r.text, r.error, r.oddities) == ("abc", None, {"content_after_finish": 2})
    assert r.last_token_ns == 3 * READ_NS


def test_what_comes_behind_the_end_is_not_read() -> None:
    r = received(HEAD + text("a", "stop"), DONE + text("b"), text("c") + DONE)
    assert (r.text, r.error, r.oddities, r.last_token_ns) == ("a", None, {"events_after_end": 2}, READ_NS)


def test_an_error_event_in_a_200_is_no_success() -> None:
    object_, named, field = event({"error": {"message": "boom"}}), b"event: error\ndata: boom\n\n", b"error: boom\n\n"
    for odd in (object_, named, field):
        r = received(stream(text("a"), odd, text("b", "stop"), DONE))
        assert (r.error, "boom" in (r.error_message or ""), r.text) == ("stream_error", True, "ab")


@pytest.mark.parametrize("payload", [b"null", b"[1]", b"7", b'"x"', b"tru", b'{"choices":[{"text":"b"', b"{]"])
def test_events_that_are_no_json_object(payload: bytes) -> None:
    r = received(stream(text("a"), b"data: " + payload + b"\n\n", text("c", "stop"), DONE))
    assert (r.error, r.text) == ("stream_error", "ac")
    assert payload.decode() in (r.error_message or "")


@pytest.mark.parametrize("choices", [None, [], [None], "none", [{}], [{"delta": None}]])
def test_empty_or_null_choices(choices: Any) -> None:
    r = received(stream(event({"choices": choices}), text("a", "stop"), DONE))
    assert (r.error, r.text, len(r.chunk_ns)) == (None, "a", 1)


def test_half_an_event_at_the_end_is_truncation() -> None:
    r = received(stream(text("a"), text("b")[:20]))
    assert (r.error, r.text) == ("truncated", "a")


# What the bytes look like.


@pytest.mark.parametrize(
    "body",
    [
        text("a") + text("é", "stop") + DONE,
        (text("a") + text("é", "stop") + DONE).replace(b"\n", b"\r\n"),
        (text("a") + text("é", "stop") + DONE).replace(b"\n", b"\r"),
        (text("a") + text("é", "stop") + DONE).replace(b"data: ", b"data:"),
        b": ping\n\n" + text("a") + b":\n\n: x\n" + text("é", "stop") + b"retry: 3\nid: 4\n\n" + DONE,
        b"\xef\xbb\xbf" + text("a") + text("é", "stop") + DONE,
        text("a") + text("é", "stop") + DONE.rstrip(),
        text("a") + text("é", "stop") + b"data:  [DONE] \n\n",
    ],
    ids=["lf", "crlf", "cr", "no-space", "comments", "bom", "no-last-line-end", "blanks"],
)
@given(cuts=st.lists(st.integers(0, 2_000), max_size=20))
@settings(max_examples=40, deadline=None)
def test_every_spelling_of_a_stream_at_any_segmentation(body: bytes, cuts: list[int]) -> None:
    r = received(*pieces(HEAD + body, cuts))
    assert (r.error, r.text, r.finish_reason, len(r.chunk_ns), r.oddities) == (None, "aé", "stop", 2, {})


def test_a_line_of_50k_tokens() -> None:
    long = "wörd " * 50_000
    whole = stream(text(long, "stop"), total(5, 50_000), DONE)
    r = received(*(whole[i : i + 65_536] for i in range(0, len(whole), 65_536)))
    assert (r.error, r.text, r.output_tokens, len(r.chunk_ns)) == (None, long, 50_000, 1)


def test_a_line_without_an_end_is_given_up() -> None:
    r = received(HEAD + b"data: ", *[b"y" * 1_000_000] * 20)
    assert (r.error, r.end_ns) == ("stream_error", 18 * READ_NS)


_EVENTS = st.sampled_from(
    [
        text("a"),
        text("é🎉"),
        text("", "stop"),
        text("x", index=1),
        chat(role="assistant", content=""),
        chat(reasoning="hm"),
        total(3, 4),
        text("b", usage=usage(3, 2)),
        event({"choices": None}),
        event({"error": "boom"}),
        b"data: null\n\n",
        b"data: {broken\n\n",
        b": ping\n\n",
        b"\r\n",
        DONE,
    ]
)


@given(st.lists(_EVENTS, max_size=12), st.lists(st.integers(0, 5_000), max_size=20), st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_mixture_of_them_depends_on_the_segmentation(events: list[bytes], cuts: list[int], chopped: bool) -> None:
    whole = stream(*events)
    whole = whole[:-7] if chopped and events else whole
    one, other = received(whole), received(*pieces(whole, cuts))
    assert timeless(one) == timeless(other)
    assert other.chunk_ns == sorted(other.chunk_ns)


def test_what_the_workload_wanted_is_in_the_record() -> None:
    r = received(stream(text("a", "stop"), DONE), asked=16, conversation=4, turn=2, asked_input_tokens=99)
    assert (r.index, r.prompt_id, r.prompt, r.sent_ns) == (3, 7, "p", 500)
    assert (r.conversation, r.turn, r.asked_input_tokens, r.asked_output_tokens) == (4, 2, 99, 16)
