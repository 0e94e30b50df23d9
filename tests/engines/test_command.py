from __future__ import annotations

import os
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from bakeoff.engines.command import ENGINE, fill
from bakeoff.engines.conformance import check_engine
from bakeoff.engines.probe import free_port
from bakeoff.errors import ConfigError, EngineError, ServerDied, ServerNotReady

from .conftest import context, fake_command, running, until, variant


def launched(tmp_path: Path, *options: str, **settings: Any) -> Any:
    return ENGINE.launch(variant("command", command=fake_command(*options), **settings), context(tmp_path))


def test_conformance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-77")
    settings = {"command": shlex.join(fake_command("--say", "${PLANTED_KEY}")), "api_key": "${PLANTED_KEY}"}
    check_engine(ENGINE, settings, tmp_path)
    assert "***" in (tmp_path / "0.log").read_text()


def test_phases_are_stamped_in_order(tmp_path: Path) -> None:
    told: list[str] = []
    command = fake_command("--ready-after", "0.3")
    server = ENGINE.launch(variant("command", command=command), context(tmp_path, on_phase=told.append))
    try:
        start = server.start
        assert told == ["spawned", "port", "ready"]
        assert start.spawn_ns is not None
        assert start.alive_ns is not None
        assert start.port_ns is not None
        assert start.ready_ns is not None
        assert start.spawn_ns < start.alive_ns < start.port_ns < start.ready_ns
        # The script's clock for `--ready-after` starts just before its port opens.
        assert start.ready_ns - start.port_ns > 0.2e9
        assert (start.log, start.round, start.group, start.variant) == ("logs/0.log", 2, 1, "flash")
        assert server.endpoint.model == "fake"
        assert server.pid is not None
        assert "fake_server.py" in " ".join(psutil.Process(server.pid).cmdline())
    finally:
        ended = server.stop()
    assert ended.stopped_ns is not None
    assert ended.exit_code is not None


def test_never_ready(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(ServerNotReady, match="HTTP 503") as caught:
        launched(
            tmp_path, "--ready-after", "999", "--say", "still loading", "--pids", str(pids), ready={"timeout": 1.5}
        )
    assert "still loading" in caught.value.log_tail
    assert caught.value.where == "variants.flash"
    assert not running(int(pids.read_text()))


def test_dies_at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-77")
    with pytest.raises(ServerNotReady, match="exited with code 3") as caught:
        launched(tmp_path, "--say", "bad key ${PLANTED_KEY}", "--exit", "3")
    assert "bad key ***" in str(caught.value)
    assert "sk-planted" not in (tmp_path / "logs" / "0.log").read_text()


def test_other_ready_status_and_path(tmp_path: Path) -> None:
    server = launched(tmp_path, "--health-status", "204", ready={"status": [200, 204]})
    server.stop()
    server = launched(tmp_path, ready={"path": "/v1/models"}, model="mine")
    assert server.endpoint.model == "mine"
    server.stop()


def test_port_in_use_is_refused_before_the_start(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(EngineError, match=f"port {port} .* in use") as caught:
            launched(tmp_path, "--pids", str(pids), port=port)
    assert caught.value.remedy
    assert not pids.exists()


def test_fixed_port_can_be_taken_again_at_once(tmp_path: Path) -> None:
    port = free_port()
    for _ in range(2):
        server = launched(tmp_path, port=port)
        assert server.endpoint.base_url == f"http://127.0.0.1:{port}/v1"
        server.stop()


def test_death_in_use_is_told_with_the_log(tmp_path: Path) -> None:
    server = launched(tmp_path, "--say", "last words")
    psutil.Process(server.pid).kill()
    assert until(lambda: not running(server.pid))

    def dead() -> bool:
        try:
            server.check()
        except ServerDied as error:
            return "signal 9" in str(error) and "last words" in error.log_tail
        return False

    assert until(dead)
    assert server.stop().exit_code == -9


def test_endpoint_error_after_the_start_leaves_no_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(EngineError, match="metrics path"):
        launched(tmp_path, "--pids", str(pids), metrics_path="/nowhere")
    assert not running(int(pids.read_text()))


def test_environment_and_folder_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-77")
    folder = tmp_path / "work"
    folder.mkdir()
    script = folder / "run.sh"
    script.write_text('#!/bin/sh\necho "$GREETING from $(pwd) with $HF_TOKEN and $N"\nexec "$@"\n')
    script.chmod(0o755)
    server = ENGINE.launch(
        variant(
            "command",
            command=["./run.sh", *fake_command()],
            cwd=str(folder),
            env={"GREETING": "hello", "HF_TOKEN": "${PLANTED_KEY}", "N": 3},
        ),
        context(tmp_path),
    )
    server.stop()
    assert f"hello from {folder.resolve()} with *** and 3" in (tmp_path / "logs" / "0.log").read_text()


def test_templates() -> None:
    assert fill("--port={port} {{x}} ${VAR} $${Y}", 81, "::1") == "--port=81 {x} ${VAR} $${Y}"
    assert fill("{host}", 81, "h") == "h"


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({}, ("command",)),
        ({"command": ""}, ("command",)),
        ({"command": 3}, ("command",)),
        ({"command": "python3 'x --port {port}"}, ("command",)),
        ({"command": "python3 serve --port 80"}, ("command",)),
        ({"command": "python3 --port {port} {prt}"}, ("command",)),
        ({"command": ["python3", "--port", "{port}", '{"a": 1}']}, ("command",)),
        ({"command": "no-such-program-at-all --port {port}"}, ("command",)),
        ({"command": "./missing --port {port}"}, ("command",)),
        ({"command": "python3 --api-key sk-literal --port {port}"}, ("command",)),
        ({"command": "python3 --api-key=sk-literal --port {port}"}, ("command",)),
        ({"command": "python3 {port}", "env": {"HF_TOKEN": "hf_literal"}}, ("env", "HF_TOKEN")),
        ({"command": "python3 {port}", "env": {"A=B": "x"}}, ("env", "A=B")),
        ({"command": "python3 {port}", "cwd": "/no/such/folder"}, ("cwd",)),
        ({"command": "python3 {port}", "port": 70000}, ("port",)),
        ({"command": "python3 {port}", "path": "v1"}, ("path",)),
        ({"command": "python3 {port}", "ready": {"path": "health"}}, ("ready", "path")),
        ({"command": "python3 {port}", "ready": {"status": "ok"}}, ("ready", "status")),
        ({"command": "python3 {port}", "ready": {"timeout": "soon"}}, ("ready", "timeout")),
        ({"command": "python3 {port}", "ready": {"timout": "1s"}}, ("ready", "timout")),
        ({"command": "python3 {port}", "ready": 3}, ("ready",)),
        ({"command": "python3 {port}", "stop_signal": "kill"}, ("stop_signal",)),
        ({"command": "python3 {port}", "comand": "x"}, ("comand",)),
    ],
)
def test_problems(settings: dict[str, Any], key: tuple[str, ...], tmp_path: Path) -> None:
    problems = ENGINE.problems(settings, tmp_path)
    assert [p.key for p in problems] == [key]
    assert "sk-literal" not in str(problems)
    assert "hf_literal" not in str(problems)
    with pytest.raises(ConfigError):
        ENGINE.launch(variant("command", **settings), context(tmp_path))


def test_good_settings_have_no_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-77")
    settings = {
        "command": f"{sys.executable} -m x --port {{port}} --api-key ${{PLANTED_KEY}} --config '{{{{\"a\": 1}}}}'",
        "env": {"A": "b", "N": 3, "API_TOKEN": "${PLANTED_KEY}"},
        "cwd": str(tmp_path),
        "ready": {"path": "/ready", "timeout": "2 min", "status": [200, 204]},
        "stop_timeout": "20s",
        "stop_signal": "int",
        "price": "free",
    }
    assert ENGINE.problems(settings, tmp_path) == []
    assert ENGINE.problems({"command": [os.path.basename(sys.executable), "x"], "port": 8000}, tmp_path) == []
