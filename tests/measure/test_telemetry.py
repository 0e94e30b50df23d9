from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from bakeoff.measure.machine import LINUX, read_machine, usable_cores
from bakeoff.measure.telemetry import Telemetry
from bakeoff.measure.tree import ProcessTree, _descendants, _descendants_portable

_CHILD = """
import time
block = bytearray(32 << 20)
for i in range(0, len(block), 4096):
    block[i] = 1
print("up", flush=True)
time.sleep(60)
"""
_EATER = f"""
import subprocess, sys, time
block = bytearray(64 << 20)
for i in range(0, len(block), 4096):
    block[i] = 1
child = subprocess.Popen([sys.executable, "-c", {_CHILD!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
sum(range(10_000_000))
time.sleep(60)
"""


@pytest.fixture
def eater() -> object:
    process = subprocess.Popen([sys.executable, "-c", _EATER], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    os.killpg(process.pid, 9)
    process.wait()
    process.stdout.close()


def test_a_tree_counts_its_children(eater: subprocess.Popen[bytes]) -> None:
    tree = ProcessTree(eater.pid)
    reading = tree.read()
    assert reading is not None
    assert reading.processes == 2
    assert reading.threads >= 2
    assert reading.anon_bytes is not None
    assert reading.anon_bytes >= 96 << 20  # 64 MiB in the parent, 32 MiB in its child
    if LINUX:
        assert reading.mapped_bytes  # the interpreter's own files


def test_both_ways_of_finding_children_agree(eater: subprocess.Popen[bytes]) -> None:
    assert _descendants(eater.pid) == _descendants_portable(eater.pid) != []


def test_a_tree_that_is_gone_reads_none() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert ProcessTree(process.pid).read() is None


def test_cpu_time_never_falls(eater: subprocess.Popen[bytes]) -> None:
    tree = ProcessTree(eater.pid)
    first = tree.read()
    for _ in range(200):
        last = tree.read()
        assert first is not None
        assert last is not None
        assert last.cpu_s >= first.cpu_s
        if last.cpu_s > first.cpu_s:
            return
        time.sleep(0.05)
    pytest.fail("the busy process used no CPU time")


def test_telemetry_gives_peaks_and_samples_of_the_watched_tree(eater: subprocess.Popen[bytes]) -> None:
    telemetry = Telemetry(period_s=0.01)
    telemetry.start()
    try:
        telemetry.watch(eater.pid)
        telemetry.focus(eater.pid)
        first = telemetry.sample().t_ns
        last = telemetry.sample().t_ns
        samples = telemetry.between(first, last)
        assert len(samples) >= 2
        assert all(s.tree_anon_bytes for s in samples)
        assert all(s.client_cpu_s is not None for s in samples)
        peaks = telemetry.unwatch(eater.pid)
        assert peaks.anon_bytes is not None
        assert peaks.anon_bytes >= 96 << 20
    finally:
        telemetry.stop()


def test_a_server_that_we_did_not_start_is_unknown_not_ours() -> None:
    telemetry = Telemetry()
    telemetry.focus(None)
    sample = telemetry.sample()
    assert sample.tree_cpu_s is None
    assert sample.tree_anon_bytes is None


def test_machine_counters_grow() -> None:
    first, last = read_machine(), read_machine()
    assert first.busy_s is not None
    assert last.busy_s is not None
    assert last.busy_s >= first.busy_s
    assert usable_cores() >= 1
