"""Readings from Linux' /proc and /sys. The root is a parameter, so that tests read a tree of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from .reading import Clock, Cpu, Memory, Place, printable

_LONGEST_FILE = 1 << 20
_CONTAINERS = ("docker", "kubepods", "containerd", "lxc", "podman", "crio", "garden")
# Vendors and products that DMI names in virtual machines.
_MACHINES = {
    "qemu": "QEMU",
    "kvm": "KVM",
    "vmware": "VMware",
    "virtualbox": "VirtualBox",
    "amazon ec2": "Amazon EC2",
    "google compute": "Google Compute Engine",
    "microsoft corporation virtual": "Hyper-V",
    "xen": "Xen",
    "openstack": "OpenStack",
    "bhyve": "bhyve",
    "parallels": "Parallels",
}


class CpuTimes(NamedTuple):
    """Cumulative times over all cores [clock ticks], and the tasks that can run now."""

    busy: int
    steal: int
    total: int
    runnable: int | None


class Linux:
    """Reads one system's files. Everything that is missing or odd is None."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def text(self, path: str) -> str | None:
        """A small file's text, stripped; None if it cannot be read."""
        with contextlib.suppress(OSError, ValueError), (self.root / path.lstrip("/")).open("rb") as file:
            return file.read(_LONGEST_FILE).decode("utf-8", "replace").strip()
        return None

    def number(self, path: str) -> int | None:
        """A file that holds one whole number."""
        text = self.text(path)
        with contextlib.suppress(ValueError, TypeError):
            return int(text or "")
        return None

    def paths(self, folder: str, pattern: str) -> list[Path]:
        """Files below a folder, sorted."""
        return sorted((self.root / folder.lstrip("/")).glob(pattern))

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    # --- CPU ---

    def cpu_times(self) -> CpuTimes | None:
        """/proc/stat. Guest time is part of user time there, so it is not added again."""
        found: tuple[int, int, int] | None = None
        runnable: int | None = None
        for line in (self.text("/proc/stat") or "").splitlines():
            fields = line.split()
            with contextlib.suppress(ValueError, IndexError):
                if fields[0] == "cpu":
                    ticks = [int(field) for field in fields[1:9]]
                    ticks += [0] * (8 - len(ticks))
                    user, nice, system, _idle, _wait, irq, softirq, steal = ticks
                    found = (user + nice + system + irq + softirq, steal, sum(ticks))
                elif fields[0] == "procs_running":
                    runnable = int(fields[1])
        return CpuTimes(*found, runnable) if found else None

    def cpu(self, known: Cpu) -> Cpu:
        """`known` (cores, affinity) with what the files add: model, governors, turbo, quota."""
        governors = {self.text(self._relative(p)) for p in self.paths(_CPU, "cpu[0-9]*/cpufreq/scaling_governor")}
        peaks = [self.number(self._relative(p)) for p in self.paths(_CPU, "cpu[0-9]*/cpufreq/cpuinfo_max_freq")]
        top = max((peak for peak in peaks if peak), default=None)
        return msgspec.structs.replace(
            known,
            model=self._cpu_info("model name"),
            governors=tuple(sorted(printable(governor) for governor in governors if governor)),
            turbo=self._turbo(),
            max_frequency_mhz=top / 1000 if top else known.max_frequency_mhz,
            quota_cores=self.quota_cores(),
        )

    def _cpu_info(self, key: str) -> str | None:
        for line in (self.text("/proc/cpuinfo") or "").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()[:4000]
        return None

    def _turbo(self) -> bool | None:
        intel = self.number(f"{_CPU}/intel_pstate/no_turbo")
        if intel is not None:
            return intel == 0
        other = self.number(f"{_CPU}/cpufreq/boost")
        return None if other is None else other == 1

    def throttle_events(self) -> int | None:
        """Thermal throttle events since boot, over all cores."""
        counts = [
            self.number(self._relative(p)) for p in self.paths(_CPU, "cpu[0-9]*/thermal_throttle/core_throttle_count")
        ]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    # --- control groups ---

    def _groups(self) -> Iterator[tuple[Path, bool]]:
        """Folders of the CPU control group and those above it → (folder, whether it is version 2)."""
        for line in (self.text("/proc/self/cgroup") or "").splitlines():
            number, _, rest = line.partition(":")
            controllers, _, group = rest.partition(":")
            second = number == "0" and not controllers
            if not second and "cpu" not in controllers.split(","):
                continue
            mounts = (
                ("sys/fs/cgroup", "sys/fs/cgroup/unified")
                if second
                else ("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct")
            )
            parts = [part for part in group.split("/") if part not in ("", "..")]
            for mount in mounts:
                # In a container the path may be the host's, while the mount shows only the container's own group: then
                # the folders named do not exist, and the mount itself is the group.
                for depth in range(len(parts), -1, -1):
                    yield self.root.joinpath(mount, *parts[:depth]), second

    def quota_cores(self) -> float | None:
        """The tightest CPU limit on the way up from our control group, in cores; None: no limit."""
        limits: list[float] = []
        for folder, second in self._groups():
            name = self._relative(folder)
            if second:
                fields = (self.text(f"{name}/cpu.max") or "").split()
            else:
                fields = [self.text(f"{name}/cpu.cfs_quota_us") or "", self.text(f"{name}/cpu.cfs_period_us") or ""]
            with contextlib.suppress(ValueError, IndexError, ZeroDivisionError):  # "max" is no number: no limit
                cores = int(fields[0]) / int(fields[1])
                if cores > 0:  # version 1 writes −1 for no limit
                    limits.append(cores)
        return min(limits, default=None)

    def throttled_periods(self) -> int | None:
        """How often our control group was stopped by its CPU limit, so far."""
        for folder, _ in self._groups():
            for line in (self.text(f"{self._relative(folder)}/cpu.stat") or "").splitlines():
                name, _, value = line.partition(" ")
                if name == "nr_throttled" and value.isdigit():
                    return int(value)
        return None

    # --- memory, clock, place ---

    def swapped_pages(self) -> tuple[int, int] | None:
        """Pages swapped (in, out) since boot."""
        fields = dict(line.split(" ", 1) for line in (self.text("/proc/vmstat") or "").splitlines() if " " in line)
        with contextlib.suppress(KeyError, ValueError):
            return int(fields["pswpin"]), int(fields["pswpout"])
        return None

    def memory(self, known: Memory) -> Memory:
        """`known` (sizes) with swappiness and huge pages."""
        chosen = (self.text("/sys/kernel/mm/transparent_hugepage/enabled") or "").partition("[")[2].partition("]")[0]
        return msgspec.structs.replace(
            known, swappiness=self.number("/proc/sys/vm/swappiness"), huge_pages=printable(chosen) or None
        )

    def clock(self, known: Clock) -> Clock:
        """`known` with the kernel's clock source."""
        source = self.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        return msgspec.structs.replace(known, source=printable(source) if source else None)

    def place(self, known: Place) -> Place:
        """`known` with the container and the virtual machine, if any."""
        return msgspec.structs.replace(known, container=self._container(), virtual_machine=self._machine())

    def _container(self) -> str | None:
        named = self.text("/run/systemd/container")
        if named:
            return printable(named)
        if (self.root / ".dockerenv").exists():
            return "docker"
        if (self.root / "run/.containerenv").exists():
            return "podman"
        groups = self.text("/proc/1/cgroup") or ""
        return next((name for name in _CONTAINERS if name in groups), None)

    def _machine(self) -> str | None:
        names = " ".join(
            self.text(f"/sys/class/dmi/id/{field}") or "" for field in ("sys_vendor", "product_name")
        ).lower()
        for word, name in _MACHINES.items():
            if word in names:
                return name
        kind = self.text("/sys/hypervisor/type")
        if kind:
            return printable(kind)
        # On x86 the processor itself says that a hypervisor is below.
        return "hypervisor" if "hypervisor" in (self._cpu_info("flags") or "").split() else None


_CPU = "/sys/devices/system/cpu"
