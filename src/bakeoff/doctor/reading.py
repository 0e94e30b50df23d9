"""What was read of a machine. None: the platform does not tell."""

from __future__ import annotations

import msgspec


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The processor, and how much of it may be used."""

    model: str | None = None
    logical: int | None = None
    physical: int | None = None
    affinity: int | None = None  # logical cores on which this process may run
    quota_cores: float | None = None  # limit of the control group; None: no limit
    throttled_periods: int | None = None  # periods of the interval in which that limit stopped somebody
    governors: tuple[str, ...] = ()  # distinct frequency governors
    turbo: bool | None = None
    frequency_mhz: float | None = None
    max_frequency_mhz: float | None = None


class HotProcess(msgspec.Struct, frozen=True, kw_only=True):
    """Another process that used the CPU. Its command line is never read: it may hold secrets."""

    pid: int
    name: str
    cores: float  # CPU time ÷ interval


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What went on during the interval."""

    interval_s: float
    busy_cores: float | None = None  # busy CPU time of the machine ÷ interval
    other_cores: float | None = None  # the same, of other processes that could be read
    steal_share: float | None = None  # stolen time ÷ (interval × cores)
    load1: float | None = None
    runnable: float | None = None  # mean number of runnable tasks beside this one
    hot: tuple[HotProcess, ...] = ()  # hottest first


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory [bytes] and swapping [pages/s over the interval]."""

    total: int | None = None
    available: int | None = None
    swap_total: int | None = None
    swap_used: int | None = None
    swapped_in: float | None = None
    swapped_out: float | None = None
    swappiness: int | None = None
    huge_pages: str | None = None  # transparent huge pages: always | madvise | never


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """The monotonic clock."""

    source: str | None = None  # the kernel's clock source
    resolution_s: float | None = None
    step_s: float | None = None  # smallest step seen between two readings: what a stamp can tell apart


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """Supply and heat."""

    on_battery: bool | None = None
    battery_percent: float | None = None
    temperature_c: float | None = None  # hottest processor sensor
    throttle_events: int | None = None  # thermal, in the interval
    throttle_events_ever: int | None = None  # since boot


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where this runs."""

    system: str = ""
    container: str | None = None
    virtual_machine: str | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of this process, and settings that it hands down to the servers it starts."""

    open_files: int | None = None  # soft limit
    open_files_hard: int | None = None
    thread_variables: dict[str, str] = {}  # set variables that change thread counts


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """How late an event loop ran its timers [s]. Loop timers are themselves rounded to about 1 ms."""

    loop: str
    ticks: int
    p50_s: float
    p99_s: float
    max_s: float


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, as NVML tells it."""

    index: int
    name: str
    driver: str | None = None
    persistence: bool | None = None
    busy: float | None = None  # share of time, 0..1
    other_processes: int | None = None  # processes that compute on it
    memory_used: int | None = None
    memory_total: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    default_limit_w: float | None = None
    clock_mhz: float | None = None
    max_clock_mhz: float | None = None
    slowed_by: tuple[str, ...] = ()  # why its clocks are held back, heat and power alarms only


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the checks look at."""

    cpu: Cpu = Cpu()
    activity: Activity = Activity(interval_s=0.0)
    memory: Memory = Memory()
    clock: Clock = Clock()
    power: Power = Power()
    place: Place = Place()
    limits: Limits = Limits()
    lag: Lag | None = None
    gpus: tuple[Gpu, ...] = ()
    gpu_problem: str | None = None  # a GPU seems to be there, and cannot be asked


def printable(text: str, longest: int = 40) -> str:
    """Text of unknown origin on one bounded line without control characters (a process may name itself anything)."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:longest])
