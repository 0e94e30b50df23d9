from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from bakeoff.engines.fetch import fetch
from bakeoff.engines.openai import ENGINE
from bakeoff.errors import ConfigError, EndpointError, EngineError, ServerDied
from bakeoff.model import Server

from .conftest import Site, context, variant


def reached(site: Site, tmp_path: Path, **settings: Any) -> Server:
    return ENGINE.launch(variant("openai", url=site.url, **settings), context(tmp_path))


def models(*names: str, owner: str = "somebody") -> tuple[int, Any]:
    return 200, {"object": "list", "data": [{"id": name, "owned_by": owner} for name in names]}


def test_unknown_server_with_one_model(site: Site, tmp_path: Path) -> None:
    site.routes["/v1/models"] = models("only")
    server = reached(site, tmp_path)
    assert server.endpoint.base_url == f"{site.url}/v1"
    assert server.endpoint.model == "only"
    assert (server.pid, server.start.spawn_ns, server.start.round) == (None, None, 2)
    assert not server.endpoint.capabilities.ignore_eos
    assert server.endpoint.capabilities.tokenizer is None
    assert server.fingerprint() == {"engine": "openai", "server": "unknown", "model": "only"}
    server.check()
    assert server.stop() == server.stop() == server.start


def test_llamacpp_is_recognised(site: Site, tmp_path: Path) -> None:
    site.headers["Server"] = "llama.cpp"
    site.routes |= {
        "/v1/models": models("tiny.gguf", owner="llamacpp"),
        "/props": (200, {"default_generation_settings": {"n_ctx": 512, "params": {"top_k": 40}}, "total_slots": 2}),
        "/tokenize": (200, lambda sent: {"tokens": [1] if sent.get("content") else []}),
        "/metrics": (200, "# TYPE x counter\nx 1\n"),
    }
    server = reached(site, tmp_path, model="another name")  # one model under any name
    found = server.endpoint.capabilities
    assert (found.ignore_eos, found.tokenizer, found.metrics_path) == (True, "llamacpp", "/metrics")
    assert found.cache_off == {"cache_prompt": False}
    assert server.start.effective_config == {"total_slots": 2, "n_ctx": 512, "sampling_defaults": {"top_k": 40}}


def test_vllm_is_recognised_and_its_model_names_are_strict(site: Site, tmp_path: Path) -> None:
    site.routes |= {
        "/v1/models": models("big-model", owner="vllm"),
        "/version": (200, {"version": "0.32.0"}),
        "/tokenize": (200, lambda sent: {"count": 1, "tokens": [1]} if sent.get("prompt") else {}),
    }
    server = reached(site, tmp_path)
    assert server.endpoint.capabilities.ignore_eos
    assert server.endpoint.capabilities.tokenizer == "vllm"
    assert server.endpoint.capabilities.metrics_path is None
    assert server.fingerprint()["version"] == "0.32.0"
    with pytest.raises(EndpointError, match="did you mean 'big-model'"):
        reached(site, tmp_path, model="big-modle")


COUNTS = {"stream_options": {"continuous_usage_stats": True}}


@pytest.mark.parametrize(
    ("owner", "version", "setting", "expected"),
    [
        ("vllm", "0.32.0", None, COUNTS),
        ("vllm", "0.5.4", None, {}),  # it may refuse a field that it does not know
        ("vllm", "dev", None, {}),
        ("vllm", "0.5.4", True, COUNTS),
        ("vllm", "0.32.0", False, {}),
        ("sglang", None, None, COUNTS),
        ("llamacpp", None, None, {}),
        ("llamacpp", None, True, {"timings_per_token": True}),
        ("bakeoff", None, None, {}),
        ("somebody", None, None, {}),
        ("somebody", None, True, COUNTS),
    ],
)
def test_tokens_of_each_chunk_are_asked_for_where_they_may_be_several(
    site: Site, tmp_path: Path, owner: str, version: str | None, setting: bool | None, expected: dict[str, Any]
) -> None:
    site.routes["/v1/models"] = models("m", owner=owner)
    if version is not None:
        site.routes["/version"] = (200, {"version": version})
    if owner == "llamacpp":
        site.routes["/props"] = (200, {"default_generation_settings": {}})
    more = {} if setting is None else {"chunk_counts": setting}
    assert reached(site, tmp_path, **more).endpoint.capabilities.chunk_counts == expected


def test_time_outs_of_each_phase_reach_the_endpoint(site: Site, tmp_path: Path) -> None:
    site.routes["/v1/models"] = models("m")
    endpoint = reached(site, tmp_path, first_byte_timeout="3s", idle_timeout="500ms").endpoint
    assert (endpoint.first_byte_timeout_s, endpoint.idle_timeout_s, endpoint.request_timeout_s) == (3.0, 0.5, 600.0)
    assert reached(site, tmp_path).endpoint.idle_timeout_s is None


def test_settings_win_over_what_is_found(site: Site, tmp_path: Path) -> None:
    site.routes["/v1/models"] = models("a", "b")
    server = reached(site, tmp_path, model="c", ignore_eos="true", tokenizer="none", stream_usage=False)
    assert server.endpoint.model == "c"  # providers accept aliases that they do not list
    assert server.endpoint.capabilities.ignore_eos
    assert not server.endpoint.capabilities.stream_usage
    assert not [path for path, _, _ in site.seen if path == "/tokenize"]


def test_missing_model_list_is_tolerated_when_the_model_is_named(site: Site, tmp_path: Path) -> None:
    assert reached(site, tmp_path, model="m").endpoint.model == "m"
    with pytest.raises(EndpointError, match="does not say which models"):
        reached(site, tmp_path)


def test_several_models_need_a_choice(site: Site, tmp_path: Path) -> None:
    site.routes["/v1/models"] = models("a", "b")
    with pytest.raises(EndpointError, match="serves 2 models: a, b"):
        reached(site, tmp_path)


@pytest.mark.parametrize("data", ["<html>", {"data": "x"}, {"data": [1, {"id": 3}, None]}, [], "null"])
def test_odd_model_lists_are_no_list(site: Site, tmp_path: Path, data: Any) -> None:
    site.routes["/v1/models"] = (200, data)
    assert reached(site, tmp_path, model="m").endpoint.model == "m"


@pytest.mark.parametrize(
    ("status", "says"), [(401, "a key is needed"), (403, "a key"), (500, "500"), (429, "limits"), (301, "redirected")]
)
def test_refusals_are_explained(site: Site, tmp_path: Path, status: int, says: str) -> None:
    site.routes["/v1/models"] = (status, {})
    with pytest.raises(EndpointError, match=says) as caught:
        reached(site, tmp_path, model="m")
    assert caught.value.where == f"{site.url}/v1/models"
    assert caught.value.remedy


def test_explicit_choices_that_do_not_work_are_errors(site: Site, tmp_path: Path) -> None:
    site.routes["/v1/models"] = models("m")
    with pytest.raises(EndpointError, match="tokenize"):
        reached(site, tmp_path, tokenizer="vllm")
    with pytest.raises(EndpointError, match="metrics path answers HTTP 404"):
        reached(site, tmp_path, metrics_path="/other")


def test_key_is_sent_and_shown_nowhere(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-0123")
    site.routes["/v1/models"] = models("sk-planted-0123-model")  # a server that echoes what it should not
    server = reached(site, tmp_path, api_key="${PLANTED_KEY}", headers={"x-team": "speed"})
    assert site.seen[0][1]["authorization"] == "Bearer sk-planted-0123"
    assert site.seen[0][1]["x-team"] == "speed"
    for text in (repr(server.endpoint.headers is None), str(server.fingerprint()), repr(server.start)):
        assert "sk-planted" not in text
    site.routes["/v1/models"] = (301, {})
    site.headers["Location"] = "http://elsewhere/?key=sk-planted-0123"
    with pytest.raises(EndpointError) as caught:
        reached(site, tmp_path, api_key="${PLANTED_KEY}")
    assert "sk-planted" not in str(caught.value)


def test_nothing_listens(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EndpointError, match="refused") as caught:
            ENGINE.launch(variant("openai", url=url, model="m"), context(tmp_path))
    assert url in str(caught.value)


def _raw_server(reply: bytes) -> tuple[socket.socket, threading.Thread]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(reply)

    thread = threading.Thread(target=serve)
    thread.start()
    return listener, thread


@pytest.mark.parametrize(
    ("scheme", "reply", "says"),
    [
        ("http", b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        ("http", b"", "closed the connection"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "TLS failed"),
    ],
)
def test_what_is_not_http_is_told_apart(tmp_path: Path, scheme: str, reply: bytes, says: str) -> None:
    listener, thread = _raw_server(reply)
    try:
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(EndpointError, match=says):
            ENGINE.launch(variant("openai", url=url, model="m"), context(tmp_path))
    finally:
        thread.join()
        listener.close()


def test_bodies_are_bounded(site: Site) -> None:
    site.routes["/big"] = (200, "x" * 100_000)
    assert len(fetch(f"{site.url}/big", limit=1000).body) == 1000


def test_unsendable_header_does_not_show_its_value(site: Site) -> None:
    with pytest.raises(EndpointError) as caught:
        fetch(site.url, headers={"X": "sk-planted\r\nY: z"})
    assert "sk-planted" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_running_process_may_be_named(site: Site, tmp_path: Path) -> None:
    site.routes["/v1/models"] = models("m")
    server = reached(site, tmp_path, pid=os.getpid())
    assert server.pid == os.getpid()
    server.check()
    with pytest.raises(EngineError, match="no process"):
        reached(site, tmp_path, pid=2**31 - 5)


def test_end_of_the_named_process_is_told(site: Site, tmp_path: Path) -> None:
    import subprocess
    import sys

    site.routes["/v1/models"] = models("m")
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    server = reached(site, tmp_path, pid=child.pid)
    child.communicate()
    with pytest.raises(ServerDied):
        server.check()


def test_problems_without_starting_anything(tmp_path: Path) -> None:
    assert ENGINE.problems({"url": "http://127.0.0.1:1", "model": "m"}, tmp_path) == []
    keys = {p.key for p in ENGINE.problems({"url": "http://h", "api_kee": "x", "pid": 7}, tmp_path)}
    assert keys == {("api_kee",), ("pid",)}
    with pytest.raises(ConfigError, match="NO_SUCH_VARIABLE"):
        ENGINE.launch(variant("openai", url="http://h", api_key="${NO_SUCH_VARIABLE}"), context(tmp_path))


def test_the_endpoint_carries_every_secret_of_the_variant(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_BODY", "in-the-body")
    monkeypatch.setenv("PLANTED_TOKEN", "inherited-by-name")
    site.routes["/v1/models"] = models("only")
    site.routes["/props"] = (
        200,
        {"default_generation_settings": {"params": {"mode": "in-the-body"}}, "build_info": "in-the-body"},
    )
    server = reached(site, tmp_path, body={"metadata": [{"tag": "x ${PLANTED_BODY}"}]})
    assert {"in-the-body", "inherited-by-name"} <= set(server.endpoint.secrets)
    shown = f"{server.endpoint!r}{server.start}{server.fingerprint()}"
    assert "in-the-body" not in shown
    assert "inherited-by-name" not in shown
    assert "***" in shown
