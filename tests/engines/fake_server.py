"""A small OpenAI-compatible server for the tests, with bad habits on request. Run as a script."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SLEEPER = [sys.executable, "-S", "-c", "import time\nwhile True: time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-S",
    "-c",
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)",
]


def detach(argv: list[str], pids: Path) -> None:
    """Starts a process that leaves session, group and parent, as daemons do."""
    middle = os.fork()
    if middle == 0:
        os.setsid()
        child = subprocess.Popen(argv)
        with pids.open("a") as file:
            file.write(f"{child.pid}\n")
        os._exit(0)
    os.waitpid(middle, 0)


class Handler(BaseHTTPRequestHandler):
    ready_at = 0.0
    health_status = 200
    served = "fake"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int, data: Any) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/health":
            ready = time.monotonic() >= self.ready_at
            self.answer(self.health_status if ready else 503, {})
        elif self.path == "/v1/models":
            self.answer(200, {"data": [{"id": self.served, "owned_by": "somebody"}]})
        else:
            self.answer(404, {"error": "no such path"})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        body = json.loads(self.rfile.read(length))
        if self.path != "/v1/completions":
            self.answer(404, {"error": "no such path"})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        count = body["max_tokens"]
        for _ in range(count):
            self.event({"choices": [{"index": 0, "text": " word"}]})
        self.event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": count}})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, data: Any) -> None:
        self.wfile.write(b"data: " + json.dumps(data).encode() + b"\n\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--served", default="fake")
    parser.add_argument("--ready-after", type=float, default=0.0)
    parser.add_argument("--health-status", type=int, default=200)
    parser.add_argument("--say", default="")
    parser.add_argument("--pids", type=Path, help="file that takes the pids of all processes started here")
    parser.add_argument("--children", action="store_true")
    parser.add_argument("--stubborn", action="store_true")
    parser.add_argument("--exit", type=int)
    options = parser.parse_args()
    if options.say:
        sys.stdout.write(options.say + "\n")
        sys.stdout.flush()
    if options.pids:
        options.pids.write_text(f"{os.getpid()}\n")
    if options.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.children:
        argv = STUBBORN if options.stubborn else SLEEPER
        child = subprocess.Popen(argv)
        with options.pids.open("a") as file:
            file.write(f"{child.pid}\n")
        detach(argv, options.pids)
    if options.exit is not None:
        sys.exit(options.exit)
    Handler.ready_at = time.monotonic() + options.ready_after
    Handler.health_status = options.health_status
    Handler.served = options.served
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
