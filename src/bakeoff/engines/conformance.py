"""What every engine must do, as a suite of assertions that a plugin's author can run in a test.

::

    from bakeoff.engines.conformance import check_engine

    def test_conformance(tmp_path):
        check_engine(ENGINE, {"model": "tiny.bin"}, tmp_path)
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ServerDied
from ..model import Endpoint, Engine, Server, Start, StartContext, Variant
from .fetch import fetch, way_to
from .secrets import secrets_of

_TOKENS = 4
_LINES = 10_000


def _require(condition: object, message: str) -> None:
    """An assertion that also holds under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def check_engine(engine: Engine, settings: Mapping[str, Any], tmp_path: Path) -> None:
    """Starts the engine twice with valid settings and checks the seam; AssertionError says what does not hold.

    Checked: problems() finds none, and finds an unknown key with its path; launch() gives a ready server whose phases
    are in order; the endpoint lists its model (or has no list) and streams a completion; check() is silent while it
    runs and raises ServerDied after a stop; pid, fingerprint and start hold no secret; the fingerprint is the same
    for two starts; stop() leaves no process and can be called twice.
    """
    import psutil

    problems = list(engine.problems(settings, tmp_path))
    _require(not problems, f"problems() complains about valid settings: {problems}")
    unknown = list(engine.problems({**settings, "no_such_setting": 1}, tmp_path))
    _require(any(p.key == ("no_such_setting",) for p in unknown), "problems() does not find an unknown setting")

    prints = []
    for start_id in (0, 1):
        with _running(engine, settings, tmp_path, start_id) as server:
            tree = _tree(server.pid)
            _require(server.pid is None or tree, "pid does not name a running process")
            server.check()
            _check_start(server.start, start_id, started=server.pid is not None)
            _check_endpoint(server.endpoint)
            prints.append(server.fingerprint())
            _check_secrets(server, secrets_of(dict(settings), os.environ))
            tree = [*tree, *_tree(server.pid)]
            owned = server.start.spawn_ns is not None
            ended = server.stop()
            _require(server.stop() == ended, "stop() is not idempotent")
            if owned:
                _require(ended.stopped_ns is not None, "stop() does not stamp stopped_ns")
                left = [p for p in tree if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
                _require(not left, f"stop() leaves processes: {left}")
                _check_death_is_told(server)
    _require(prints[0] == prints[1], f"the fingerprint changes from start to start: {prints[0]} / {prints[1]}")


@contextmanager
def _running(engine: Engine, settings: Mapping[str, Any], tmp_path: Path, start_id: int) -> Iterator[Server]:
    phases: list[str] = []
    context = StartContext(
        log_path=tmp_path / f"{start_id}.log",
        log_name=f"logs/{start_id}.log",
        start_id=start_id,
        round=0,
        group=0,
        on_phase=phases.append,
    )
    server = engine.launch(Variant(name="variant", engine=engine.name, settings=dict(settings)), context)
    try:
        _require(phases and phases[-1] == "ready", f"on_phase is not told 'ready' last: {phases}")
        yield server
    finally:
        server.stop()


def _tree(pid: int | None) -> list[Any]:
    import psutil

    if pid is None:
        return []
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _check_start(start: Start, start_id: int, *, started: bool) -> None:
    _require((start.id, start.variant) == (start_id, "variant"), "start does not carry the context's id and variant")
    stamps = [start.spawn_ns, start.alive_ns, start.port_ns, start.ready_ns]
    seen = [stamp for stamp in stamps if stamp is not None]
    _require(seen == sorted(seen), f"the phases are out of order: {stamps}")
    if started and start.spawn_ns is not None:
        _require(start.ready_ns is not None, "a server that was started has no ready_ns")
        _require(start.log, "a server that was started has no log")


def _check_endpoint(endpoint: Endpoint) -> None:
    _require(not endpoint.base_url.endswith("/"), "base_url ends with a slash")
    models = fetch(f"{endpoint.base_url}/models", headers=endpoint.headers)
    _require(models.status in (200, 404), f"/models answers HTTP {models.status}")
    events = list(_stream(endpoint))
    content = [e for e in events if e != "[DONE]" and any(c.get("text") for c in json.loads(e).get("choices", []))]
    _require(content, "a completion streams no text")
    _require(events[-1] == "[DONE]", "the stream does not end with [DONE]")
    usage = [u for e in events if e != "[DONE]" and (u := json.loads(e).get("usage"))]
    tokens = usage[-1].get("completion_tokens") if usage else None
    if endpoint.capabilities.stream_usage:
        _require(tokens, "stream_usage is promised, but there is no usage")
    if endpoint.capabilities.ignore_eos:
        _require(tokens in (None, _TOKENS), f"ignore_eos is promised, but {tokens} tokens came instead of {_TOKENS}")


def _stream(endpoint: Endpoint) -> Iterator[str]:
    """The data of each server-sent event of one short streamed completion."""
    way = way_to(f"{endpoint.base_url}/completions", endpoint.request_timeout_s)
    body = {"model": endpoint.model, "prompt": "one two three", "max_tokens": _TOKENS, "stream": True, "temperature": 0}
    if endpoint.capabilities.ignore_eos:
        body["ignore_eos"] = True
    if endpoint.capabilities.stream_usage:
        body["stream_options"] = {"include_usage": True}
    headers = {**way.headers, "Content-Type": "application/json", **endpoint.headers}
    try:
        way.connection.request("POST", way.target, json.dumps({**endpoint.body, **body}), headers)
        response = way.connection.getresponse()
        if response.status != 200:
            raise AssertionError(f"a completion answers HTTP {response.status}: {response.read(300)!r}")
        for _ in range(_LINES):
            line = response.readline(1 << 20)
            if not line:
                return
            if line.startswith(b"data:"):
                yield line[5:].strip().decode()
    finally:
        way.connection.close()


def _check_secrets(server: Server, secrets: frozenset[str]) -> None:
    texts = [json.dumps(server.fingerprint()), repr(server.start), repr(server.endpoint), repr(server)]
    for text in texts:
        _require(not any(s in text for s in secrets if len(s) >= 4), "a secret shows in the fingerprint, start or repr")


def _check_death_is_told(server: Server) -> None:
    try:
        server.check()
    except ServerDied:
        return
    raise AssertionError("check() does not raise ServerDied after the process has ended")
