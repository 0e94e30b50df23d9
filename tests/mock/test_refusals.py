"""What is no request for an answer, clients that leave, and stops."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest

from bakeoff.mock import LatencyModel, RunningMock, running
from bakeoff.mock.words import count_tokens

from .faulty import BODY, QUICK
from .raw import ask, encode, exchange, get, prompt


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
