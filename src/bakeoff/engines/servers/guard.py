"""The guard: a tiny parent process that makes sure that no server outlives Bakeoff.

It runs as a script of its own (``python -P guard.py``), in its own session, and imports nothing of ours. Between
Bakeoff, the guard and the server:

* standard input: one JSON line ``{"argv", "env", "cwd", "token"}``, later perhaps ``{"stop": {"signals",
  "grace_s"}}``. **End of file means that Bakeoff is gone**, however it died (``kill -9`` too), for the kernel closes
  the pipe; then the whole tree is ended.
* standard output: JSON lines ``{"pid", "spawn_ns", "alive_ns"}`` or ``{"error", "errno"}``, ``{"exit": code}`` as soon
  as the server's own process ends (negative: the signal), and ``{"done", "forced", "left"}`` at the very end.
* standard error: the log pipe, which the server inherits as its output.

While the server works the guard sleeps in ``select`` without a time-out: no timer, no polling, no CPU time, so it
does not disturb what is measured. The stamps are taken here (one monotonic clock serves all processes), so the
guard's own start-up does not count as the server's.

Processes that a server detaches (double fork, own session) are found as well: on Linux the guard is a *subreaper*, to
which the kernel hands every orphaned descendant; elsewhere by a marker variable in their environment. If the guard
itself is killed, Linux kills the server with it (parent-death signal).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil

MARKER = "BAKEOFF_SERVER_TREE"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ABANDONED_GRACE_S = 3.0  # Bakeoff is gone, nobody waits for the server's manners
_LEFTOVER_GRACE_S = 2.0  # workers of a server that has already ended
_KILL_LIMIT_S = 10.0  # after SIGKILL only a process stuck in the kernel can still be there
_POLL_S = 0.01


def _say(message: dict[str, Any]) -> None:
    # Bakeoff may be gone already; the tree must be ended all the same.
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(message).encode() + b"\n")


def marked(token: str) -> list[psutil.Process]:
    """Processes of this user whose environment carries the marker (for systems without subreapers)."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARKER) == token and process.pid != os.getpid():
                found.append(process)
    return found


def _prctl() -> Callable[[int, int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):  # a C library without prctl: the group and the snapshot still work
        return None
    return lambda option, argument: int(function(option, argument, 0, 0, 0))


class Guard:
    """One server and its descendants."""

    def __init__(self) -> None:
        self._prctl = _prctl()
        self._subreaper = bool(self._prctl and self._prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0)
        self._self = psutil.Process()
        self._wake, wake_write = os.pipe()
        for fd in (self._wake, wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._received: list[int] = []
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda received, _frame: self._received.append(received))
        self._buffer = b""
        self._abandoned = False  # end of file seen: Bakeoff is gone
        self.token = ""
        self.root = -1
        self.exit_code: int | None = None
        self.forced = False

    def _line(self) -> dict[str, Any] | None:
        """The next message from Bakeoff, or None at end of file. Call when standard input is readable."""
        while b"\n" not in self._buffer:
            chunk = os.read(0, 65536)
            if not chunk:
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def spawn(self) -> bool:
        """Starts the server as the first line says; False (and said so) when that fails."""
        spec = self._line()
        if spec is None:
            return False
        self.token = spec["token"]
        parent = os.getpid()
        prctl = self._prctl

        def tie() -> None:  # in the child, before exec; this process has one thread, so a function here is safe
            if prctl is not None:
                prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != parent:
                    os._exit(127)

        spawn_ns = time.monotonic_ns()
        try:
            child = subprocess.Popen(
                spec["argv"],
                env={**spec["env"], MARKER: self.token},
                cwd=spec["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=2,
                stderr=2,
                start_new_session=True,
                preexec_fn=tie,  # noqa: PLW1509  # there are no threads here
            )
        except (OSError, ValueError) as error:
            _say({"error": getattr(error, "strerror", None) or str(error), "errno": getattr(error, "errno", None)})
            return False
        self.root = child.pid
        child.returncode = 0  # this class reaps all children; Popen must not
        _say({"pid": child.pid, "spawn_ns": spawn_ns, "alive_ns": time.monotonic_ns()})
        return True

    def _reap(self) -> None:
        """Collects every ended child (orphans included) and reports the server's own end."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.root and self.exit_code is None:
                self.exit_code = os.waitstatus_to_exitcode(status)
                _say({"exit": self.exit_code})

    def tree(self) -> list[psutil.Process]:
        """What is left of the server and its descendants, zombies apart."""
        self._reap()
        found = {p.pid: p for p in self._self.children(recursive=True)}
        if not self._subreaper:
            found |= {p.pid: p for p in marked(self.token)}
        alive = []
        for process in found.values():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(process)
        return alive

    def _wait(self, timeout_s: float | None) -> dict[str, Any] | None:
        """Sleeps until a child ends, a signal comes, the time is over or Bakeoff speaks (then: what it said)."""
        sources = [self._wake] if self._abandoned else [0, self._wake]
        ready, _, _ = select.select(sources, [], [], timeout_s)
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
        self._reap()
        while self._received:
            self._signal(self._received.pop(0))
        if 0 not in ready:
            return None
        message = self._line()
        self._abandoned = message is None
        return message

    def _signal(self, number: int) -> None:
        """Sends a signal to the server's process group (its workers share it unless they left on purpose)."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.root, number)

    def watch(self) -> tuple[list[int], float]:
        """Sleeps until the server ends, Bakeoff asks for a stop, or Bakeoff is gone: (signals, grace in seconds)."""
        while self.exit_code is None:
            message = self._wait(None)
            if message is not None:
                stop = message["stop"]
                return list(stop["signals"]), float(stop["grace_s"])
            if self._abandoned:
                return [signal.SIGTERM], _ABANDONED_GRACE_S
        return [], 0.0

    def end(self, signals: list[int], grace_s: float) -> list[int]:
        """Ends the tree: each signal with its share of the grace time, then SIGKILL. Returns pids that are left."""
        for number in signals:
            self._signal(number)
            abandoned = self._abandoned
            deadline = time.monotonic() + grace_s / len(signals)
            while self.exit_code is None and (left_s := deadline - time.monotonic()) > 0:
                self._wait(left_s)
                if self._abandoned and not abandoned:  # Bakeoff has died, or gave up waiting
                    abandoned = True
                    deadline = min(deadline, time.monotonic() + _ABANDONED_GRACE_S)
        if self.exit_code is not None:
            self._end_leftovers()
        return self._kill()

    def _end_leftovers(self) -> None:
        """The server itself has ended; asks the processes that it left behind to end too."""
        for process in self.tree():
            with contextlib.suppress(psutil.Error):
                process.terminate()
        deadline = time.monotonic() + _LEFTOVER_GRACE_S
        while self.tree() and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _kill(self) -> list[int]:
        deadline = time.monotonic() + _KILL_LIMIT_S
        while (left := self.tree()) and time.monotonic() < deadline:
            self.forced = True
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(_POLL_S)
        return [process.pid for process in left]


def main() -> None:
    guard = Guard()
    if not guard.spawn():
        os._exit(127)
    signals, grace_s = guard.watch()
    left = guard.end(signals, grace_s)
    _say({"done": guard.exit_code, "forced": guard.forced, "left": left})
    code = guard.exit_code if guard.exit_code is not None else 1
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
