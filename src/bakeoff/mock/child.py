"""The mock in a child process: started, awaited, stopped, with its send log read back."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import ServerNotReady, TooFewData
from .latency import LatencyModel
from .sendlog import SendRecord, read_send_log

_KEY_VARIABLE = "BAKEOFF_MOCK_API_KEY"
_STOP_S = 5.0  # beyond the grace time of the server itself
_LONGEST_LINE = 4096
_LAST_TURN_S = 0.05


class RunningMock:
    """A mock that answers at `url` (without /v1) until the `running` block ends."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path, errors: Path) -> None:
        self.url = url
        self.base_url = f"{url}/v1"
        self.port = int(url.rpartition(":")[2])
        self.pid = process.pid
        self._process = process
        self._log, self._errors = log, errors
        self._kept: list[SendRecord] | None = None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def send_log(self, at_least: int = 0, *, timeout_s: float = 10.0) -> list[SendRecord]:
        """Records of the requests that have ended, in order of their ends; waits until there are `at_least`.

        A client that has read the end of an answer finds its record here. Raises TooFewData after the timeout.
        """
        if self._kept is not None:
            return self._kept
        self._catch_up(timeout_s)
        deadline = time.monotonic() + timeout_s
        while len(records := read_send_log(self._log)) < at_least:
            if time.monotonic() > deadline:
                raise TooFewData(
                    f"{len(records)} of {at_least} requests have ended after {timeout_s:g} s", where=self.url
                )
            time.sleep(0.01)
        return records

    def _catch_up(self, timeout_s: float) -> None:
        """Waits until the server has logged what it has sent: it answers a new request after that."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s) as connection:
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: mock\r\nConnection: close\r\n\r\n")
                while connection.recv(_LONGEST_LINE):
                    pass
        except OSError:  # it has ended, or nobody listens: a moment for its last turn
            time.sleep(_LAST_TURN_S)

    def stop(self) -> int:
        """Stops it (gracefully, then by force) and returns its exit code. Idempotent."""
        return _stop(self._process)

    def stderr(self) -> str:
        """What the server wrote to standard error: nothing, if all went well. Only within the block."""
        return self._errors.read_text("utf-8", "replace")

    def keep_log(self) -> None:
        """Reads the log for good: its file goes away with the block."""
        self._kept = read_send_log(self._log)


def _stop(process: subprocess.Popen[bytes]) -> int:
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
    if process.poll() is None:
        process.kill()
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return code


@contextmanager
def running(
    model: LatencyModel | None = None,
    *,
    faults: Sequence[str] = (),
    port: int = 0,
    model_name: str = "mock",
    api_key: str | None = None,
    metrics_dialect: str = "vllm",
    ready_timeout_s: float = 30.0,
) -> Iterator[RunningMock]:
    """Runs ``python -m bakeoff.mock`` in a child process and stops it at the end of the block.

    `faults` as for --fault. The child also stops when this process dies. The send log can still be read after the
    block. Raises ServerNotReady, with what the child wrote, when it does not listen in time (the model's start delay
    is added).
    """
    from .options import model_flags

    model = model or LatencyModel()
    with tempfile.TemporaryDirectory(prefix="bakeoff-mock-") as folder:
        log, errors = Path(folder, "send.jsonl"), Path(folder, "stderr")
        command = [sys.executable, "-m", "bakeoff.mock", "--stop-with-stdin", f"--port={port}", f"--send-log={log}"]
        command += [
            f"--model-name={model_name}",
            f"--metrics-dialect={metrics_dialect}",
            *model_flags(model),
            *(f"--fault={fault}" for fault in faults),
        ]
        environ = dict(os.environ)
        if api_key is not None:
            environ[_KEY_VARIABLE] = api_key
            command.append(f"--api-key-env={_KEY_VARIABLE}")
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environ
            )
        mock: RunningMock | None = None
        try:
            wait_s = ready_timeout_s + 2 * model.start_delay_s * model.scale
            mock = RunningMock(process, _await_line(process, wait_s, errors), log, errors)
            yield mock
        finally:
            _stop(process)
            if mock is not None:
                mock.keep_log()


def _await_line(process: subprocess.Popen[bytes], wait_s: float, errors: Path) -> str:
    """The URL of the line that says it listens."""
    assert process.stdout is not None  # noqa: S101  # for the type checker: it was asked for
    deadline, seen = time.monotonic() + wait_s, b""
    with selectors.DefaultSelector() as selector:  # select.select fails beyond 1,024 open files
        selector.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in seen and len(seen) < _LONGEST_LINE:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            data = os.read(process.stdout.fileno(), _LONGEST_LINE) if ready else b""
            if not data:
                break
            seen += data
    line = seen.partition(b"\n")[0].decode("utf-8", "replace")
    if line.startswith("listening on http://"):
        return line.removeprefix("listening on ").strip()
    tail = errors.read_text("utf-8", "replace").splitlines()[-20:]
    raise ServerNotReady(
        f"the mock did not listen within {wait_s:g} s",
        where="mock",
        remedy="look at its last lines; is the port free?",
        log_tail=[text[:500] for text in tail],
    )
