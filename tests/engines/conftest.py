"""Shared by the tests of the engines."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from bakeoff.model import StartContext, Variant

FAKE_SERVER = Path(__file__).with_name("fake_server.py")


def fake_command(*options: str) -> list[str]:
    """The command line of the fake server, port still to be filled in."""
    return [sys.executable, str(FAKE_SERVER), "--port", "{port}", *options]


def context(folder: Path, start_id: int = 0, **more: Any) -> StartContext:
    """A start context whose log lies in the folder."""
    return StartContext(
        log_path=folder / "logs" / f"{start_id}.log",
        log_name=f"logs/{start_id}.log",
        start_id=start_id,
        round=2,
        group=1,
        **more,
    )


def variant(engine: str, **settings: Any) -> Variant:
    """A variant named ``flash``."""
    return Variant(name="flash", engine=engine, settings=settings)


def running(pid: int) -> bool:
    """Whether a process with that pid runs (a zombie does not)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> bool:
    """Polls until the condition holds; False if it never does. Generous, since machines are busy."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Site:
    """An HTTP server in this process: path → (status, JSON or text) for GET and POST; keeps what it was sent."""

    def __init__(self) -> None:
        self.routes: dict[str, tuple[int, Any]] = {}
        self.headers: dict[str, str] = {}  # of every answer
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, sent: Any) -> None:
                site.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, sent))
                status, data = site.routes.get(self.path, (404, {"error": "not found"}))
                if callable(data):
                    data = data(sent)
                body = data.encode() if isinstance(data, str) else json.dumps(data).encode()
                self.send_response(status)
                for name, value in site.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()
