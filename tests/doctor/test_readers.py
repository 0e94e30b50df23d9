"""The readers, on made-up files and on this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from bakeoff.doctor import Clock, Cpu, Memory, Place, diagnose, examine, render, to_json
from bakeoff.doctor.collect import _limits, collect
from bakeoff.doctor.linux import Linux
from bakeoff.doctor.nvml import read_gpus
from bakeoff.doctor.reading import printable
from bakeoff.doctor.watch import ProcessWatch, watch_loop


def tree(root: Path, files: dict[str, str]) -> Linux:
    """A made-up system."""
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Linux(root)


def test_cpu_times(tmp_path: Path) -> None:
    stat = "cpu  100 10 50 800 20 3 7 10 30 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nprocs_running 5\n"
    times = tree(tmp_path, {"/proc/stat": stat}).cpu_times()
    assert times is not None
    assert (times.busy, times.steal, times.total, times.runnable) == (170, 10, 1000, 5)
    assert tree(tmp_path, {"/proc/stat": "cpu x\n"}).cpu_times() is None


def test_governor_turbo_and_frequency(tmp_path: Path) -> None:
    cpu = "/sys/devices/system/cpu"
    linux = tree(
        tmp_path,
        {
            f"{cpu}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{cpu}/cpu1/cpufreq/scaling_governor": "performance\n",
            f"{cpu}/cpu0/cpufreq/cpuinfo_max_freq": "4200000\n",
            f"{cpu}/intel_pstate/no_turbo": "0\n",
            f"{cpu}/cpu0/thermal_throttle/core_throttle_count": "3\n",
            f"{cpu}/cpu1/thermal_throttle/core_throttle_count": "4\n",
            "/proc/cpuinfo": "processor : 0\nmodel name\t: Some CPU\nflags\t\t: fpu hypervisor\n",
        },
    )
    read = linux.cpu(Cpu(logical=2))
    assert read.governors == ("performance", "powersave")
    assert (read.turbo, read.max_frequency_mhz, read.model, read.logical) == (True, 4200, "Some CPU", 2)
    assert linux.throttle_events() == 7
    assert linux.place(Place()).virtual_machine == "hypervisor"
    assert tree(tmp_path / "amd", {f"{cpu}/cpufreq/boost": "0"}).cpu(Cpu()).turbo is False


def test_quota_of_version_2_is_the_tightest_on_the_way_up(tmp_path: Path) -> None:
    linux = tree(
        tmp_path,
        {
            "/proc/self/cgroup": "0::/user.slice/job\n",
            "/sys/fs/cgroup/user.slice/job/cpu.max": "max 100000\n",
            "/sys/fs/cgroup/user.slice/cpu.max": "150000 100000\n",
            "/sys/fs/cgroup/user.slice/job/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 4\n",
        },
    )
    assert linux.quota_cores() == 1.5
    assert linux.throttled_periods() == 4


def test_quota_of_version_1_and_in_a_container(tmp_path: Path) -> None:
    files = {
        "/proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    assert tree(tmp_path, files).quota_cores() == 0.5
    files["/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"] = "-1\n"
    assert tree(tmp_path, files).quota_cores() is None


def test_memory_clock_and_place(tmp_path: Path) -> None:
    linux = tree(
        tmp_path,
        {
            "/proc/vmstat": "nr_free_pages 1\npswpin 12\npswpout 34\n",
            "/proc/sys/vm/swappiness": "60\n",
            "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
            "/proc/1/cgroup": "0::/kubepods.slice/x\n",
            "/sys/class/dmi/id/sys_vendor": "QEMU\n",
        },
    )
    assert linux.swapped_pages() == (12, 34)
    memory = linux.memory(Memory(total=1))
    assert (memory.swappiness, memory.huge_pages, memory.total) == (60, "always", 1)
    assert linux.clock(Clock()).source == "hpet"
    assert linux.place(Place(system="s")) == Place(system="s", container="kubepods", virtual_machine="QEMU")


def test_an_empty_system_is_unknown_and_no_error(tmp_path: Path) -> None:
    linux = Linux(tmp_path)
    unknown = (linux.cpu_times(), linux.quota_cores(), linux.throttled_periods(), linux.swapped_pages())
    assert unknown == (None, None, None, None)
    assert linux.cpu(Cpu()) == Cpu()
    assert linux.memory(Memory()) == Memory()
    assert linux.clock(Clock()) == Clock()
    assert linux.place(Place()) == Place()
    assert linux.throttle_events() is None


def test_the_loop_is_watched_and_glanced_at() -> None:
    lag, mean = watch_loop(0.3, lambda: 3)
    assert lag.loop in ("uvloop", "asyncio")
    assert lag.ticks == 30
    assert 0 <= lag.p50_s <= lag.p99_s <= lag.max_s
    assert mean is None or mean == 3
    assert watch_loop(0.1, lambda: None)[1] is None


def test_a_busy_process_is_found_without_its_command_line() -> None:
    secret = "token-in-the-arguments"
    process = subprocess.Popen([sys.executable, "-c", "while True: pass", secret])
    try:
        watch = ProcessWatch()
        asyncio.run(asyncio.sleep(0.5))
        cores, hot = watch.finish(keep=10_000)
    finally:
        process.kill()
        process.wait()
    (found,) = [p for p in hot if p.pid == process.pid]
    assert 0.02 <= found.cores <= cores
    assert secret not in repr(hot)
    assert os.getpid() not in {p.pid for p in hot}


def test_thread_variables_are_told_and_odd_values_are_not() -> None:
    environ = {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "\x1b[31m" + "x" * 99, "OTHER": "1"}
    assert _limits(environ).thread_variables == {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "(set)"}


def test_printable() -> None:
    assert printable("a\n\x1b[0mb") == "a??[0mb"
    assert len(printable("x" * 100)) == 40


class _Nvml(types.ModuleType):
    """A stand-in for pynvml: one GPU that answers some questions and refuses others."""

    class NVMLError(Exception):
        pass

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    fails = False

    def nvmlInit(self) -> None:  # noqa: N802  # NVML's own name
        if self.fails:
            raise self.NVMLError("Driver Not Loaded")

    def __getattr__(self, name: str) -> object:
        answers: dict[str, object] = {
            "nvmlSystemGetDriverVersion": b"999.1",
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetName": "Test GPU",
            "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(used=1, total=2),
            "nvmlDeviceGetUtilizationRates": types.SimpleNamespace(gpu=25),
            "nvmlDeviceGetPersistenceMode": 0,
            "nvmlDeviceGetComputeRunningProcesses": [types.SimpleNamespace(pid=pid) for pid in (os.getpid(), 1)],
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x41,
            "nvmlDeviceGetEnforcedPowerLimit": 350_000,
            "nvmlShutdown": None,
        }
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def question(*_: object) -> object:
            if name not in answers:
                raise self.NVMLError("Not Supported")
            return answers[name]

        return question


def test_a_gpu_is_read_answer_by_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _Nvml("pynvml"))
    (gpu,), problem = read_gpus()
    assert problem is None
    assert (gpu.name, gpu.driver, gpu.busy, gpu.persistence) == ("Test GPU", "999.1", 0.25, False)
    assert (gpu.other_processes, gpu.power_limit_w, gpu.temperature_c) == (1, 350, None)
    assert gpu.slowed_by == ("heat (hardware)",)


def test_a_driver_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nvml = _Nvml("pynvml")
    nvml.fails = True
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert read_gpus(tmp_path) == ((), None)
    tree(tmp_path, {"/proc/driver/nvidia/version": "x"})
    assert read_gpus(tmp_path) == ((), "Driver Not Loaded")


def test_this_machine() -> None:
    diagnosis = examine(0.5)
    codes = [finding.code for finding in diagnosis.findings]
    assert {"cores", "governor", "processes", "memory", "clock", "event-loop"} <= set(codes)
    assert diagnosis.reading.activity.interval_s >= 0.5
    assert diagnosis.reading.cpu.logical == os.cpu_count()
    assert diagnosis.exit_code() in (0, 4)
    assert render(diagnosis).count("\n") > len(codes)
    assert to_json(diagnosis).startswith("{")


def test_a_reading_survives_json_and_gives_the_same_findings() -> None:
    import msgspec

    reading = collect(0.2)
    again = msgspec.json.decode(msgspec.json.encode(reading), type=type(reading))
    assert diagnose(again) == diagnose(reading)
