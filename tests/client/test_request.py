from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bakeoff.client import Place, prepare, prepare_at
from bakeoff.errors import UsageError
from bakeoff.model import BlockSize, Capabilities, Endpoint, Load, Prompts, Sampling, Workload


def workload(**more: Any) -> Workload:
    settings: dict[str, Any] = {
        "name": "w",
        "prompts": Prompts(input_tokens=8),
        "output_tokens": 16,
        "load": Load(kind="closed", levels=(1,)),
        "block": BlockSize(requests=2),
    }
    return Workload(**(settings | more))


def body(endpoint: Endpoint, w: Workload, prompt: str | list[int] = "hi") -> dict[str, Any]:
    decoded = json.loads(prepare(endpoint, w, 3, 7, prompt).body)
    assert isinstance(decoded, dict)
    return decoded


def endpoint(**more: Any) -> Endpoint:
    return Endpoint(base_url="http://h/v1", model="m", **more)


def test_completions() -> None:
    request = prepare(endpoint(), workload(), 3, 7, "hi")
    assert (request.index, request.prompt_id, request.path, request.prompt) == (3, 7, "/completions", "hi")
    assert json.loads(request.body) == {
        "model": "m",
        "prompt": "hi",
        "max_tokens": 16,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
    }


def test_chat() -> None:
    request = prepare(endpoint(), workload(api="chat"), 0, 0, "hé")
    assert request.path == "/chat/completions"
    assert json.loads(request.body)["messages"] == [{"role": "user", "content": "hé"}]
    assert "prompt" not in json.loads(request.body)


def test_token_ids() -> None:
    request = prepare(endpoint(), workload(), 0, 0, [1, 2])
    assert request.prompt is None
    assert json.loads(request.body)["prompt"] == [1, 2]
    with pytest.raises(UsageError, match="token ids"):
        prepare(endpoint(), workload(api="chat"), 0, 0, [1, 2])


def test_sampling_is_sent_as_set() -> None:
    sent = body(endpoint(), workload(sampling=Sampling(temperature=0.7, top_p=0.9, top_k=40, seed=5)))
    assert (sent["temperature"], sent["top_p"], sent["top_k"], sent["seed"]) == (0.7, 0.9, 40, 5)


@pytest.mark.parametrize(
    ("length", "can", "sent"), [("fixed", True, True), ("fixed", False, False), ("natural", True, False)]
)
def test_ignore_eos_only_for_a_fixed_length_where_the_server_can(length: str, can: bool, sent: bool) -> None:
    fields = body(endpoint(capabilities=Capabilities(ignore_eos=can)), workload(length=length))
    assert ("ignore_eos" in fields) is sent


def test_stream_usage_only_where_the_server_can() -> None:
    assert "stream_options" not in body(endpoint(capabilities=Capabilities(stream_usage=False)), workload())


def test_cache_is_switched_off_for_unique_prompts_only() -> None:
    e = endpoint(capabilities=Capabilities(cache_off={"cache_prompt": False}))
    assert body(e, workload())["cache_prompt"] is False
    assert "cache_prompt" not in body(e, workload(cache="shared"))
    assert "cache_prompt" not in body(e, workload(cache="declared"))


def test_every_chunk_counts_where_the_server_can() -> None:
    can = Capabilities(chunk_counts={"stream_options": {"continuous_usage_stats": True}})
    sent = body(endpoint(capabilities=can), workload())
    assert sent["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert can.chunk_counts == {"stream_options": {"continuous_usage_stats": True}}
    silent = Capabilities(chunk_counts=can.chunk_counts, stream_usage=False)
    assert "stream_options" not in body(endpoint(capabilities=silent), workload())
    assert "stream_options" not in body(endpoint(capabilities=can), workload(api="messages"))
    assert "stream_options" not in body(endpoint(capabilities=can), workload(api="responses"))


CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "hé"}, {"type": "image_url", "image_url": {"url": "http://i"}}],
    },
    {
        "role": "assistant",
        "content": "ok",
        "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"a":1}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
]


def sent_as(api: str, prompt: Any) -> tuple[str, dict[str, Any]]:
    request = prepare(endpoint(), workload(api=api), 0, 0, prompt)
    assert request.api == api
    return request.path, json.loads(request.body)


def test_responses() -> None:
    path, sent = sent_as("responses", "hé")
    assert path == "/responses"
    assert sent == {
        "model": "m",
        "input": "hé",
        "max_output_tokens": 16,
        "stream": True,
        "temperature": 0.0,
        "store": False,
    }
    assert sent_as("responses", CHAT)[1]["input"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "hé"},
                {"type": "input_image", "image_url": "http://i", "detail": "auto"},
            ],
        },
        {"role": "assistant", "content": "ok"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
    ]


def test_messages() -> None:
    path, sent = sent_as("messages", "hé")
    assert path == "/messages"
    assert sent == {
        "model": "m",
        "messages": [{"role": "user", "content": "hé"}],
        "max_tokens": 16,
        "stream": True,
        "temperature": 0.0,
    }
    sent = sent_as("messages", [*CHAT, {"role": "developer", "content": "Stay."}])[1]
    assert sent["system"] == "Be brief.\n\nStay."
    assert sent["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hé"},
                {"type": "image", "source": {"type": "url", "url": "http://i"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "42"}]},
    ]


def test_an_image_in_the_text_of_a_message_becomes_a_source() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}}
    (message,) = sent_as("messages", [{"role": "user", "content": [part]}])[1]["messages"]
    assert message["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}}
    ]


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_token_ids_are_for_completions_only(api: str) -> None:
    with pytest.raises(UsageError, match="token ids") as caught:
        prepare(endpoint(), workload(api=api), 0, 0, [1, 2])
    assert caught.value.where == "workloads.w"


@pytest.mark.parametrize(
    ("api", "extra", "asked"),
    [
        ("completions", {}, 16),
        ("responses", {}, 16),
        ("chat", {"max_tokens": None, "max_completion_tokens": 64}, 64),
        ("chat", {"max_tokens": None}, None),
        ("responses", {"max_output_tokens": 8}, 8),
    ],
)
def test_the_limit_that_is_sent(api: str, extra: dict[str, Any], asked: int | None) -> None:
    assert prepare(endpoint(body=extra), workload(api=api), 0, 0, "hi").asked_output_tokens == asked


def test_a_place_in_a_conversation() -> None:
    place = Place(
        index=5, prompt_id=9, output_tokens=3, input_tokens=40, conversation=2, turn=1, think_ns=7_000, history=_after
    )
    request = prepare_at(endpoint(), workload(api="chat"), "first", place)
    assert (request.index, request.prompt_id, request.conversation, request.turn) == (5, 9, 2, 1)
    assert (request.think_ns, request.asked_input_tokens, request.asked_output_tokens) == (7_000, 40, 3)
    assert json.loads(request.body)["max_tokens"] == 3
    assert request.build is not None
    encoded, shown = request.build(["yes"])
    sent = json.loads(encoded)
    assert sent["messages"] == _after(["yes"])
    assert json.loads(shown or "") == sent["messages"]
    assert {k: v for k, v in sent.items() if k != "messages"} == {
        k: v for k, v in json.loads(request.body).items() if k != "messages"
    }


def _after(answers: Sequence[str]) -> list[int] | list[dict[str, Any]] | str:
    return [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": answers[0]},
        {"role": "user", "content": "then"},
    ]


def test_the_endpoints_body_wins_merges_and_removes() -> None:
    extra = {
        "max_tokens": None,
        "max_completion_tokens": 64,
        "stream_options": {"continuous_usage_stats": True},
        "temperature": 1.0,
        "absent": None,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    sent = body(endpoint(body=extra), workload())
    assert "max_tokens" not in sent
    assert "absent" not in sent
    assert sent["max_completion_tokens"] == 64
    assert sent["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert sent["temperature"] == 1.0
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert extra["stream_options"] == {"continuous_usage_stats": True}  # the endpoint is not changed
