from __future__ import annotations

import json
from typing import Any

import pytest

from bakeoff.client import prepare
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
