from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from bakeoff.engines.process import ProcessSpec, ServerProcess
from bakeoff.engines.secrets import Redactor
from bakeoff.engines.servers.guard import MARKER, marked
from bakeoff.errors import EngineError

from .conftest import FAKE_SERVER, running, until


def spec(tmp_path: Path, code: str, **more: Any) -> ProcessSpec:
    argv = (sys.executable, "-S", "-u", "-c", textwrap.dedent(code))
    return ProcessSpec(argv=argv, env=os.environ, log_path=tmp_path / "logs" / "x.log", **more)


FOREVER = "import time\nprint('up', flush=True)\nwhile True: time.sleep(60)"


def tree_spec(tmp_path: Path, *options: str) -> tuple[ProcessSpec, Path]:
    """A server with a child and a daemonised grandchild; the file gets all three pids."""
    pids = tmp_path / "pids"
    argv = (sys.executable, str(FAKE_SERVER), "--port", "0", "--children", "--pids", str(pids), *options)
    return ProcessSpec(argv=argv, env=os.environ, log_path=tmp_path / "x.log"), pids


def read_pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_start_and_stop(tmp_path: Path) -> None:
    before = time.monotonic_ns()
    process = ServerProcess(spec(tmp_path, FOREVER))
    assert before < process.spawn_ns < process.alive_ns < time.monotonic_ns()
    assert process.alive
    assert process.returncode is None
    root = psutil.Process(process.pid)
    assert root.cmdline()[-1].startswith("import time")  # the server itself, not the guard
    assert root.ppid() != os.getpid()
    assert os.getsid(process.pid) == process.pid
    assert until(lambda: process.tail() == ("up",))
    stopped = process.stop(10)
    assert (stopped.exit_code, stopped.forced, stopped.left) == (-signal.SIGTERM, False, ())
    assert not process.alive
    assert process.returncode == -signal.SIGTERM
    assert process.stop() is stopped
    assert not running(process.pid)
    assert (tmp_path / "logs" / "x.log").read_text() == "up\n"


def test_exit_code_and_last_words_are_kept(tmp_path: Path) -> None:
    process = ServerProcess(spec(tmp_path, "import sys; print('out'); sys.stderr.write('err\\n'); sys.exit(7)"))
    assert until(lambda: not process.alive)
    assert process.returncode == 7
    assert set(process.tail()) == {"out", "err"}
    assert process.stop().exit_code == 7


def test_signal_that_ended_it_is_told(tmp_path: Path) -> None:
    process = ServerProcess(spec(tmp_path, FOREVER))
    os.kill(process.pid, signal.SIGKILL)
    assert until(lambda: not process.alive)
    assert process.returncode == -signal.SIGKILL
    assert process.stop().exit_code == -signal.SIGKILL


def test_program_not_found(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot start 'no-such-program'") as caught:
        ServerProcess(ProcessSpec(argv=("no-such-program",), env=os.environ, log_path=tmp_path / "x.log"))
    assert caught.value.remedy


def test_environment_and_folder_are_the_servers_own(tmp_path: Path) -> None:
    code = "import os; print(os.environ.get('A'), os.environ.get('HOME'), os.getcwd())"
    process = ServerProcess(
        ProcessSpec(argv=(sys.executable, "-S", "-c", code), env={"A": "1"}, cwd=tmp_path, log_path=tmp_path / "x.log")
    )
    assert until(lambda: not process.alive)
    assert process.tail() == (f"1 None {tmp_path.resolve()}",)
    process.stop()


def test_interrupt_first(tmp_path: Path) -> None:
    code = """
    import sys, time
    try:
        print('up')
        while True: time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(5)
    """
    process = ServerProcess(spec(tmp_path, code))
    assert until(lambda: process.tail() == ("up",))
    assert process.stop(10, interrupt_first=True).exit_code == 5


def test_tree_that_ignores_sigterm_is_killed_with_its_daemons(tmp_path: Path) -> None:
    order, file = tree_spec(tmp_path, "--stubborn")
    process = ServerProcess(order)
    assert until(lambda: len(read_pids(file)) == 3)
    pids = read_pids(file)
    assert until(lambda: all(map(running, pids)))
    assert os.getsid(pids[2]) not in (process.pid, os.getsid(0))  # the daemon left the session
    stopped = process.stop(0.3)
    assert stopped.forced
    assert stopped.exit_code == -signal.SIGKILL
    assert not any(map(running, pids))


def test_daemons_of_a_polite_server_end_too(tmp_path: Path) -> None:
    order, file = tree_spec(tmp_path)
    process = ServerProcess(order)
    assert until(lambda: len(read_pids(file)) == 3)
    stopped = process.stop(10)
    assert not stopped.forced
    assert not any(map(running, read_pids(file)))


def test_server_that_dies_leaves_no_children(tmp_path: Path) -> None:
    order, file = tree_spec(tmp_path, "--exit", "3")
    process = ServerProcess(order)
    assert until(lambda: not process.alive)
    assert process.returncode == 3
    assert until(lambda: not any(map(running, read_pids(file))))
    assert len(read_pids(file)) == 3
    process.stop()


def test_secrets_and_control_characters(tmp_path: Path) -> None:
    code = """
    print('key=sk-planted-1 \\x1b[31mred\\x1b[0m\\x07')
    print('10%\\r50%\\rdone')
    print('\\xff')
    """
    process = ServerProcess(spec(tmp_path, code, redactor=Redactor(["sk-planted-1"])))
    assert until(lambda: not process.alive)
    tail = process.tail()
    process.stop()
    assert tail[:2] == ("key=*** red", "done")
    assert "sk-planted" not in (tmp_path / "logs" / "x.log").read_text(errors="replace")


def test_endless_line_is_cut_without_showing_half_a_secret(tmp_path: Path) -> None:
    secret = "S" + "e" * 60 + "T"
    code = f"import sys; sys.stdout.write('x' * (65536 - 30) + '{secret}' + 'y' * 300000 + '\\nend\\n')"
    process = ServerProcess(spec(tmp_path, code, redactor=Redactor([secret])))
    assert until(lambda: not process.alive)
    assert process.tail()[-1] == "end"
    process.stop()
    text = (tmp_path / "logs" / "x.log").read_text()
    assert "Se" not in text
    assert "[line truncated]" in text
    assert len(text) < 70_000


def test_log_is_bounded_and_the_tail_goes_on(tmp_path: Path) -> None:
    process = ServerProcess(spec(tmp_path, "for i in range(5000): print('line', i)", log_limit=2000))
    assert until(lambda: not process.alive)
    assert process.tail()[-1] == "line 4999"
    assert len(process.tail()) == 40
    process.stop()
    text = (tmp_path / "logs" / "x.log").read_text()
    assert len(text) < 2200
    assert "log limit of 2000 bytes reached" in text.splitlines()[-1]


def test_forgotten_process_is_ended(tmp_path: Path) -> None:
    pid = ServerProcess(spec(tmp_path, FOREVER)).pid
    gc.collect()
    assert until(lambda: not running(pid))


PARENT = """
import os, sys, time
from pathlib import Path
from bakeoff.engines.process import ProcessSpec, ServerProcess
argv = sys.argv[3:]
process = ServerProcess(ProcessSpec(argv=tuple(argv), env=os.environ, log_path=Path(sys.argv[1])))
print(process.pid, flush=True)
if sys.argv[2] == "wait": time.sleep(600)
if sys.argv[2] == "raise": raise RuntimeError("on purpose")
"""


def start_parent(tmp_path: Path, how: str, *options: str) -> tuple[subprocess.Popen[str], Path]:
    order, file = tree_spec(tmp_path, *options)
    argv = [sys.executable, "-c", PARENT, str(order.log_path), how, *order.argv]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True), file


@pytest.mark.parametrize("options", [(), ("--stubborn",)])
def test_kill_9_of_the_parent_leaves_no_orphan(tmp_path: Path, options: tuple[str, ...]) -> None:
    parent, file = start_parent(tmp_path, "wait", *options)
    assert parent.stdout is not None
    with parent:
        root = int(parent.stdout.readline())
        assert until(lambda: len(read_pids(file)) == 3)
        pids = read_pids(file)
        assert pids[0] == root
        guard = psutil.Process(root).ppid()
        assert all(map(running, pids))
        parent.kill()
    assert until(lambda: not any(map(running, [*pids, guard])))


@pytest.mark.parametrize("how", ["end", "raise"])
def test_normal_end_and_exception_of_the_parent_leave_no_orphan(tmp_path: Path, how: str) -> None:
    parent, file = start_parent(tmp_path, how)
    with parent:
        parent.communicate(timeout=60)
    # The exit waits for the guard, so nothing is left now, not only soon.
    assert not any(map(running, read_pids(file)))


def test_death_of_the_guard_is_noticed_and_cleaned_up(tmp_path: Path) -> None:
    order, file = tree_spec(tmp_path)
    process = ServerProcess(order)
    assert until(lambda: len(read_pids(file)) == 3)
    psutil.Process(process.pid).parent().kill()  # type: ignore[union-attr]  # it has one
    assert until(lambda: not process.alive)
    stopped = process.stop(1)
    assert stopped.forced
    assert not any(map(running, read_pids(file)))


def test_signal_to_the_guard_goes_to_the_server(tmp_path: Path) -> None:
    process = ServerProcess(spec(tmp_path, FOREVER))
    parent = psutil.Process(process.pid).parent()
    assert parent is not None
    parent.terminate()
    assert until(lambda: not process.alive)
    assert process.returncode == -signal.SIGTERM
    process.stop()


def test_guard_takes_no_cpu_time_while_the_server_works(tmp_path: Path) -> None:
    process = ServerProcess(spec(tmp_path, FOREVER))
    guard = psutil.Process(process.pid).parent()
    assert guard is not None
    assert until(lambda: guard.status() == psutil.STATUS_SLEEPING)
    before = guard.num_ctx_switches().voluntary
    time.sleep(0.3)
    assert guard.num_ctx_switches().voluntary == before
    process.stop()


def test_marker_finds_what_left_the_tree(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, env={MARKER: "token-1"})
    try:
        assert until(lambda: [p.pid for p in marked("token-1")] == [child.pid])
        assert marked("token-2") == []
    finally:
        child.communicate()


def test_colours_do_not_hide_a_secret_in_the_log(tmp_path: Path) -> None:
    code = "print('key sk-\\x1b[1mplanted\\x1b[0m-1 end', flush=True); print('\\x1b[31mred\\x1b[0m', flush=True)"
    process = ServerProcess(spec(tmp_path, code, redactor=Redactor(["sk-planted-1"])))
    until(lambda: not process.alive)
    assert process.tail() == ("key *** end", "red")
    process.stop()
    assert "planted" not in spec(tmp_path, code).log_path.read_text()
