"""A sampler thread: the server's tree, the client and the machine, a few times a second, with running peaks.

It runs in the client's process, so each sample must be short (well under a millisecond of interpreter time):
the client's event loop waits for the interpreter lock meanwhile, and that wait is visible in its measured lag.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from ..model import Sample
from .energy import EnergyCounters, EnergyReading, idle_power
from .gauges import Gauges
from .gpu import Nvml
from .machine import read_machine
from .tree import ProcessTree


@dataclass
class Peaks:
    """Highest values seen since a server's start [bytes]."""

    anon_bytes: int | None = None
    mapped_bytes: int | None = None
    gpu_bytes: int | None = None

    def see(self, anon: int | None, mapped: int | None, gpu: int | None) -> None:
        self.anon_bytes = _highest(self.anon_bytes, anon)
        self.mapped_bytes = _highest(self.mapped_bytes, mapped)
        self.gpu_bytes = _highest(self.gpu_bytes, gpu)


def _highest(old: int | None, new: int | None) -> int | None:
    return new if old is None else old if new is None else max(old, new)


class Telemetry:
    """Samples in the background from `start` to `stop`; a block takes its samples with `between`."""

    def __init__(self, period_s: float = 0.2) -> None:
        self.period_s = period_s
        self._nvml = Nvml()
        self._energy: EnergyCounters | None = None
        self.idle_w: float | None = None  # power of the counted devices before the first server [W]
        self._trees: dict[int, tuple[ProcessTree, Peaks]] = {}
        self._focus: int | None = None
        self._samples: list[Sample] = []
        self._gauges = Gauges()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to sample; where energy is counted, the machine is first watched for some seconds without a server."""
        self._energy = EnergyCounters()
        self.idle_w = idle_power(self._energy)
        self._thread = threading.Thread(target=self._loop, name="bakeoff-telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def watch(self, pid: int) -> None:
        """Follow a server's tree from now on."""
        with self._lock:
            self._trees[pid] = (ProcessTree(pid), Peaks())

    def unwatch(self, pid: int) -> Peaks:
        """Stop following it; returns the peaks of its life."""
        with self._lock:
            return self._trees.pop(pid, (ProcessTree(pid), Peaks()))[1]

    def focus(self, pid: int | None) -> None:
        """Whose tree the samples describe from now on (None: a server that we did not start)."""
        with self._lock:
            self._focus = pid
            self._samples.clear()
            self._gauges = Gauges()

    def note_gauges(self, gauges: Gauges) -> None:
        """What the server just said of itself: stands in the next sample, and in that one alone."""
        with self._lock:
            self._gauges = gauges

    def sample(self) -> Sample:
        """Takes one sample now, keeps it, and returns it."""
        with self._lock:
            taken = self._take()
            self._samples.append(taken)
            return taken

    def between(self, start_ns: int, end_ns: int) -> list[Sample]:
        """Samples of the current focus within a time range, plus the one just before it (for differences)."""
        with self._lock:
            before = [s for s in self._samples if s.t_ns < start_ns][-1:]
            return before + [s for s in self._samples if start_ns <= s.t_ns <= end_ns]

    def _loop(self) -> None:
        while not self._wake.wait(self.period_s):
            self.sample()

    def _take(self) -> Sample:
        machine = read_machine()
        gauges, self._gauges = self._gauges, Gauges()
        now = time.monotonic_ns()
        energy = self._energy.read() if self._energy is not None and self._energy.available else EnergyReading()
        tree = gpu = None
        for pid, (watched, peaks) in self._trees.items():
            reading = watched.read()
            gpu_reading = self._nvml.read(watched.pids()) if self._nvml.available else None
            if reading is not None:
                peaks.see(reading.anon_bytes, reading.mapped_bytes, gpu_reading.memory_bytes if gpu_reading else None)
            if pid == self._focus:
                tree, gpu = reading, gpu_reading
        if self._focus is None and self._nvml.available:
            gpu = self._nvml.read(())
        return Sample(
            t_ns=now,
            tree_cpu_s=tree.cpu_s if tree else None,
            tree_anon_bytes=tree.anon_bytes if tree else None,
            tree_mapped_bytes=tree.mapped_bytes if tree else None,
            tree_threads=tree.threads if tree else None,
            tree_processes=tree.processes if tree else None,
            client_cpu_s=time.process_time(),
            machine_busy_s=machine.busy_s,
            machine_steal_s=machine.steal_s,
            runnable=machine.runnable,
            load1=machine.load1,
            frequency_mhz=machine.frequency_mhz,
            available_bytes=machine.available_bytes,
            temperature_c=machine.temperature_c,
            gpu_busy=gpu.busy if gpu else None,
            gpu_memory_bytes=gpu.memory_bytes if gpu else None,
            gpu_power_w=gpu.power_w if gpu else None,
            gpu_clock_mhz=gpu.clock_mhz if gpu else None,
            gpu_temperature_c=gpu.temperature_c if gpu else None,
            energy_cpu_j=energy.cpu,
            energy_dram_j=energy.dram,
            energy_gpu_j=energy.gpu,
            energy_soc_j=energy.soc,
            server_running=gauges.running,
            server_waiting=gauges.waiting,
            server_kv_use=gauges.kv_use,
        )
