from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.client.sse import Event, SseParser


def parse(*parts: bytes, limit: int | None = None) -> list[tuple[bytes, str]]:
    parser = SseParser() if limit is None else SseParser(limit)
    events: list[Event] = []
    for part in parts:
        events += parser.feed(part)
    events += parser.finish()
    return [(event.data, event.name) for event in events]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b": ping\n\ndata: a\n: ping\ndata: b\n\n:\n\n", [b"a\nb"]),
        (b"id: 3\nretry: 10\nfoo: bar\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n\ndata: [DONE]\n", [b"a", b"[DONE]"]),  # the last blank line is missing
        (b"data: a\n\ndata: [DONE]", [b"a", b"[DONE]"]),
        (b"data:\n\ndata\n\ndata: \n\n", []),
        (b"<html>\n<body>\n\n</html>", []),
        ("data: é🎉 \n\n".encode(), ["é🎉 ".encode()]),
    ],
)
def test_grammar(stream: bytes, expected: list[bytes]) -> None:
    assert [data for data, _ in parse(stream)] == expected


def test_event_types_and_the_error_field() -> None:
    assert parse(b"event: error\ndata: x\n\ndata: y\n\nerror: z\n\n") == [(b"x", "error"), (b"y", ""), (b"z", "error")]


_LINES = st.sampled_from(
    [
        "data: {}",
        "data:x",
        ": ping",
        "",
        "",
        "event: error",
        "error: {}",
        "id: 1",
        "data: é🎉語",
        "junk",
        "data: [DONE]",
    ]
)
_STREAMS = st.lists(st.tuples(_LINES, st.sampled_from(["\n", "\r\n", "\r"])), max_size=20).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)


@given(_STREAMS, st.lists(st.integers(0, 400), max_size=12))
@settings(max_examples=400)
def test_any_segmentation_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(stream), *(c for c in cuts if c < len(stream))})
    parts = [stream[a:b] for a, b in pairwise(edges)]
    assert parse(*parts) == parse(stream)
    assert parse(*(stream[i : i + 1] for i in range(len(stream)))) == parse(stream)


@given(_STREAMS, st.integers(5, 40), st.lists(st.integers(0, 400), max_size=6))
def test_the_size_limit_does_not_depend_on_segmentation(stream: bytes, limit: int, cuts: list[int]) -> None:
    edges = sorted({0, len(stream), *(c for c in cuts if c < len(stream))})
    parts = [stream[a:b] for a, b in pairwise(edges)]
    assert parse(*parts, limit=limit) == parse(stream, limit=limit)


def test_a_giant_event_is_an_error_and_takes_no_more_memory() -> None:
    parser = SseParser(1000)
    assert parser.feed(b"data: ok\n\ndata: ") == [Event(b"ok")]
    for _ in range(100):
        assert parser.feed(b"x" * 100) == []
    assert parser.failed == "an event is longer than 1000 bytes"
    assert len(parser._buffer) == 0
    assert parser.feed(b"\n\ndata: more\n\n") == []


def test_many_short_lines_of_one_event_are_bounded_too() -> None:
    parser = SseParser(1000)
    parser.feed(b"data: x\n" * 600)
    assert parser.failed is not None


def test_a_long_line_in_many_reads() -> None:
    payload = b"y" * 3_000_000
    stream = b"data: " + payload + b"\n\n"
    assert parse(*(stream[i : i + 1000] for i in range(0, len(stream), 1000))) == [(payload, "")]
