"""Energy over a window: from counters, from power, and not at all."""

from __future__ import annotations

import sys
import time
import types
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.measure.energy import EnergyCounters, EnergyReading, idle_power, window_energy
from bakeoff.model import Sample

SECOND = 10**9


def test_counters_are_read_between_the_samples() -> None:
    seen = [Sample(t_ns=t * SECOND, energy_cpu_j=50.0 * t, energy_gpu_j=1000.0 + 300 * t) for t in range(5)]
    found = window_energy(seen, (SECOND // 2, 3 * SECOND))
    assert found.by_device == {"cpu": pytest.approx(125), "gpu": pytest.approx(750)}
    assert found.joules == pytest.approx(875)


def test_power_is_integrated_where_no_counter_tells() -> None:
    seen = [Sample(t_ns=t * SECOND, gpu_power_w=p) for t, p in ((0, 100.0), (1, 100.0), (2, 200.0), (3, 200.0))]
    assert window_energy(seen, (0, 3 * SECOND)).joules == pytest.approx(100 + 150 + 200)
    assert window_energy(seen, (0, SECOND)).by_device == {"gpu": pytest.approx(100)}


@pytest.mark.parametrize("window", [(0, 9 * SECOND), (-SECOND, SECOND), (SECOND, SECOND)])
def test_nothing_is_assumed_beyond_the_samples(window: tuple[int, int]) -> None:
    seen = [Sample(t_ns=t * SECOND, energy_cpu_j=50.0 * t) for t in range(5)]
    assert window_energy(seen, window).joules is None


def test_unknown_energy_has_no_number() -> None:
    assert window_energy([Sample(t_ns=t * SECOND) for t in range(4)], (0, SECOND)) == (None, {})
    anew = [Sample(t_ns=t * SECOND, energy_cpu_j=v) for t, v in ((0, 900.0), (1, 5.0))]
    assert window_energy(anew, (0, SECOND)).joules is None


@given(st.lists(st.floats(0, 500), min_size=3, max_size=12), st.floats(0, 1), st.floats(0, 1))
def test_windows_add_up(watts: list[float], a: float, b: float) -> None:
    seen = [Sample(t_ns=t * SECOND, gpu_power_w=p) for t, p in enumerate(watts)]
    end = (len(watts) - 1) * SECOND
    cut = sorted(int(share * end) for share in (a, b))
    edges = sorted({0, *cut, end})
    parts = [window_energy(seen, (x, y)).joules or 0.0 for x, y in pairwise(edges)]
    assert sum(parts) == pytest.approx(window_energy(seen, (0, end)).joules or 0.0, rel=1e-6, abs=1e-6)


class _Told(NamedTuple):
    cpu_mj: float
    dram_mj: float | None


class _Cpus:
    def __init__(self) -> None:
        self.reads = 0

    def __len__(self) -> int:
        return 2

    def get_total_energy_consumption(self, index: int) -> _Told:
        self.reads += 1
        return _Told(1000.0 * self.reads, 500.0 if index == 0 else None)


class _Denied(_Cpus):
    def get_total_energy_consumption(self, index: int) -> _Told:
        raise PermissionError


def _zeus(monkeypatch: pytest.MonkeyPatch, cpus: Any) -> None:
    """A library of that shape, which has CPUs alone."""
    module = types.ModuleType("zeus.device.cpu")
    module.get_cpus = lambda: cpus  # type: ignore[attr-defined]  # a stand-in
    for name in ("zeus", "zeus.device"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "zeus.device.cpu", module)
    for name in ("zeus.device.gpu", "zeus.device.soc"):
        monkeypatch.setitem(sys.modules, name, None)


def test_zeus_counts_all_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    _zeus(monkeypatch, _Cpus())
    counters = EnergyCounters()
    assert counters.available
    first, second = counters.read(), counters.read()
    assert first.gpu is None
    assert first.cpu == pytest.approx(7.0)
    assert first.dram == pytest.approx(0.5)
    assert second.cpu == pytest.approx(11.0)


def test_counters_that_may_not_be_read_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    _zeus(monkeypatch, _Denied())
    counters = EnergyCounters()
    assert not counters.available
    assert idle_power(counters) is None


def test_without_the_library_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("zeus", "zeus.device", "zeus.device.cpu", "zeus.device.gpu", "zeus.device.soc"):
        monkeypatch.setitem(sys.modules, name, None)
    counters = EnergyCounters()
    assert not counters.available
    assert counters.read() == EnergyReading()


def test_idle_power_is_the_rise_over_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _zeus(monkeypatch, _Cpus())
    clock = iter([0.0, 1.0, 3.0, 4.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock, 4.0))
    monkeypatch.setattr(time, "sleep", lambda _s: None)
    # Two reads of two packages: 1 + 2 J, then 3 + 4 J, in 4 s; the memory's counter does not move.
    counters = EnergyCounters()
    assert idle_power(counters, seconds=2.0) == pytest.approx(1.0)
