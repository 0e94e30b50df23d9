"""Faults that replace the answer, break the connection, or concern the whole server, seen from a bare socket."""

from __future__ import annotations

import gzip
import socket
import time
from email.utils import parsedate_to_datetime

import pytest

from bakeoff.mock import running

from .faulty import BODY, QUICK, meet
from .raw import Reply, ask, encode, exchange, get


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("http_401", 401),
        ("http_404", 404),
        ("http_429", 429),
        ("http_429_bare", 429),
        ("http_500", 500),
        ("http_503", 503),
    ],
)
def test_http_errors(name: str, status: int) -> None:
    reply, mock = meet(name)
    assert reply.status == status
    assert reply.json["error"]["message"]
    assert ("Retry-After: 1" in reply.head) == (name == "http_429")
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


def test_dates_of_a_clock_that_is_ahead() -> None:
    before = time.time()
    reply, _ = meet("http_429_date")
    date = parsedate_to_datetime(header(reply, "Date")).timestamp()
    assert 3599 <= date - before <= 3660
    assert parsedate_to_datetime(header(reply, "Retry-After")).timestamp() - date == 1
    sound, _ = meet("skewed_date")
    assert parsedate_to_datetime(header(sound, "Date")).timestamp() - before > 3500
    assert sound.data[-1] == "[DONE]"


def header(reply: Reply, name: str) -> str:
    return next(line for line in reply.head.split("\r\n") if line.startswith(f"{name}: ")).partition(": ")[2]


def test_redirect() -> None:
    reply, _ = meet("redirect")
    assert (reply.status, header(reply, "Location")) == (307, "/moved/v1/completions")


def test_gzip() -> None:
    reply, _ = meet("gzip")
    assert header(reply, "Content-Encoding") == "gzip"
    assert gzip.decompress(reply.body).endswith(b"[DONE]\n\n")


def test_not_streamed_and_no_body() -> None:
    assert meet("not_streamed")[0].json["object"] == "text_completion"
    reply, _ = meet("no_body")
    assert (reply.status, reply.body, reply.complete) == (200, b"", True)


@pytest.mark.parametrize(("fault", "reset"), [("close_first", False), ("reset_first", True)])
def test_connections_that_end_before_any_byte(fault: str, reset: bool) -> None:
    reply, mock = meet(fault)
    assert (reply.head, reply.reset) == ("", reset)
    assert (mock.send_log()[0].finish, mock.send_log()[0].status) == ("fault", 0)


def test_early_end_is_well_framed() -> None:
    reply, _ = meet("early_end")
    assert reply.complete
    assert len(reply.events) == 4
    assert not any(event["choices"][0]["finish_reason"] for event in reply.events)


def test_bad_framing() -> None:
    with running(QUICK, faults=["bad_framing"]) as mock, socket.create_connection(("127.0.0.1", mock.port)) as client:
        client.sendall(encode("POST", "/v1/completions", BODY))
        seen = b""
        while part := client.recv(65536):
            seen += part
    assert seen.endswith(b"this is no size\r\n")


def test_hang_first() -> None:
    reply, mock = meet("hang_first", silent_s=0.5)
    assert reply.timed_out
    assert (reply.status, reply.body) == (200, b"")
    assert mock.send_log()[0].chunk_ns == ()


def test_no_keep_alive_closes_though_it_did_not_say_so() -> None:
    keep = encode("POST", "/v1/completions", BODY, {"Connection": "keep-alive"})
    with running(QUICK, faults=["no_keep_alive"]) as mock:
        reply = exchange(mock.port, keep)
    assert not reply.timed_out
    assert "Connection: close" not in reply.head
    assert reply.data[-1] == "[DONE]"


def test_refused_while_nobody_listens() -> None:
    with running(QUICK, faults=["refused:2"]) as mock:
        assert ask(mock.port, BODY).data[-1] == "[DONE]"
        assert ask(mock.port, BODY).data[-1] == "[DONE]"
        with pytest.raises(ConnectionRefusedError):
            ask(mock.port, BODY)
    assert len(mock.send_log()) == 2


@pytest.mark.slow
def test_refused_comes_back() -> None:
    with running(QUICK, faults=["refused:1"]) as mock:
        assert ask(mock.port, BODY).status == 200
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                assert ask(mock.port, BODY).status == 200
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        assert time.monotonic() < deadline
