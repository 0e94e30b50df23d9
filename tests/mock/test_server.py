"""The API, the latency and the send log of the server in its own process."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from bakeoff.errors import ServerNotReady
from bakeoff.mock import LatencyModel, RunningMock, read_send_log, running
from bakeoff.mock.options import mock_command, model_flags
from bakeoff.mock.words import count_tokens

from .raw import Reply, ask, encode, exchange, get, prompt

QUICK = LatencyModel(ttft_s=0.002, tpot_s=0.001, noise_seed=1)
MS = 1_000_000
# How late a busy machine may run a timer before a test fails: only gross errors are looked for.
LATE_NS = 500 * MS


@pytest.fixture(scope="module")
def mock() -> Iterator[RunningMock]:
    with running(QUICK) as server:
        yield server
        assert server.stderr() == ""


def test_completion_stream_is_openais(mock: RunningMock) -> None:
    reply = ask(mock.port, prompt("Hello, world!", tokens=5))
    assert reply.status == 200
    assert "text/event-stream" in reply.head
    assert reply.complete
    *tokens, finish, usage = reply.events
    assert reply.data[-1] == "[DONE]"
    assert [event["choices"][0]["finish_reason"] for event in (*tokens, finish)] == [None] * 5 + ["length"]
    assert all(count_tokens(event["choices"][0]["text"]) == 1 for event in tokens)
    assert all(event["usage"] is None for event in (*tokens, finish))
    assert usage["choices"] == []
    expected = {"prompt_tokens": 4, "completion_tokens": 5, "total_tokens": 9}
    assert usage["usage"] == {**expected, "prompt_tokens_details": {"cached_tokens": 0}}
    assert {event["object"] for event in reply.events} == {"text_completion"}


def test_no_usage_chunk_unless_asked_for(mock: RunningMock) -> None:
    reply = ask(mock.port, prompt(stream_options=None))
    assert all("usage" not in event for event in reply.events)
    assert reply.data[-1] == "[DONE]"


def test_chat_stream(mock: RunningMock) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi there"}]}], "stream": True}
    reply = ask(mock.port, {**body, "max_completion_tokens": 4, "ignore_eos": True}, path="/v1/chat/completions")
    deltas = [event["choices"][0]["delta"] for event in reply.events]
    assert [set(delta) for delta in deltas] == [{"content"}] * 4 + [set()]
    assert {event["object"] for event in reply.events} == {"chat.completion.chunk"}


def test_role_chunk_comes_first_and_at_once() -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 2}
    with running(LatencyModel(ttft_s=30, role_chunk=True)) as mock:
        reply = exchange(mock.port, encode("POST", "/v1/chat/completions", body), timeout_s=1)
    assert reply.timed_out
    assert [event["choices"][0]["delta"] for event in reply.events] == [{"role": "assistant", "content": ""}]


@pytest.mark.parametrize("chat", [False, True])
def test_without_streaming_one_json(mock: RunningMock, chat: bool) -> None:
    if chat:
        body: dict[str, object] = {"messages": [{"role": "system", "content": "Be brief."}], "max_tokens": 7}
        reply = ask(mock.port, {**body, "ignore_eos": True}, path="/v1/chat/completions")
        text = reply.json["choices"][0]["message"]["content"]
    else:
        reply = ask(mock.port, prompt("Be brief.", tokens=7, stream=False))
        text = reply.json["choices"][0]["text"]
    assert count_tokens(text) == 7
    assert reply.json["usage"]["prompt_tokens"] == 3
    assert reply.json["usage"]["completion_tokens"] == 7
    assert reply.json["choices"][0]["finish_reason"] == "length"


def test_token_ids_are_a_prompt(mock: RunningMock) -> None:
    reply = ask(mock.port, prompt(prompt=[5, 6, 7]))
    assert reply.events[-1]["usage"]["prompt_tokens"] == 3


def test_stream_and_whole_answer_say_the_same(mock: RunningMock) -> None:
    streamed = ask(mock.port, prompt("Same?", tokens=9)).text
    assert streamed == ask(mock.port, prompt("Same?", tokens=9, stream=False)).json["choices"][0]["text"]
    with running(LatencyModel(ttft_s=0, tpot_s=0, scale=2, tokens_per_chunk=4)) as other:
        assert ask(other.port, prompt("Same?", tokens=9)).text == streamed


def test_natural_length_ends_with_stop() -> None:
    with running(LatencyModel(ttft_s=0, tpot_s=0, natural_tokens_mean=20)) as mock:
        replies = [ask(mock.port, prompt(f"Prompt {i}", tokens=1000, ignore_eos=False)) for i in range(20)]
        limited = ask(mock.port, prompt("Prompt 1", tokens=2, ignore_eos=False))
    counts = [reply.events[-1]["usage"]["completion_tokens"] for reply in replies]
    assert {reply.events[-2]["choices"][0]["finish_reason"] for reply in replies} == {"stop"}
    assert len(set(counts)) > 5
    assert 10 < statistics.fmean(counts) < 40
    assert limited.events[-2]["choices"][0]["finish_reason"] == "length"


def test_other_endpoints(mock: RunningMock) -> None:
    assert get(mock.port, "/health").json == {"status": "ok"}
    assert get(mock.port, "/v1/models").json["data"][0]["id"] == "mock"
    llamacpp = ask(mock.port, {"content": "a b!"}, path="/tokenize").json
    vllm = ask(mock.port, {"model": "m", "prompt": "a b!"}, path="/tokenize").json
    assert set(llamacpp) == {"tokens"}
    assert vllm["count"] == 3
    assert vllm["tokens"] == llamacpp["tokens"]


def counters(mock: RunningMock) -> dict[str, float]:
    lines = get(mock.port, "/metrics").body.decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name.removeprefix("llamacpp:"): float(value) for name, value in pairs}


def test_counters_and_the_prefix_cache() -> None:
    model = LatencyModel(ttft_s=0.001, per_input_token_s=0.02, tpot_s=0, prefix_cache=True, prefix_block=1)
    with running(model, metrics_dialect="llamacpp") as mock:
        first = ask(mock.port, prompt("one two three", tokens=4))
        again = ask(mock.port, prompt("one two three", tokens=4))
        ask(mock.port, prompt("one two three", tokens=4, cache_prompt=False))
        found = counters(mock)
        records = mock.send_log(3)
    cached = [reply.events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] for reply in (first, again)]
    assert cached == [0, 2]  # never the last token, whose output is the first of the answer
    assert found["prompt_tokens_total"] == 7
    assert found["prompt_tokens_cached_total"] == 2
    assert found["tokens_predicted_total"] == 12
    assert found["requests_processing"] == found["requests_deferred"] == 0
    prefill_ms = [(r.due_first_ns - r.start_ns) / MS for r in records if r.due_first_ns and r.start_ns]
    assert prefill_ms == pytest.approx([61, 21, 61], abs=0.01)


def test_the_log_shows_that_the_model_was_obeyed() -> None:
    model = LatencyModel(ttft_s=0.03, per_input_token_s=0.001, tpot_s=0.01, scale=2)
    with running(model) as mock:
        ask(mock.port, prompt("one two three four", tokens=10), headers={"X-Request-Id": "my-id"})
        (record,) = mock.send_log(1)
    assert record.request_id == "my-id"
    assert record.start_ns == record.recv_ns
    assert record.due_first_ns is not None
    assert record.due_last_ns is not None
    assert record.due_first_ns - record.recv_ns == pytest.approx(68 * MS, abs=1000)
    assert record.due_last_ns - record.due_first_ns == pytest.approx(180 * MS, abs=1000)
    assert record.first_send_ns == record.chunk_ns[0]
    for k, stamp in enumerate(record.chunk_ns):  # absolute deadlines: none early, and lateness does not add up
        due = record.due_first_ns + k * 20 * MS
        assert due - 1000 <= stamp < due + LATE_NS
    assert record.chunk_tokens == (1,) * 10
    assert (record.input_tokens, record.output_tokens, record.finish) == (4, 10, "length")
    assert record.end_ns >= record.chunk_ns[-1]


def test_chunks_of_several_tokens_keep_ttft_and_tpot() -> None:
    with running(LatencyModel(ttft_s=0.01, tpot_s=0.01, tokens_per_chunk=3)) as mock:
        reply = ask(mock.port, prompt(tokens=9))
        (record,) = mock.send_log(1)
    assert record.chunk_tokens == (1, 3, 3, 2)
    assert count_tokens(reply.text) == 9
    assert record.due_last_ns is not None
    assert record.chunk_ns[-1] >= record.due_last_ns - 1000


def test_coalesced_chunks_share_one_write() -> None:
    with running(LatencyModel(ttft_s=0.01, tpot_s=0.01, coalesce=4)) as mock:
        reply = ask(mock.port, prompt(tokens=9))
        (record,) = mock.send_log(1)
    assert len(reply.events) == 11
    assert record.chunk_tokens == (1,) * 9
    stamps = record.chunk_ns
    assert stamps[0] < stamps[1] == stamps[4] <= stamps[5] == stamps[8]


def test_slots_are_a_queue_first_come_first_served() -> None:
    with running(LatencyModel(ttft_s=0.1, tpot_s=0, slots=2), metrics_dialect="llamacpp") as mock:
        replies: dict[int, Reply] = {}

        def one(i: int) -> None:
            replies[i] = ask(mock.port, prompt(f"{i}", tokens=1), headers={"x-request-id": str(i)})

        threads = [threading.Thread(target=one, args=(i,)) for i in range(5)]
        for thread in threads:
            thread.start()
        deferred = 0.0
        while any(thread.is_alive() for thread in threads):
            found = counters(mock)
            deferred = max(deferred, found["requests_deferred"])
            assert found["requests_processing"] <= 2
            time.sleep(0.005)
        records = sorted(mock.send_log(5), key=lambda r: r.recv_ns)
    assert all(reply.data[-1] == "[DONE]" for reply in replies.values())
    starts = [r.start_ns for r in records if r.start_ns is not None]
    assert starts == sorted(starts)
    assert len(starts) == 5
    assert deferred >= 1
    for record, start in zip(records[2:], starts[2:], strict=True):
        assert start > record.recv_ns
        busy = sum(1 for other in records if other.start_ns is not None and other.start_ns <= start < other.end_ns)
        assert busy <= 2


def test_one_connection_serves_many_requests_even_pipelined(mock: RunningMock) -> None:
    keep = {"Connection": "keep-alive"}
    body = prompt(tokens=2, stream=False)
    data = encode("POST", "/v1/completions", body, keep) * 3 + encode("GET", "/health")
    reply = exchange(mock.port, data)
    assert (reply.head + reply.body.decode("latin-1")).count("HTTP/1.1 200 OK") == 4


def test_a_body_in_many_reads_and_a_query_string(mock: RunningMock) -> None:
    before = len(mock.send_log())
    reply = ask(mock.port, prompt("word " * 50_000, tokens=2), path="/v1/completions?x=1")
    assert reply.events[-1]["usage"]["prompt_tokens"] == 50_000
    assert mock.send_log(before + 1)[-1].path == "/v1/completions"


def test_http_1_0_gets_no_chunks(mock: RunningMock) -> None:
    data = encode("POST", "/v1/completions", prompt(tokens=2)).replace(b"HTTP/1.1", b"HTTP/1.0")
    reply = exchange(mock.port, data)
    assert "chunked" not in reply.head
    assert reply.data[-1] == "[DONE]"


def test_a_hostile_model_name_stays_inside_its_string(mock: RunningMock) -> None:
    reply = ask(mock.port, prompt(model='x"\x00",\n"choices":[]', tokens=2))
    assert [event["model"] for event in reply.events] == ['x"\x00",\n"choices":[]'] * 4
    assert count_tokens(reply.text) == 2


def test_api_key_is_asked_for_and_never_shown() -> None:
    key = "sk-planted-0123456789"
    with running(QUICK, api_key=key) as mock:
        wrong = ask(mock.port, prompt(), headers={"Authorization": "Bearer nope"})
        assert ask(mock.port, prompt()).status == wrong.status == 401
        assert get(mock.port, "/health").status == 200
        right = ask(mock.port, prompt(tokens=2), headers={"Authorization": f"Bearer {key}"})
        assert right.data[-1] == "[DONE]"
        command = Path(f"/proc/{mock.pid}/cmdline")
        assert not command.exists() or key.encode() not in command.read_bytes()
        assert key not in mock.stderr() + wrong.body.decode()
    assert key not in str(mock.send_log())


def test_the_command_line_carries_the_whole_model() -> None:
    model = LatencyModel(
        ttft_s=1 / 3,
        per_input_token_s=1e-7,
        tpot_s=0.0123,
        jitter=0.07,
        gap_jitter=0.1,
        slots=4,
        seed=-3,
        noise_seed=5,
        start_delay_s=0.5,
        scale=1.1,
        drift_per_minute=-0.02,
        start_effect=0.01,
        role_chunk=True,
        tokens_per_chunk=2,
        coalesce=3,
        natural_tokens_mean=33.5,
        talkative=1.5,
        nonce_tokens=8,
        prefix_cache=True,
        prefix_block=8,
        kv_tokens=5000,
    )
    context = mock_command.make_context("mock", list(model_flags(model)))
    got = LatencyModel(**{field: context.params[field] for field in LatencyModel.__struct_fields__})
    for field in LatencyModel.__struct_fields__:
        assert getattr(got, field) == pytest.approx(getattr(model, field), rel=1e-9), field
        assert getattr(got, field) != getattr(LatencyModel(), field), field
    assert list(model_flags(LatencyModel())) == []


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--ttft", "50"], "number and a unit"),
        (["--fault", "http_50"], "did you mean http_50"),
        (["--faults", "hang,rest"], "did you mean reset"),
        (["--metrics-dialect", "x"], "sglang"),
        (["--api-key-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE"),
        (["--scale", "0"], "scale"),
        (["--nope"], "--nope"),
    ],
)
def test_wrong_options_exit_2_and_say_why(args: list[str], says: str) -> None:
    result = CliRunner().invoke(mock_command, args)
    assert result.exit_code == 2
    assert says in result.output


def test_help_and_the_list_of_faults() -> None:
    told = CliRunner().invoke(mock_command, ["--help"]).output
    assert "--tpot" in told
    assert "[default: 0.05s]" in " ".join(told.split())
    assert "(0" not in told  # a default is shown as it would be written
    listed = CliRunner().invoke(mock_command, ["--list-faults"])
    assert listed.exit_code == 0
    assert "die_after" in listed.output


def test_a_taken_port_is_explained(mock: RunningMock) -> None:
    with pytest.raises(ServerNotReady, match="another port"), running(QUICK, port=mock.port):
        pytest.fail("it cannot have started")


def test_a_torn_log_line_is_left_out(tmp_path: Path, mock: RunningMock) -> None:
    ask(mock.port, prompt(tokens=1))
    record = mock.send_log(1)[0]
    path = tmp_path / "log"
    line = json.dumps({field: getattr(record, field) for field in record.__struct_fields__})
    path.write_text(f"{line}\n{line[:20]}")
    assert read_send_log(path) == [record]
    assert read_send_log(tmp_path / "none") == []
