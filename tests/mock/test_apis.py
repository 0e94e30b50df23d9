"""/v1/responses and /v1/messages: their events, their plain answers, and what the load client makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bakeoff.client import ClosedLoop, Timeouts, loop_runner, prepare, run_requests
from bakeoff.mock import LatencyModel, MockServer, RunningMock, ServeOptions, parse_fault, read_send_log, running
from bakeoff.mock.words import count_tokens
from bakeoff.model import (
    Api,
    BlockSize,
    Capabilities,
    Endpoint,
    ErrorKind,
    Load,
    Prompts,
    RequestRecord,
    Workload,
)

from .raw import Reply, ask

QUICK = LatencyModel(ttft_s=0.002, tpot_s=0.0005, noise_seed=1)
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
MESSAGE = [{"role": "user", "content": [{"type": "text", "text": "Hello, world!"}]}]


@pytest.fixture(scope="module")
def mock() -> Iterator[RunningMock]:
    with running(QUICK) as server:
        yield server
        assert server.stderr() == ""


def named(reply: Reply) -> list[tuple[str, dict[str, Any]]]:
    """(name, data) of the events."""
    events = []
    for block in reply.body.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert all(name == data["type"] for name, data in events)
    return events


def test_responses_stream(mock: RunningMock) -> None:
    body = {"model": "m", "input": "Hello, world!", "instructions": "Be brief.", "max_output_tokens": 3}
    reply = ask(mock.port, {**body, "ignore_eos": True, "stream": True}, path=RESPONSES)
    events = named(reply)
    assert [name.removeprefix("response.") for name, _ in events] == [
        "created", "in_progress", "output_item.added", "content_part.added", *["output_text.delta"] * 3,
        "output_text.done", "content_part.done", "output_item.done", "incomplete",
    ]  # fmt: skip
    assert [data["sequence_number"] for _, data in events] == list(range(11))
    text = "".join(data["delta"] for name, data in events if name == "response.output_text.delta")
    assert count_tokens(text) == 3
    last = events[-1][1]["response"]
    assert last["output"][0]["content"][0]["text"] == text
    assert (last["status"], last["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    usage = last["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (7, 3, 10)
    assert reply.complete


def test_responses_that_end_by_themselves_are_completed() -> None:
    with running(LatencyModel(ttft_s=0, tpot_s=0, natural_tokens_mean=5)) as mock:
        events = named(ask(mock.port, {"input": [{"role": "user", "content": "Hi"}], "stream": True}, path=RESPONSES))
        plain = ask(mock.port, {"input": [{"role": "user", "content": "Hi"}]}, path=RESPONSES).json
    assert events[-1][0] == "response.completed"
    assert plain["status"] == "completed"
    assert [item["content"] for item in plain["output"]] == [
        item["content"] for item in events[-1][1]["response"]["output"]
    ]


def test_messages_stream(mock: RunningMock) -> None:
    body = {"model": "m", "messages": MESSAGE, "system": "Be brief.", "max_tokens": 3}
    events = named(ask(mock.port, {**body, "ignore_eos": True, "stream": True}, path=MESSAGES))
    assert [name for name, _ in events] == [
        "message_start", "content_block_start", *["content_block_delta"] * 3, "content_block_stop", "message_delta",
        "message_stop",
    ]  # fmt: skip
    assert events[0][1]["message"]["usage"] == {
        "input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
    }
    assert {data["delta"]["type"] for name, data in events if name == "content_block_delta"} == {"text_delta"}
    text = "".join(data["delta"]["text"] for name, data in events if name == "content_block_delta")
    assert count_tokens(text) == 3
    assert events[-2][1]["delta"]["stop_reason"] == "max_tokens"
    assert events[-2][1]["usage"]["output_tokens"] == 3
    plain = ask(mock.port, {**body, "ignore_eos": True}, path=MESSAGES).json
    assert plain["content"] == [{"type": "text", "text": text}]
    assert (plain["type"], plain["role"], plain["stop_reason"]) == ("message", "assistant", "max_tokens")


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (RESPONSES, {}, "input"),
        (RESPONSES, {"input": "a", "max_output_tokens": 0}, "max_output_tokens"),
        (MESSAGES, {"messages": MESSAGE}, "max_tokens"),
        (MESSAGES, {"max_tokens": 3}, "messages"),
    ],
)
def test_wrong_bodies_are_told_in_the_way_of_the_api(
    mock: RunningMock, path: str, body: dict[str, Any], says: str
) -> None:
    reply = ask(mock.port, body, path=path)
    assert reply.status == 400
    assert says in reply.json["error"]["message"]
    assert (reply.json.get("type") == "error") == (path == MESSAGES)


def test_a_key_in_the_way_of_the_messages_api() -> None:
    with running(QUICK, api_key="sk-planted-1") as mock:
        body = {"messages": MESSAGE, "max_tokens": 2}
        assert ask(mock.port, body, path=MESSAGES, headers={"x-api-key": "sk-planted-1"}).status == 200
        assert ask(mock.port, body, path=MESSAGES, headers={"x-api-key": "sk-planted-2"}).status == 401


def test_counts_in_every_chunk_as_vllm_sends_them(mock: RunningMock) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"prompt": "Hello, world!", "max_tokens": 3, "ignore_eos": True, "stream": True, "stream_options": options}
    *tokens, finish, last = ask(mock.port, body).events
    assert [event["usage"]["completion_tokens"] for event in tokens] == [1, 2, 3]
    assert {event["usage"]["prompt_tokens"] for event in tokens} == {4}
    assert finish["usage"] is None
    assert last["usage"]["completion_tokens"] == 3


def through_client(api: Api, fault: str | None, folder: Path) -> list[RequestRecord]:
    """Four requests of 8 tokens of that API."""
    workload = Workload(
        name="w",
        prompts=Prompts(input_tokens=4),
        output_tokens=8,
        load=Load(kind="closed", levels=(2,)),
        block=BlockSize(requests=4),
        api=api,
    )

    async def main() -> list[RequestRecord]:
        faults = (parse_fault(fault),) if fault else ()
        server = MockServer(QUICK, ServeOptions(faults=faults, send_log=folder / "log"))
        port = await server.start()
        endpoint = Endpoint(
            base_url=f"http://127.0.0.1:{port}/v1", model="mock", capabilities=Capabilities(ignore_eos=True)
        )
        requests = [prepare(endpoint, workload, i, i, f"Say {i} things.") for i in range(4)]
        try:
            timeouts = Timeouts(connect_s=20.0, request_s=60.0)
            return (await run_requests(endpoint, requests, ClosedLoop(2), timeouts=timeouts)).records
        finally:
            await server.stop()

    with loop_runner() as runner:
        records = runner.run(main())
    assert len(read_send_log(folder / "log")) == len(records) == 4
    return records


@pytest.mark.parametrize("api", ["completions", "chat", "responses", "messages"])
def test_the_client_reads_every_api(api: Api, tmp_path: Path) -> None:
    for record in through_client(api, None, tmp_path):
        assert record.error is None, record
        assert (record.input_tokens, record.output_tokens) == (4, 8)
        assert len(record.chunk_ns) == count_tokens(record.text) == 8


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("error_event", "stream_error"),
        ("error_first", "stream_error"),
        ("truncated", "truncated"),
        ("early_end", "truncated"),
        ("no_end", "truncated"),
        ("broken_json", "stream_error"),
        ("empty", "empty"),
        ("crlf", None),
        ("tight", None),
        ("comments", None),
        ("giant_line", None),
        ("split_utf8", None),
        ("role_first", None),
        ("empty_choices", None),
        ("no_usage", None),
        ("reasoning", None),
        ("tool_calls", None),
    ],
)
def test_faults_mean_the_same_in_every_api(api: Api, fault: str, error: ErrorKind | None, tmp_path: Path) -> None:
    for record in through_client(api, fault, tmp_path):
        assert record.error == error, record
        if error is None:
            # The name of a tool comes in an event of its own, where the API has one for it.
            assert len(record.chunk_ns) in ((8, 9) if fault == "tool_calls" else (8,))
        if fault == "reasoning":
            assert count_tokens(record.reasoning) == count_tokens(record.text) == 4
