"""A supervised server process: started through the guard, logged, watched, and stopped with its whole tree."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from ..errors import EngineError, printable
from .secrets import Redactor

if TYPE_CHECKING:
    import psutil

LOG_LIMIT = 64 * 1024 * 1024  # bytes per start
_LINE_LIMIT = 64 * 1024  # bytes of one line that are kept
_TAIL_LINES = 40
_TAIL_WIDTH = 500  # characters
_SPAWN_LIMIT_S = 30.0  # the guard's own start-up on a very busy machine
_GUARD_MARGIN_S = 15.0  # beyond the grace time: leftovers (2 s) and SIGKILL (10 s)


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """What to start. `env` is the complete environment; it may hold secrets, so it is hidden and never logged."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path | None = None
    log_path: Path
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
    log_limit: int = LOG_LIMIT


class _Log:
    """Copies a server's output into its log file line by line, cleaned; keeps the last lines in memory."""

    def __init__(self, source: IO[bytes], spec: ProcessSpec) -> None:
        self._source = source
        self._redactor = spec.redactor
        self._limit = spec.log_limit
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        spec.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._file = spec.log_path.open("ab")
        self._written = self._file.tell()
        self._full = False
        self.thread = threading.Thread(target=self._pump, name="bakeoff-log", daemon=True)
        self.thread.start()

    def _pump(self) -> None:
        with self._file, self._source:
            while line := self._source.readline(_LINE_LIMIT):
                truncated = not line.endswith(b"\n") and len(line) >= _LINE_LIMIT
                self._keep(line, truncated)
                while truncated:  # the rest of an endless line is read and dropped: the server must not block
                    rest = self._source.readline(_LINE_LIMIT)
                    truncated = bool(rest) and not rest.endswith(b"\n")

    def _keep(self, raw: bytes, truncated: bool) -> None:
        text = self._redactor.clean(raw.decode("utf-8", "replace").rstrip("\r\n"))
        if truncated:
            # The cut may go through a secret; what it leaves is shorter than the longest one.
            text = text[: len(text) - self._redactor.longest] + " … [line truncated]"
        if (whole := self._redactor.clean(plain := printable(text))) != plain:
            text = whole  # colours had stood in the middle of a secret
        shown = printable(text.rpartition("\r")[2])  # of a progress bar only its last state
        if shown.strip():
            self.tail.append(shown if len(shown) <= _TAIL_WIDTH else shown[:_TAIL_WIDTH] + " …")
        if self._full:
            return
        line = text.encode() + b"\n"
        if self._written + len(line) > self._limit:
            self._full = True
            line = f"[bakeoff] log limit of {self._limit} bytes reached; later output is not kept\n".encode()
        self._written += len(line)
        # A full disk must not stop the pump: the server would block on its pipe, in the middle of a measurement.
        with contextlib.suppress(OSError):
            self._file.write(line)
            self._file.flush()


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """How a process ended. `exit_code`: negative for a signal, None if unknown. `left`: pids that even SIGKILL left."""

    exit_code: int | None
    forced: bool
    stopped_ns: int
    left: tuple[int, ...] = ()


class ServerProcess:
    """A running server process with everything that descends from it.

    Raises EngineError when it cannot be started. `pid` is the server's own process (not the guard's), the root of the
    tree that telemetry looks at. When this object is collected, or Python ends normally, by an exception or by
    ``kill -9``, the guard ends the tree.
    """

    def __init__(self, spec: ProcessSpec) -> None:
        self._lock = threading.RLock()
        self._pending = b""
        self._messages: dict[str, Any] = {}
        self._stopped: Stopped | None = None
        guard = Path(__file__).with_name("servers") / "guard.py"
        self._guard = subprocess.Popen(
            [sys.executable, "-P", str(guard)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a Ctrl-C in the terminal is for Bakeoff, which then stops its servers in order
        )
        self._control, self._status, output = (
            cast("IO[bytes]", pipe) for pipe in (self._guard.stdin, self._guard.stdout, self._guard.stderr)
        )
        self._finalizer = weakref.finalize(self, _abandon, self._guard)
        try:
            # The buffered reader gives whole lines; the raw pipe would give fragments.
            self._log = _Log(os.fdopen(os.dup(output.fileno()), "rb"), spec)
            output.close()
            self._begin(spec)
        except BaseException:
            self._finalizer()
            raise

    def _begin(self, spec: ProcessSpec) -> None:
        self._token = uuid.uuid4().hex
        order = {
            "argv": list(spec.argv),
            "env": dict(spec.env),
            "cwd": str(spec.cwd) if spec.cwd else None,
            "token": self._token,
        }
        self._tell(order)
        deadline = time.monotonic() + _SPAWN_LIMIT_S
        while not self._messages.keys() & {"pid", "error"} and self._read(max(0.0, deadline - time.monotonic())):
            pass
        program = spec.redactor.clean(spec.argv[0])
        if "pid" not in self._messages:
            reason = spec.redactor.clean(str(self._messages.get("error", "the guard process did not answer")))
            raise EngineError(
                f"cannot start {program!r}: {reason}",
                remedy="check that the program is installed, on the PATH and executable, and that its folder exists",
            )
        self.pid: int = self._messages["pid"]
        self.spawn_ns: int = self._messages["spawn_ns"]
        self.alive_ns: int = self._messages["alive_ns"]

    def _tell(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(OSError, ValueError):  # the guard is gone: seen by whoever reads its status
            while data:
                data = data[os.write(self._control.fileno(), data) :]

    def _read(self, timeout_s: float) -> bool:
        """Takes in what the guard says; False when nothing came in time or the guard is gone."""
        if self._status.closed:
            return False
        ready, _, _ = select.select([self._status], [], [], timeout_s)
        if not ready:
            return False
        chunk = os.read(self._status.fileno(), 65536)
        if not chunk:
            self._messages.setdefault("gone", True)
            return False
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        for line in lines:
            self._messages |= json.loads(line)
        return True

    @property
    def alive(self) -> bool:
        """Whether the server's own process is running."""
        with self._lock:
            if self._stopped is None:
                while self._read(0.0):
                    pass
            return self._stopped is None and not self._messages.keys() & {"exit", "gone"}

    @property
    def returncode(self) -> int | None:
        """The server's exit code (negative: the signal that ended it), or None while it runs or when unknown."""
        running = self.alive
        code = self._messages.get("exit")
        return None if running or code is None else int(code)

    def tail(self) -> tuple[str, ...]:
        """The last lines of the log (at most 40), without secrets and control characters."""
        if not self.alive:
            self._log.thread.join(timeout=1.0)  # what it said last is what explains its end
        return tuple(self._log.tail)

    def stop(self, grace_s: float = 15.0, *, interrupt_first: bool = False) -> Stopped:
        """Ends the whole tree and waits until it is gone: SIGTERM (or SIGINT, then SIGTERM), then SIGKILL.

        Takes at most about `grace_s` + 15 s. Idempotent: a later call returns the first one's answer.
        """
        with self._lock:
            if self._stopped is None:
                self._stopped = self._stop(grace_s, interrupt_first)
            return self._stopped

    def _stop(self, grace_s: float, interrupt_first: bool) -> Stopped:
        snapshot = _descendants(self._guard.pid)[1:] + _descendants(self.pid)
        signals = [signal.SIGINT, signal.SIGTERM] if interrupt_first else [signal.SIGTERM]
        self._tell({"stop": {"signals": [int(s) for s in signals], "grace_s": grace_s}})
        deadline = time.monotonic() + grace_s + _GUARD_MARGIN_S
        while "done" not in self._messages and self._read(max(0.0, deadline - time.monotonic())):
            pass
        forced = bool(self._messages.get("forced", False))
        if "done" not in self._messages:  # the guard itself was killed, or hangs: its marker still tells what is ours
            from .servers.guard import marked

            snapshot += marked(self._token)
        left = _kill_remaining(snapshot)
        stopped = Stopped(
            exit_code=self._messages.get("exit"),
            forced=forced or left is not None,
            stopped_ns=time.monotonic_ns(),
            left=left or (),
        )
        self._finalizer()
        self._log.thread.join(timeout=2.0)
        return stopped


def _descendants(pid: int) -> list[psutil.Process]:
    """The process and everything below it right now; empty if it is gone."""
    import psutil

    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def _running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; a pid that was given to another process in the meantime does not count."""
    import psutil

    left = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                left.append(process)
    return left


def _kill_remaining(snapshot: list[psutil.Process]) -> tuple[int, ...] | None:
    """Kills what the guard left; None if there was nothing to do, else the pids that could not be killed."""
    import psutil

    deadline = time.monotonic() + 0.5  # the guard says "done" just before it exits
    left = _running(snapshot)
    while left and time.monotonic() < deadline:
        time.sleep(0.005)
        left = _running(left)
    if not left:
        return None
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    deadline = time.monotonic() + 5.0
    while left and time.monotonic() < deadline:
        time.sleep(0.005)
        left = _running(left)
    return tuple(process.pid for process in left)


def _abandon(guard: subprocess.Popen[bytes]) -> None:
    """Closes the control pipe, upon which the guard ends the tree, and waits for it. Must not refer to the process."""
    if guard.stdin is not None:
        with contextlib.suppress(OSError):
            guard.stdin.close()
    try:
        guard.wait(timeout=_GUARD_MARGIN_S)
    except subprocess.TimeoutExpired:
        guard.kill()
        guard.wait(timeout=5.0)
    for stream in (guard.stdout, guard.stderr):
        if stream is not None and not stream.closed:
            stream.close()
