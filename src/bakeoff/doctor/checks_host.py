"""Checks of memory, clock, power, place and limits. Pure; each limit stands beside its reason."""

from __future__ import annotations

from collections.abc import Iterator

from ..units import seconds, size
from .diagnosis import Finding, Severity, graded
from .reading import Reading


def check_memory(reading: Reading) -> Iterator[Finding]:
    """Little memory means reclaim; swapping puts a disk into a token's way."""
    memory = reading.memory
    if memory.available is not None and memory.total:
        left = memory.available / memory.total
        severity = graded(-left, -0.10, -0.03)
        yield Finding(
            code="memory",
            severity=severity,
            message=f"{size(memory.available)} of {size(memory.total)} available",
            remedy="close programs, or take a smaller model: it must fit with room to spare",
        )
    moved = (memory.swapped_in or 0.0) + (memory.swapped_out or 0.0)
    if memory.swapped_in is not None and moved > 0:
        yield Finding(
            code="swapping",
            severity=graded(moved, 0.0, 10.0),
            message=f"swapping: {memory.swapped_in:.0f} pages/s in, {memory.swapped_out or 0:.0f} pages/s out",
            remedy="free memory first; then sudo swapoff -a while measuring",
        )
    elif memory.swap_used and memory.total and memory.swap_used > 0.01 * memory.total:
        how = f", swappiness {memory.swappiness}" if memory.swappiness is not None else ""
        yield Finding(
            code="swap-used",
            severity="note",
            message=f"{size(memory.swap_used)} lie in swap{how}, and nothing moves at the moment",
            remedy="what lies there comes back slowly at its first use; warm up, or free memory and swapoff -a",
        )
    if memory.huge_pages == "always":
        yield Finding(
            code="huge-pages",
            severity="note",
            message="transparent huge pages are always on: memory is compacted while servers run",
            remedy="the same for both variants; madvise is calmer (/sys/kernel/mm/transparent_hugepage/enabled)",
        )


# Clock sources that are read without leaving user space, on the platforms that we know.
_GOOD_SOURCES = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource", "riscv_clocksource", "xen", "timebase")


def check_clock(reading: Reading) -> Iterator[Finding]:
    """A stamp must cost and mean less than a µs; hpet and acpi_pm cost some µs each and do not scale over cores."""
    clock = reading.clock
    source = f"clock source {clock.source}" if clock.source else "monotonic clock"
    step = clock.step_s if clock.step_s is not None else clock.resolution_s
    told = f"{source}, steps of {seconds(step)}" if step is not None else source
    if clock.source and not clock.source.startswith(_GOOD_SOURCES):
        yield Finding(
            code="clock",
            severity="warning",
            message=f"{told}: reading it is slow",
            remedy="look why the kernel left tsc (dmesg | grep -i tsc); a firmware update or another host may help",
        )
    elif step is not None and step >= 1e-5:
        # Token gaps are some ms: a step of 1 ms is a large part of one.
        severity: Severity = "bad" if step >= 1e-3 else "warning"
        yield Finding(code="clock", severity=severity, message=told, remedy="measure on a system with a finer clock")
    else:
        yield Finding(code="clock", severity="ok", message=told)


def check_power(reading: Reading) -> Iterator[Finding]:
    """Batteries and heat lower the clock in the middle of a run."""
    power = reading.power
    if power.on_battery is not None:
        left = f" ({power.battery_percent:.0f} %)" if power.battery_percent is not None else ""
        yield Finding(
            code="power",
            severity="warning" if power.on_battery else "ok",
            message=f"runs on battery{left}: the clock is held back" if power.on_battery else "runs on mains",
            remedy="plug it in, and leave low-power mode" if power.on_battery else "",
        )
    if power.throttle_events:
        yield Finding(
            code="throttling",
            severity="bad",
            message=f"{power.throttle_events} thermal throttle events in this interval",
            remedy="let it cool, clean or raise the fans, lower the load; then examine again",
        )
    elif power.throttle_events_ever:
        yield Finding(
            code="throttling",
            severity="note",
            message=f"none now, but {power.throttle_events_ever} thermal throttle events since boot",
            remedy="watch the drift of long runs",
        )
    if power.temperature_c is not None:
        severity = graded(power.temperature_c, 85, 95)  # usual limits of server and laptop processors: 90 to 105 °C
        yield Finding(
            code="temperature",
            severity=severity,
            message=f"processor at {power.temperature_c:.0f} °C",
            remedy="let it cool, and see to the fans",
        )


def check_place(reading: Reading) -> Iterator[Finding]:
    """Containers and virtual machines are no fault; one should know whose neighbours one has."""
    place = reading.place
    for code, what, name in (
        ("container", "a container", place.container),
        ("vm", "a virtual machine", place.virtual_machine),
    ):
        if name:
            yield Finding(
                code=code,
                severity="note",
                message=f"runs in {what} ({name}): neighbours on the host cannot be seen from here",
                remedy="prefer dedicated cores; keep an eye on steal and drift",
            )


def check_limits(reading: Reading) -> Iterator[Finding]:
    """Each request in flight holds a connection; thread variables change what a server does."""
    limits = reading.limits
    if limits.open_files is not None:
        severity = graded(-limits.open_files, -1023, -127)
        yield Finding(
            code="open-files",
            severity=severity,
            message=f"at most {limits.open_files} open files",
            remedy="ulimit -n 4096, else high concurrencies fail to connect",
        )
    if limits.thread_variables:
        told = ", ".join(f"{name}={value}" for name, value in sorted(limits.thread_variables.items()))
        yield Finding(
            code="thread-variables",
            severity="note",
            message=f"{told}: servers started from here inherit it",
            remedy="unset what is not part of the experiment, or set it per variant",
        )
