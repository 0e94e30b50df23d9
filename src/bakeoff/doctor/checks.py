"""The checks of processor and activity, and the table of all. Pure; each limit stands beside its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..units import seconds
from .checks_gpu import check_gpus
from .checks_host import check_clock, check_limits, check_memory, check_place, check_power
from .diagnosis import Finding, Severity, graded
from .reading import Reading

Check = Callable[[Reading], Iterator[Finding]]


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def usable_cores(reading: Reading) -> float | None:
    """Cores that this process may really use: the least of the machine, its affinity and its quota."""
    cpu = reading.cpu
    known = [float(n) for n in (cpu.logical, cpu.affinity, cpu.quota_cores) if n]
    return min(known) if known else None


def check_cores(reading: Reading) -> Iterator[Finding]:
    """The client needs a core beside the server's: on one core each token of the server waits for the client."""
    cpu, usable = reading.cpu, usable_cores(reading)
    if usable is None:
        yield Finding(code="cores", severity="note", message="the number of cores cannot be read")
        return
    parts = [f"{usable:g} usable {'core' if usable == 1 else 'cores'}"]
    if cpu.logical:
        parts.append(f"{cpu.logical} logical")
    if cpu.physical:
        parts.append(f"{cpu.physical} physical")
    if cpu.affinity and cpu.logical and cpu.affinity < cpu.logical:
        parts.append(f"affinity allows {cpu.affinity}")
    if cpu.quota_cores is not None:
        parts.append(f"control group allows {cpu.quota_cores:g}")
    severity: Severity = "warning" if usable < 2 else "ok"
    remedy = "give the client a core of its own: measure from another machine, or with more cores"
    yield Finding(
        code="cores",
        severity=severity,
        message=", ".join(parts),
        remedy=remedy,
    )
    if cpu.quota_cores is not None and cpu.logical and cpu.quota_cores < cpu.logical:
        yield _quota(cpu.quota_cores, cpu.throttled_periods)


def _quota(cores: float, throttled: int | None) -> Finding:
    # A quota lets threads run and then stops all of them for the rest of a period, which is usually 100 ms.
    if throttled:
        return Finding(
            code="cpu-quota",
            severity="bad",
            message=f"the control group stopped processes in {throttled} periods just now (limit {cores:g} cores)",
            remedy="raise or remove the CPU limit (docker --cpus, Kubernetes limits.cpu), or pin cores with a cpuset",
        )
    return Finding(
        code="cpu-quota",
        severity="warning",
        message=f"a CPU limit of {cores:g} cores stops all threads for tens of ms when it is used up",
        remedy="remove the CPU limit while measuring; pin cores with a cpuset if they must be limited",
    )


def check_frequency(reading: Reading) -> Iterator[Finding]:
    """A governor that follows the load changes the clock with the pauses between requests."""
    cpu = reading.cpu
    now = f", {cpu.frequency_mhz:.0f} MHz now" if cpu.frequency_mhz else ""
    if not cpu.governors:
        text = "frequency governor: not told by this system" + now
        yield Finding(code="governor", severity="note", message=text, remedy="keep the power settings fixed")
    elif set(cpu.governors) <= {"performance"}:
        yield Finding(code="governor", severity="ok", message=f"governor performance{now}")
    else:
        yield Finding(
            code="governor",
            severity="warning",
            message=f"governor {', '.join(cpu.governors)}{now}: the clock follows the load",
            remedy="sudo cpupower frequency-set -g performance",
        )
    if cpu.turbo:
        yield Finding(
            code="turbo",
            severity="note",
            message="turbo is on: the clock depends on heat and on the neighbouring cores",
            remedy="for the narrowest intervals switch it off; interleaved rounds bear it otherwise",
        )


def check_steal(reading: Reading) -> Iterator[Finding]:
    """Time that the hypervisor gave to others: 1 % is one lost ms in 100, 5 % is beyond the usual margin of 3 %."""
    share = reading.activity.steal_share
    if share is None:
        return
    severity = graded(share, 0.01, 0.05)
    yield Finding(
        code="steal",
        severity=severity,
        message=f"steal {_share(share)} of the CPU time",
        remedy="the host is overcommitted: take dedicated cores, or another time or machine",
    )


def check_load(reading: Reading) -> Iterator[Finding]:
    """Runnable tasks beside ours take turns with the server: half a core is felt, all cores are lost."""
    activity, cores = reading.activity, reading.cpu.logical or usable_cores(reading) or 1
    remedy = "stop other work on this machine, and examine again"
    if activity.runnable is not None:
        severity = graded(activity.runnable / cores, 0.5, 1.0)
        yield Finding(
            code="run-queue",
            severity=severity,
            message=f"{activity.runnable:.1f} other runnable tasks on {cores:g} cores",
            remedy=remedy,
        )
    if activity.load1 is not None:
        # The load average looks a minute back and decays slowly, so alone it is never more than a warning.
        severity = "warning" if activity.load1 > cores else "ok"
        text = f"load average {activity.load1:.2f} on {cores:g} cores"
        yield Finding(code="load", severity=severity, message=text, remedy=remedy)


def check_processes(reading: Reading) -> Iterator[Finding]:
    """Other processes: what they use is missing, and what they use in bursts becomes noise."""
    activity = reading.activity
    if activity.other_cores is None:
        return
    cores = reading.cpu.logical or usable_cores(reading) or 1
    # A tenth of one core disturbs a small machine, half of all cores any machine.
    severity: Severity = "ok"
    if activity.other_cores >= 0.5 * cores:
        severity = "bad"
    elif activity.other_cores >= 0.1 * min(cores, 4):
        severity = "warning"
    named = ", ".join(f"{p.name} (pid {p.pid}) {p.cores:.2f}" for p in activity.hot[:3])
    yield Finding(
        code="processes",
        severity=severity,
        message=f"other processes use {activity.other_cores:.2f} of {cores:g} cores" + (f": {named}" if named else ""),
        remedy="stop them while measuring, or pin the server and the client to other cores",
    )


def check_lag(reading: Reading) -> Iterator[Finding]:
    """A client that runs late stamps late. Timers are rounded to 1 ms, so up to about 1 ms is no lag."""
    lag = reading.lag
    if lag is None:
        return
    severity = max(graded(lag.p50_s, 0.002, 0.005), graded(lag.p99_s, 0.005, 0.020), key=("ok", "warning", "bad").index)
    late = f"{seconds(lag.p50_s)} (median), {seconds(lag.p99_s)} (99 %)"
    yield Finding(
        code="event-loop",
        severity=severity,
        message=f"{lag.loop} timers late by {late} in {lag.ticks} ticks",
        remedy="the client would be the bottleneck: stop other work, or run it on another machine",
    )


CHECKS: tuple[Check, ...] = (
    check_cores,
    check_frequency,
    check_steal,
    check_load,
    check_processes,
    check_memory,
    check_clock,
    check_power,
    check_place,
    check_lag,
    check_limits,
    check_gpus,
)
