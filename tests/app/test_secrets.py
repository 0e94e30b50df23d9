"""Secrets stay out of everything that a run writes and prints, whatever the server does with them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bakeoff.app.recompute import report
from bakeoff.cli.main import main
from bakeoff.cli.run import shown_command
from bakeoff.compare.view_redact import Cleaner
from bakeoff.runs import RunFolder

from .flow import experiment, mock_command

# Prints its environment and arguments, and answers every N-th request with an error that repeats all it knows.
_ECHO = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, every = int(sys.argv[1]), int(sys.argv[2])
print("env", dict(os.environ), sys.argv, flush=True)
print("escaped", json.dumps(dict(os.environ)), flush=True)
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0
    def log_message(self, *args): pass
    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        print("headers", dict(self.headers), flush=True)
        found = self.path in ("/health", "/v1/models")
        self.reply(200 if found else 404, "application/json", json.dumps({"data": [{"id": "m"}]}).encode())
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        Handler.asked += 1
        if Handler.asked % every == 0:
            keep = {k: v for k, v in os.environ.items() if "BAKEOFF_T" in k or "OTHER" in k}
            message = f"\\x1b[2J {keep} {dict(self.headers)} {sys.argv[3:]} {body}"
            self.reply(500, "application/json", json.dumps({"error": {"message": message}}).encode())
            return
        chunk = b'data: {"choices": [{"text": "a", "finish_reason": null}]}\\n\\n'
        self.reply(200, "text/event-stream", chunk * 4 + b"data: [DONE]\\n\\n")
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

_VALUES = {
    "BAKEOFF_T_BASE": "planted-base-1",
    "BAKEOFF_T_ENV": 'planted"env\\2',
    "BAKEOFF_T_HEADER": "planted-header-3",
    "BAKEOFF_T_BODY": "planted-body-4",
    "BAKEOFF_T_ARG": "planted-arg-5",
    "BAKEOFF_T_KEY": "planted-key-6",
    "OTHER_API_KEY": "planted-inherited-7",
}


def _leaks(text: str) -> list[str]:
    needles = {"planted", *_VALUES.values()}
    return [
        n for n in needles if n in text or json.dumps(n)[1:-1] in text or n.encode("unicode_escape").decode() in text
    ]


@pytest.mark.parametrize("every", [1, 4])
def test_no_secret_reaches_run_folder_reports_or_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], every: int
) -> None:
    for name, value in _VALUES.items():
        monkeypatch.setenv(name, value)
    script = tmp_path / "echo.py"
    script.write_text(_ECHO)
    candidate: dict[str, Any] = {
        "engine": "command",
        "command": [sys.executable, str(script), "{port}", str(every), "${BAKEOFF_T_ARG}"],
        "model": "m",
        "env": {"OWN": "${BAKEOFF_T_ENV}", "BAKEOFF_T_OWN": "${BAKEOFF_T_ENV}"},
        "headers": {"X-Note": "${BAKEOFF_T_HEADER}"},
        "api_key": "${BAKEOFF_T_KEY}",
        "body": {"metadata": {"tag": ["${BAKEOFF_T_BODY}"]}},
    }
    base = {"engine": "command", "command": mock_command(), "model": "mock", "env": {"B": "${BAKEOFF_T_BASE}"}}
    path = experiment(tmp_path, variants={"base": base, "flash": candidate})
    with pytest.raises(SystemExit):
        main(["run", str(path), "--runs", str(tmp_path / "runs")])
    shown = capsys.readouterr()
    assert _leaks(shown.out + shown.err) == []
    assert "\x1b[2J" not in shown.out + shown.err
    (head,) = (tmp_path / "runs").glob("*/run.json")
    folder = RunFolder.open(head.parent)
    for file in head.parent.rglob("*"):
        if file.is_file():
            assert _leaks(file.read_bytes().decode("utf-8", "replace")) == [], file.name
    logs = "".join(log.read_text() for log in head.parent.glob("logs/*flash*"))
    assert "escaped" in logs
    assert "***" in logs
    messages = [str(m) for block in folder.blocks() for m in block.columns["error_message"] if m]
    told = [*messages, folder.info.stop_reason or "", *(str(start) for start in folder.starts())]
    assert _leaks("".join(told)) == []
    assert any("HTTP 500" in text for text in told)
    for fmt in ("terminal", "html", "markdown", "json"):
        plain, redacted = (report(head.parent, fmt, redact=redact) for redact in (False, True))
        assert _leaks(plain + redacted) == []
        assert "HTTP 500: …" in redacted or "HTTP 500" not in plain
        assert "metadata" not in redacted.replace('"metadata"', "") or fmt == "html"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("flash failed: all failed (http): HTTP 500: my prompt → see", "flash failed: all failed (http): HTTP 500: …"),
        (
            "2 of 6 requests of a failed: http 2 (HTTP 400: my prompt); latencies are those of the rest",
            "2 of 6 requests of a failed: http 2 (HTTP 400: …); latencies are those of the rest",
        ),
        ("all failed: http 2 (HTTP 400: my prompt (x))", "all failed: http 2 (HTTP 400: …)"),
        (
            "x (HTTP 400: a); latencies are those of the rest my prompt); latencies are those of the rest",
            "x (HTTP 400: …); latencies are those of the rest",
        ),
        ("HTTP 200, but the answer is an error: my prompt", "HTTP 200, but the answer is an error: …"),
        (
            "the server reported an error inside the stream: my prompt",
            "the server reported an error inside the stream: …",
        ),
        ("broken event in the stream: no JSON: my prompt", "broken event in the stream: …"),
        ("the answer is not JSON; it starts 'my prompt'", "the answer is not JSON; it starts …"),
        (
            "not an event stream → check the base URL. It starts: my prompt",
            "not an event stream → check the base URL. It starts: …",
        ),
        (
            "endpoint that honours `stream: true`. It said: my prompt",
            "endpoint that honours `stream: true`. It said: …",
        ),
        ("the answer is not HTTP (bad): 'my prompt'", "the answer is not HTTP …"),
        ("HTTP 503", "HTTP 503"),
        ("all 6 rounds of the plan are measured", "all 6 rounds of the plan are measured"),
    ],
)
def test_redaction_cuts_what_a_server_said(text: str, kept: str) -> None:
    assert Cleaner(redact=True)(text) == kept
    assert Cleaner(redact=False)(text) == text


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--header", "Authorization: Bearer sk-1"], ["--header", "'…'"]),
        (["--header=Authorization: Bearer sk-1"], ["--header='…'"]),
        (["--header", "Authorization: sk-1 ${KEY}"], ["--header", "'…'"]),
        (["--header=Authorization: sk-1 ${KEY}"], ["--header='…'"]),
        (["--header", "Authorization: Bearer ${KEY}"], ["--header", "'Authorization: Bearer ${KEY}'"]),
        (["--header=X-Key: ${KEY}"], ["'--header=X-Key: ${KEY}'"]),
        (["--body", "user=me"], ["--body", "'…'"]),
        (["--body=user=me"], ["--body='…'"]),
        (["--body", "user=${ME}"], ["--body", "'user=${ME}'"]),
        (["--api-key", "sk-1"], ["--api-key", "'…'"]),
        (["--token=sk-1"], ["--token='…'"]),
        (["--api-key-env", "NAME", "--pairs", "6..20"], ["--api-key-env", "NAME", "--pairs", "6..20"]),
        (["--header", "--header", "x"], ["--header", "'…'", "x"]),
    ],
)
def test_the_saved_command_line_holds_no_secret(words: list[str], shown: list[str]) -> None:
    assert shown_command(["/usr/bin/bakeoff", "run", *words]) == ["bakeoff", "run", *shown]


@pytest.mark.parametrize(
    "text",
    [
        "cannot connect to unix:/run/user/ada/s.sock: refused",
        "unix:///home/ada/s.sock/v1 answers",
        "http+unix://%2Fhome%2Fada%2Fs.sock/v1 answers",
    ],
)
def test_redaction_leaves_no_path_of_a_socket(text: str) -> None:
    assert "ada" not in Cleaner(redact=True)(text)
    assert Cleaner(redact=False)(text) == text
