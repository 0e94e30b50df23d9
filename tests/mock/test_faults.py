"""Each fault, seen from a bare socket."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest

from bakeoff.errors import UsageError
from bakeoff.mock import FAULTS, LatencyModel, RunningMock, parse_fault, running
from bakeoff.mock.words import count_tokens

from .raw import Reply, ask, encode, exchange, get, prompt

QUICK = LatencyModel(ttft_s=0.002, tpot_s=0.001, noise_seed=1)
BODY = prompt(tokens=8)


def meet(fault: str, *, silent_s: float | None = None, **more: object) -> tuple[Reply, RunningMock]:
    """The reply of a server with that fault, and the (stopped) server, for its log."""
    with running(QUICK, faults=[fault]) as mock:
        data = encode("POST", "/v1/completions", {**BODY, **more})
        reply = exchange(mock.port, data, timeout_s=silent_s) if silent_s else exchange(mock.port, data)
        assert mock.stderr() == ""
    record = mock.send_log()[0]
    assert record.fault == fault
    return reply, mock


@pytest.mark.parametrize(
    ("name", "status"), [("http_401", 401), ("http_404", 404), ("http_429", 429), ("http_500", 500)]
)
def test_http_errors(name: str, status: int) -> None:
    reply, mock = meet(name)
    assert reply.status == status
    assert reply.json["error"]["message"]
    assert ("Retry-After: 1" in reply.head) == (status == 429)
    assert mock.send_log()[0].status == status


def test_401_covers_the_model_list_and_not_the_health_probe() -> None:
    with running(QUICK, faults=["http_401"]) as mock:
        assert get(mock.port, "/v1/models").status == 401
        assert get(mock.port, "/health").status == 200


def test_error_event() -> None:
    reply, mock = meet("error_event")
    assert reply.status == 200
    assert reply.complete
    kinds = ["error" if "error" in event else "content" for event in reply.events]
    assert kinds == ["content"] * 4 + ["error"]
    assert mock.send_log()[0].output_tokens == 4
    assert "error" in meet("error_event", stream=False)[0].json


def test_garbage() -> None:
    reply, _ = meet("garbage")
    assert reply.status == 200
    assert "text/event-stream" in reply.head
    assert b"data:" not in reply.body
    with pytest.raises(UnicodeDecodeError):
        reply.body.decode()


def test_html() -> None:
    reply, _ = meet("html")
    assert reply.status == 200
    assert "Content-Type: text/html" in reply.head
    assert reply.body.startswith(b"<!DOCTYPE html>")


def test_truncated() -> None:
    reply, mock = meet("truncated")
    assert not reply.complete
    assert not reply.reset
    assert len(reply.events) == 4
    assert "[DONE]" not in reply.data
    record = mock.send_log()[0]
    assert (record.finish, record.output_tokens, len(record.chunk_ns)) == ("fault", 4, 4)
    whole, _ = meet("truncated", stream=False)
    assert whole.status == 200
    assert not whole.complete


def test_reset() -> None:
    reply, _ = meet("reset")
    assert reply.reset
    assert not reply.complete


def test_hang() -> None:
    reply, mock = meet("hang", silent_s=0.3)
    assert reply.timed_out
    assert reply.head == ""
    assert mock.send_log()[0].finish == "cancelled"


def test_hang_mid() -> None:
    reply, mock = meet("hang_mid", silent_s=1.5)
    assert reply.timed_out
    assert len(reply.events) == 4
    assert mock.send_log()[0].finish == "cancelled"


def test_no_usage() -> None:
    reply, _ = meet("no_usage")
    assert reply.data[-1] == "[DONE]"
    assert len(reply.events) == 9  # 8 tokens and the finish
    assert not any(event["usage"] for event in reply.events)
    assert "usage" not in meet("no_usage", stream=False)[0].json


def test_no_done() -> None:
    reply, _ = meet("no_done")
    assert reply.complete
    assert reply.events[-1]["usage"]["completion_tokens"] == 8
    assert "[DONE]" not in reply.data


def test_empty() -> None:
    reply, _ = meet("empty")
    assert reply.text == ""
    assert reply.events[0]["choices"][0]["finish_reason"] == "stop"
    assert reply.events[-1]["usage"]["completion_tokens"] == 0
    assert meet("empty", stream=False)[0].json["choices"][0]["text"] == ""


def test_repeat_token() -> None:
    reply, _ = meet("repeat_token")
    texts = [event["choices"][0]["text"] for event in reply.events[:8]]
    assert len(set(texts)) == 1
    assert texts[0]


def test_gibberish() -> None:
    reply, _ = meet("gibberish")
    assert not reply.text.isascii()
    assert reply.events[-1]["usage"]["completion_tokens"] == 8


def test_never_ready() -> None:
    with running(QUICK, faults=["never_ready"]) as mock:
        for path in ("/health", "/v1/models"):
            assert get(mock.port, path).status == 503
        assert ask(mock.port, BODY).status == 503


def test_die_after() -> None:
    with running(QUICK, faults=["die_after:2"]) as mock:
        assert ask(mock.port, BODY).data[-1] == "[DONE]"
        assert ask(mock.port, BODY).data[-1] == "[DONE]"
        deadline = time.monotonic() + 20
        while mock.exit_code is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert mock.exit_code == 3
    assert len(mock.send_log()) == 2


def test_every_fault_has_a_test_here() -> None:
    here = "\n".join(name for name in globals() if name.startswith("test_")) + "http_401 http_404 http_429 http_500"
    assert [name for name in FAULTS if name not in here] == []


def test_a_share_hits_that_share() -> None:
    with running(QUICK, faults=["http_500:0.5"]) as mock:
        statuses = [ask(mock.port, prompt(tokens=1)).status for _ in range(60)]
    assert 15 <= statuses.count(500) <= 45
    assert statuses.count(200) == 60 - statuses.count(500)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("http_50", "did you mean http_500"),
        ("hang:2", "share"),
        ("hang:x", "share"),
        ("die_after", "die_after:5"),
        ("die_after:0", "die_after:5"),
        ("never_ready:0.5", "takes no share"),
        ("zzz", "one of"),
    ],
)
def test_wrong_faults_are_explained(text: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        parse_fault(text)


def test_faults_read_back() -> None:
    assert [str(parse_fault(t)) for t in ("reset:10%", "hang", "die_after:3")] == ["reset:0.1", "hang:1", "die_after:3"]


@pytest.fixture
def mock() -> Iterator[RunningMock]:
    with running(QUICK) as server:
        yield server


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000 + b"\r\n\r\n"],
    ids=["tls", "no path", "long head"],
)
def test_what_is_not_http_is_refused_and_the_server_lives(mock: RunningMock, data: bytes) -> None:
    reply = exchange(mock.port, data)
    assert reply.status in (400, 431)
    assert get(mock.port, "/health").status == 200
    assert mock.stderr() == ""


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b"[]",
        {},
        {"prompt": ""},
        {"prompt": ["a", "b"]},
        {"prompt": "a", "max_tokens": 0},
        {"prompt": "a", "n": 2},
        {"prompt": {"a": 1}},
        {"prompt": "a", "max_tokens": "x"},
    ],
)
def test_wrong_bodies_get_400_with_a_reason(mock: RunningMock, body: object) -> None:
    reply = ask(mock.port, body)
    assert reply.status == 400
    assert reply.json["error"]["message"]
    assert mock.send_log(1)[0].finish == "refused"
    assert mock.stderr() == ""


def test_unknown_paths_and_methods(mock: RunningMock) -> None:
    assert get(mock.port, "/nope").status == 404
    assert get(mock.port, "/v1/completions").status == 405
    assert ask(mock.port, {}, path="/v1/models").status == 405
    assert ask(mock.port, {}, path="/tokenize").status == 400


def test_a_client_that_leaves_is_logged_and_frees_its_slot() -> None:
    with running(LatencyModel(ttft_s=0.001, tpot_s=0.02, slots=1)) as mock:
        with socket.create_connection(("127.0.0.1", mock.port), timeout=20) as client:
            client.sendall(encode("POST", "/v1/completions", prompt(tokens=100_000)))
            assert client.recv(100)
        assert ask(mock.port, prompt(tokens=2)).data[-1] == "[DONE]"
        records = mock.send_log(2)
    assert [r.finish for r in records] == ["cancelled", "length"]
    assert records[0].output_tokens == len(records[0].chunk_ns) < 100_000


def test_a_stop_lets_answers_end() -> None:
    with running(LatencyModel(ttft_s=0.001, tpot_s=0.02)) as mock:
        with socket.create_connection(("127.0.0.1", mock.port), timeout=20) as client:
            client.sendall(encode("POST", "/v1/completions", prompt(tokens=20)))
            seen = client.recv(100)
            os.kill(mock.pid, signal.SIGTERM)
            while part := client.recv(65536):
                seen += part
        assert b"[DONE]" in seen
        assert mock.stop() == 0
    assert mock.send_log()[0].finish == "length"


def test_a_stop_does_not_wait_for_ever_and_logs_what_it_cut() -> None:
    endless = encode("POST", "/v1/completions", prompt(tokens=100_000))
    with (
        running(LatencyModel(ttft_s=0.001, tpot_s=0.02)) as mock,
        socket.create_connection(("127.0.0.1", mock.port), timeout=20) as client,
    ):
        client.sendall(endless)
        assert client.recv(100)
        assert mock.stop() == 0
    assert mock.send_log()[0].finish == "shutdown"
    assert 0 < mock.send_log()[0].output_tokens < 100_000


def test_text_of_a_sound_server_counts_as_its_usage(mock: RunningMock) -> None:
    reply = ask(mock.port, BODY)
    assert count_tokens(reply.text) == reply.events[-1]["usage"]["completion_tokens"] == 8
