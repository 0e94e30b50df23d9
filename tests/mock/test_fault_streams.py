"""Faults within the stream, seen from a bare socket."""

from __future__ import annotations

import json
import socket

import pytest

from bakeoff.mock import running
from bakeoff.mock.words import count_tokens

from .faulty import QUICK, meet
from .raw import ask, encode, prompt


def test_error_first() -> None:
    reply, mock = meet("error_first")
    assert ["error" in event for event in reply.events] == [True]
    assert mock.send_log()[0].output_tokens == 0


def test_broken_json() -> None:
    reply, _ = meet("broken_json")
    with pytest.raises(ValueError, match=r"Unterminated|Expecting|delimiter"):
        _ = reply.events
    assert reply.data[-1] == "[DONE]"


def test_split_utf8_and_slow_drip_reach_the_client_in_parts() -> None:
    reply, mock = meet("split_utf8")
    assert "中𝔘" in reply.text
    assert count_tokens(reply.text) == 8
    assert len(mock.send_log()[0].chunk_ns) == 8
    with (
        running(QUICK, faults=["slow_drip"]) as dripping,
        socket.create_connection(("127.0.0.1", dripping.port)) as client,
    ):
        client.sendall(encode("POST", "/v1/completions", prompt(tokens=2)))
        sizes = []
        while part := client.recv(65536):
            sizes.append(len(part))
    assert sizes.count(1) > 50
    assert dripping.send_log()[0].output_tokens == 2


def test_crlf_and_tight() -> None:
    crlf, _ = meet("crlf")
    assert crlf.body.count(b"\r\n") == crlf.body.count(b"\n") == 22  # 8 tokens, finish, usage, [DONE]; 2 lines each
    tight, _ = meet("tight")
    assert (tight.body.count(b"data:{"), tight.body.count(b"data: ")) == (10, 0)


def test_comments() -> None:
    assert meet("comments")[0].body.count(b": ping\n\n") == 8


def test_giant_line() -> None:
    reply, _ = meet("giant_line")
    assert max(len(line) for line in reply.body.split(b"\n")) > 1 << 20
    assert count_tokens(reply.text) == 8


def test_batched() -> None:
    reply, mock = meet("batched")
    assert mock.send_log()[0].chunk_tokens == (1, 4, 3)
    assert count_tokens(reply.text) == 8


def test_role_first() -> None:
    reply, mock = meet("role_first")
    assert reply.events[0]["choices"][0]["text"] == ""
    assert len(mock.send_log()[0].chunk_ns) == 8


def test_empty_choices() -> None:
    reply, _ = meet("empty_choices")
    assert [len(event["choices"]) for event in reply.events[:5]] == [0, 1, 0, 1, 1]


def test_duplicate() -> None:
    reply, mock = meet("duplicate")
    texts = [event["choices"][0]["text"] for event in reply.events if event["choices"]]
    assert (len(texts), texts[3]) == (10, texts[4])
    assert mock.send_log()[0].chunk_tokens == (1, 1, 1, 1, 0, 1, 1, 1, 1)
    assert reply.events[-1]["usage"]["completion_tokens"] == mock.send_log()[0].output_tokens == 8


def test_after_finish() -> None:
    reply, _ = meet("after_finish")
    reasons = [event["choices"][0]["finish_reason"] for event in reply.events if event["choices"]]
    assert reasons == [None] * 8 + ["length", None, None]
    assert reply.data[-1] == "[DONE]"


def test_no_finish_and_no_end() -> None:
    for fault, done in (("no_finish", True), ("no_end", False)):
        reply, _ = meet(fault)
        assert not any(choice["finish_reason"] for event in reply.events for choice in event["choices"])
        assert (reply.data[-1] == "[DONE]") == done
        assert reply.complete


def test_wrong_usage_and_usage_in_every_chunk() -> None:
    assert meet("wrong_usage")[0].events[-1]["usage"]["completion_tokens"] == 16
    reply, _ = meet("usage_every", stream_options=None)
    assert [event["usage"]["completion_tokens"] for event in reply.events if event.get("usage")] == [*range(1, 9), 8]


@pytest.mark.parametrize("fault", ["reasoning", "tool_calls"])
@pytest.mark.parametrize("stream", [True, False])
def test_reasoning_and_tool_calls(fault: str, stream: bool) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "ignore_eos": True, "stream": stream}
    with running(QUICK, faults=[fault]) as mock:
        reply = ask(mock.port, body, path="/v1/chat/completions")
    said: dict[str, str] = {}
    if stream:
        for delta in [event["choices"][0]["delta"] for event in reply.events]:
            for call in delta.pop("tool_calls", ()):
                said["tool"] = said.get("tool", "") + call["function"]["arguments"]
            for name, text in delta.items():
                said[name] = said.get(name, "") + text
    else:
        said = reply.json["choices"][0]["message"]
        if fault == "tool_calls":
            said["tool"] = reply.json["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert count_tokens(said["content"]) == 4
    if fault == "reasoning":
        assert count_tokens(said["reasoning_content"]) == 4
    else:
        assert count_tokens(json.loads(said["tool"])["text"]) == 4
