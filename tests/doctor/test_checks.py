"""Each finding on a fixed reading."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bakeoff.doctor import (
    Activity,
    Clock,
    Cpu,
    Diagnosis,
    Finding,
    Gpu,
    HotProcess,
    Lag,
    Limits,
    Memory,
    Place,
    Power,
    Reading,
    diagnose,
    examine,
    render,
    to_json,
)

GB = 10**9
GPU = Gpu(index=0, name="GPU X", driver="1.2", persistence=True, busy=0.0, other_processes=0, temperature_c=40)
FIT = Reading(
    cpu=Cpu(logical=8, physical=4, affinity=8, governors=("performance",), frequency_mhz=3000, turbo=False),
    activity=Activity(interval_s=2, busy_cores=0.1, other_cores=0.05, steal_share=0.0, load1=0.2, runnable=0.1),
    memory=Memory(total=32 * GB, available=24 * GB, swap_total=0, swap_used=0, swapped_in=0, swapped_out=0),
    clock=Clock(source="tsc", resolution_s=1e-9, step_s=3e-8),
    power=Power(on_battery=False, temperature_c=50, throttle_events=0, throttle_events_ever=0),
    place=Place(system="Linux"),
    limits=Limits(open_files=4096),
    lag=Lag(loop="uvloop", ticks=200, p50_s=1e-4, p99_s=1e-3, max_s=2e-3),
    gpus=(GPU,),
)


def reading(part: str, **changes: Any) -> Reading:
    """The fit reading with one part changed."""
    return msgspec.structs.replace(FIT, **{part: msgspec.structs.replace(getattr(FIT, part), **changes)})


def found(where: Reading, code: str) -> Finding:
    """The one finding of that code."""
    (finding,) = [f for f in diagnose(where).findings if f.code == code]
    return finding


def test_a_fit_machine_is_fit() -> None:
    diagnosis = diagnose(FIT)
    assert {f.severity for f in diagnosis.findings} == {"ok"}
    assert all(not f.remedy for f in diagnosis.findings)
    assert diagnosis.exit_code() == diagnosis.exit_code(strict=True) == 0


CASES: list[tuple[str, dict[str, Any], str, str, str]] = [
    # part, what is read, code, severity, what the message must say
    ("cpu", {"logical": 1, "affinity": 1, "physical": 1}, "cores", "warning", "1 usable core,"),
    ("cpu", {"affinity": 1}, "cores", "warning", "affinity allows 1"),
    ("cpu", {"affinity": 4}, "cores", "ok", "4 usable cores"),
    ("cpu", {"logical": None, "affinity": None}, "cores", "note", "cannot be read"),
    ("cpu", {"quota_cores": 1.5}, "cores", "warning", "control group allows 1.5"),
    ("cpu", {"quota_cores": 4.0}, "cpu-quota", "warning", "4 cores"),
    ("cpu", {"quota_cores": 4.0, "throttled_periods": 7}, "cpu-quota", "bad", "7 periods"),
    ("cpu", {"governors": ("powersave", "performance")}, "governor", "warning", "powersave, performance, 3000 MHz"),
    ("cpu", {"governors": ()}, "governor", "note", "not told"),
    ("cpu", {"turbo": True}, "turbo", "note", "turbo"),
    ("activity", {"steal_share": 0.009}, "steal", "ok", "0.9 %"),
    ("activity", {"steal_share": 0.02}, "steal", "warning", "2.0 %"),
    ("activity", {"steal_share": 0.31}, "steal", "bad", "31.0 %"),
    ("activity", {"load1": 8.5}, "load", "warning", "8.50 on 8"),
    ("activity", {"runnable": 4.2}, "run-queue", "warning", "4.2 other runnable"),
    ("activity", {"runnable": 9.0}, "run-queue", "bad", "9.0 other runnable"),
    ("activity", {"other_cores": 0.6}, "processes", "warning", "0.60 of 8"),
    ("activity", {"other_cores": 4.0}, "processes", "bad", "4.00 of 8"),
    ("memory", {"available": 2 * GB}, "memory", "warning", "2.00 GB of 32.0 GB"),
    ("memory", {"available": GB // 2}, "memory", "bad", "500 MB"),
    ("memory", {"swapped_in": 2.0, "swapped_out": 1.0}, "swapping", "warning", "2 pages/s in"),
    ("memory", {"swapped_in": 0.0, "swapped_out": 400.0}, "swapping", "bad", "400 pages/s out"),
    ("memory", {"swap_used": GB, "swappiness": 60}, "swap-used", "note", "swappiness 60"),
    ("memory", {"huge_pages": "always"}, "huge-pages", "note", "always on"),
    ("clock", {"source": "hpet"}, "clock", "warning", "hpet"),
    ("clock", {"source": "kvm-clock"}, "clock", "ok", "kvm-clock"),
    ("clock", {"source": None, "step_s": 5e-5}, "clock", "warning", "50.0 µs"),
    ("clock", {"source": None, "step_s": None, "resolution_s": 0.0156}, "clock", "bad", "15.6 ms"),
    ("power", {"on_battery": True, "battery_percent": 63.0}, "power", "warning", "63 %"),
    ("power", {"throttle_events": 3, "throttle_events_ever": 90}, "throttling", "bad", "3 thermal"),
    ("power", {"throttle_events_ever": 90}, "throttling", "note", "90 thermal"),
    ("power", {"temperature_c": 88.0}, "temperature", "warning", "88 °C"),
    ("power", {"temperature_c": 99.0}, "temperature", "bad", "99 °C"),
    ("place", {"container": "docker"}, "container", "note", "docker"),
    ("place", {"virtual_machine": "KVM"}, "vm", "note", "KVM"),
    ("lag", {"p99_s": 0.008}, "event-loop", "warning", "8.00 ms (99 %)"),
    ("lag", {"p50_s": 0.003}, "event-loop", "warning", "3.00 ms (median)"),
    ("lag", {"p50_s": 0.006}, "event-loop", "bad", "6.00 ms (median)"),
    ("lag", {"p99_s": 0.030}, "event-loop", "bad", "30.0 ms (99 %)"),
    ("limits", {"open_files": 256}, "open-files", "warning", "256"),
    ("limits", {"open_files": 64}, "open-files", "bad", "64"),
    ("limits", {"thread_variables": {"OMP_NUM_THREADS": "1"}}, "thread-variables", "note", "OMP_NUM_THREADS=1"),
]
GPU_CASES: list[tuple[dict[str, Any], str, str, str]] = [
    ({"busy": 0.10}, "gpu-busy", "warning", "10 %"),
    ({"busy": 0.97}, "gpu-busy", "bad", "97 %"),
    ({"other_processes": 2}, "gpu-shared", "warning", "2"),
    ({"persistence": False}, "gpu-persistence", "note", "persistence"),
    ({"slowed_by": ("heat (hardware)",)}, "gpu-throttling", "bad", "heat (hardware)"),
    ({"temperature_c": 84}, "gpu-temperature", "warning", "84 °C"),
    ({"temperature_c": 93}, "gpu-temperature", "bad", "93 °C"),
    ({"power_limit_w": 300.0, "default_limit_w": 700.0}, "gpu-power-limit", "note", "300 W of its usual 700 W"),
]


@pytest.mark.parametrize(("part", "changes", "code", "severity", "says"), CASES)
def test_finding(part: str, changes: dict[str, Any], code: str, severity: str, says: str) -> None:
    finding = found(reading(part, **changes), code)
    assert (finding.severity, says in finding.message) == (severity, True), finding
    assert bool(finding.remedy) == (severity != "ok") or code == "cores"


@pytest.mark.parametrize(("changes", "code", "severity", "says"), GPU_CASES)
def test_gpu_finding(changes: dict[str, Any], code: str, severity: str, says: str) -> None:
    other = msgspec.structs.replace(FIT, gpus=(msgspec.structs.replace(GPU, **changes),))
    finding = found(other, code)
    assert (finding.severity, says in finding.message) == (severity, True), finding
    assert finding.remedy


def test_gpu_identity_tells_what_is_known() -> None:
    gpu = msgspec.structs.replace(GPU, memory_used=GB, memory_total=80 * GB, clock_mhz=1400, max_clock_mhz=1980)
    text = found(msgspec.structs.replace(FIT, gpus=(msgspec.structs.replace(gpu, power_w=71.4),)), "gpu").message
    assert text == "GPU 0: GPU X, driver 1.2, 1.00 GB of 80.0 GB in use, 1400 MHz of 1980, 71 W"
    broken = msgspec.structs.replace(FIT, gpus=(), gpu_problem="Driver/library version mismatch")
    assert found(broken, "gpu-driver").severity == "warning"


def test_hot_processes_are_named_and_their_names_are_tamed() -> None:
    hot = (HotProcess(pid=7, name="evil\x1b[31m\nname", cores=0.9), HotProcess(pid=8, name="b", cores=0.3))
    text = render(diagnose(reading("activity", other_cores=1.2, hot=hot)))
    assert "evil?[31m?name (pid 7) 0.90, b (pid 8) 0.30" in text
    assert "\x1b" not in text


def test_nothing_known_is_no_crash_and_not_bad() -> None:
    diagnosis = diagnose(Reading())
    assert diagnosis.worst == "note"
    assert diagnosis.exit_code(strict=True) == 0


@pytest.mark.parametrize(
    ("where", "worst", "exit_code", "strict"),
    [
        (FIT, "ok", 0, 0),
        (reading("place", container="docker"), "note", 0, 0),
        (reading("activity", steal_share=0.02), "warning", 0, 4),
        (reading("activity", steal_share=0.5), "bad", 4, 4),
    ],
)
def test_exit_code_by_severity(where: Reading, worst: str, exit_code: int, strict: int) -> None:
    diagnosis = examine(1.0, sampler=lambda _seconds: where)
    assert diagnosis.worst == worst
    assert (diagnosis.exit_code(), diagnosis.exit_code(strict=True)) == (exit_code, strict)


def test_the_sampler_is_told_how_long() -> None:
    told: list[float] = []

    def sampler(seconds: float) -> Reading:
        told.append(seconds)
        return FIT

    examine(0.7, sampler=sampler)
    assert told == [0.7]


SHOWN = Diagnosis(
    reading=FIT,
    findings=(
        Finding(code="a", severity="ok", message="8 cores"),
        Finding(code="b", severity="note", message="in a VM", remedy="look"),
        Finding(code="c", severity="warning", message="steal 2.0 %", remedy="another host"),
        Finding(code="d", severity="bad", message="swapping", remedy="free memory"),
    ),
)


def test_rendering_plain() -> None:
    assert render(SHOWN) == (
        "✓ ok       8 cores\n"
        "· note     in a VM\n"
        "           → look\n"
        "! warning  steal 2.0 %\n"
        "           → another host\n"
        "✗ bad      swapping\n"
        "           → free memory\n"
        "\n"
        "✗ not fit to measure (1 bad, 1 warning, 1 note)\n"
    )
    assert render(diagnose(FIT)).endswith("\n\n✓ fit to measure\n")


def test_rendering_in_colour_says_the_same() -> None:
    import re

    colored = render(SHOWN, color=True)
    assert "\x1b[31m✗ bad" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(SHOWN)


def test_json_holds_findings_and_reading() -> None:
    value = json.loads(to_json(SHOWN))
    assert value["schema"] == "bakeoff.doctor/1"
    assert value["worst"] == "bad"
    assert [f["code"] for f in value["findings"]] == ["a", "b", "c", "d"]
    assert value["reading"]["cpu"]["logical"] == 8
