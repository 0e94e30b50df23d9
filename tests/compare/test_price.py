"""Memory, start-up, energy, cost and where they break even, on simulated runs."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from bakeoff.compare import compare_blocks
from bakeoff.compare.memory import growth
from bakeoff.model import Block, BreakEven, Experiment, Health, Power, Result, Start, Variant

from .simulate import Arm, Simulation, experiment, workload

GB = 1_000_000_000
SECOND = 1_000_000_000


def judged(asked: Experiment, arms: dict[str, Arm], rounds: int = 8, **start: Any) -> Result:
    """`start`: fields of each variant's starts, as {variant: {field: value or function of the start}}."""
    run = Simulation(asked, arms).run(rounds)
    starts = [_changed(s, start.get(s.variant, {})) for s in run.starts]
    return compare_blocks(asked, run.blocks, starts, run="r", state="complete")


def _changed(start: Start, fields: dict[str, Any]) -> Start:
    return msgspec.structs.replace(start, **{k: v(start) if callable(v) else v for k, v in fields.items()})


def blocks(anon: Any, starts: int = 4, each: int = 9) -> list[Block]:
    """anon: bytes by (start, minute)."""
    return [
        Block(
            id=s * each + i, round=s, position=0, variant="v", cell="chat/c1", start_id=s, group=s,
            started_ns=(s * 1000 + i * 60) * SECOND, ended_ns=(s * 1000 + i * 60 + 50) * SECOND, wall=0.0,
            window_ns=(0, 1), requests=1, errors=0, memory={"anon": float(anon(s, i))},
        )
        for s in range(starts) for i in range(each)
    ]  # fmt: skip


# memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_growth_beyond_noise_is_a_leak() -> None:
    rng = np.random.default_rng(1)
    found = growth(blocks(lambda s, i: GB + s * 3e7 + i * 2e7 + rng.normal(0, 1e6)))
    assert found is not None
    assert found.leak
    assert found.per_hour.point == pytest.approx(60 * 2e7, rel=0.1)


def test_levels_that_differ_by_start_are_no_leak() -> None:
    rng = np.random.default_rng(2)
    found = growth(blocks(lambda s, _i: GB + s * 5e8 + rng.normal(0, 5e6)))
    assert found is not None
    assert not found.leak


def test_a_cache_that_fills_itself_first_is_no_leak() -> None:
    found = growth(blocks(lambda _s, i: GB + min(i, 3) * 1e8))
    assert found is not None
    assert not found.leak


def test_leaks_are_rare_where_there_is_none() -> None:
    rng = np.random.default_rng(3)
    leaks = [growth(blocks(lambda _s, _i: GB + rng.normal(0, 4e7))) for _ in range(300)]
    assert sum(found is not None and found.leak for found in leaks) <= 2


def test_too_few_blocks_tell_nothing() -> None:
    assert growth(blocks(lambda _s, i: GB + i * 1e9, starts=3, each=2)) is None
    assert growth([]) is None


def test_memory_is_split_where_the_engine_tells() -> None:
    arm = Arm(peak_bytes=GB, block={"memory": {"anon": 0.9 * GB, "mapped": 0.3 * GB}})
    parts = {"weights": 0.3 * GB, "kv cache": 0.2 * GB}
    result = judged(experiment(), {"base": arm}, base={"memory_parts": parts})
    base = next(m for m in result.memory if m.variant == "base")
    assert base.steady_private.point == pytest.approx(0.9 * GB)
    assert base.peak_private.point == pytest.approx(GB, rel=0.01)
    assert base.parts == {**parts, "rest": pytest.approx(0.7 * GB)}
    assert base.parts_of == "process"
    flash = next(m for m in result.memory if m.variant == "flash")
    assert flash.parts == {}
    assert flash.peak_gpu.point is None


def test_reserved_memory_that_was_never_touched_leaves_no_rest() -> None:
    arm = Arm(block={"memory": {"anon": 0.1 * GB, "mapped": 0.0}})
    result = judged(experiment(), {"base": arm}, base={"memory_parts": {"kv cache": GB}})
    assert next(m for m in result.memory if m.variant == "base").parts == {"kv cache": GB}


def test_a_leak_is_said_with_its_remedy() -> None:
    level = iter(range(10_000))
    asked = experiment(start_every=0, resident="all")
    run = Simulation(asked, {}).run(12)
    data = [
        msgspec.structs.replace(d.block, memory={"anon": GB + (next(level) * 4e7 if d.block.variant == "flash" else 0)})
        for d in run.blocks
    ]
    from dataclasses import replace

    result = compare_blocks(
        asked,
        [replace(d, block=b) for d, b in zip(run.blocks, data, strict=True)],
        run.starts,
        run="",
        state="complete",
    )
    (caution,) = [c for c in result.warnings if c.code == "memory-growth"]
    assert caution.variant == "flash"


# start-up ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _phases(**more: Any) -> dict[str, Any]:
    return {
        "alive_ns": lambda s: s.spawn_ns + 10**7,
        "port_ns": lambda s: s.spawn_ns + 10**8,
        "first_request_ns": lambda s: s.ready_ns + 5 * SECOND,
        "first_token_ns": lambda s: s.ready_ns + 5 * SECOND + 3 * 10**8,
        **more,
    }


def test_phases_and_the_first_request() -> None:
    result = judged(experiment(), {}, base=_phases())
    row = next(s for s in result.startups if s.variant == "base")
    assert list(row.phases) == ["process", "port", "ready", "first request"]
    assert row.phases["process"].point == pytest.approx(0.01)
    assert sum(i.point or 0 for i in row.phases.values()) == pytest.approx(row.total.point)
    assert row.first_request.point == pytest.approx(0.3)
    assert row.penalty.point == pytest.approx(0.3 - (row.typical_request.point or 0))


def test_cold_starts_stand_apart_from_warm_ones() -> None:
    cold = {"page_cache": lambda s: "cold" if s.group % 2 == 0 else "warm"}
    slow = {"first_token_ns": lambda s: s.first_token_ns + (4 * SECOND if s.group % 2 == 0 else 0)}
    result = judged(experiment(page_cache="alternate"), {}, base=cold | slow, flash=cold)
    rows = {(s.variant, s.page_cache): s for s in result.startups}
    assert rows["base", "cold"].starts == rows["base", "warm"].starts == 4
    assert (rows["base", "cold"].total.point or 0) > (rows["base", "warm"].total.point or 0) + 3
    assert not [c for c in result.warnings if c.code == "page-cache"]
    states = {b.page_cache for b in result.break_evens if b.kind == "start-up"}
    assert states == {"cold", "warm"}


def test_a_start_that_was_not_as_asked_is_said() -> None:
    result = judged(experiment(page_cache="cold"), {}, base={"page_cache": "cold"}, flash={"page_cache": "warm"})
    (caution,) = [c for c in result.warnings if c.code == "page-cache"]
    assert caution.variant == "flash"


def _start_up(base: Arm, flash: Arm) -> BreakEven:
    result = judged(experiment(), {"base": base, "flash": flash}, rounds=12)
    (row,) = [b for b in result.break_evens if b.kind == "start-up"]
    return row


def test_a_slower_start_is_made_up_for() -> None:
    row = _start_up(Arm(start_s=2.0), Arm(start_s=12.0, tpot_s=0.01))
    assert (row.status, row.candidate_after) == ("at", True)
    saved = 31 * 0.01
    assert row.at.point == pytest.approx(10 / saved, rel=0.15)
    assert row.at.low is not None
    assert row.at.high is not None
    assert row.at.low < 10 / saved < row.at.high


def test_a_faster_start_is_used_up() -> None:
    row = _start_up(Arm(start_s=12.0, tpot_s=0.01), Arm(start_s=2.0))
    assert (row.status, row.candidate_after) == ("at", False)


def test_never_and_at_once() -> None:
    assert _start_up(Arm(start_s=2.0), Arm(start_s=9.0, tpot_s=0.03)).status == "never"
    assert _start_up(Arm(start_s=9.0), Arm(start_s=2.0, tpot_s=0.01)).status == "at once"


def test_what_the_pairs_do_not_tell_stays_open() -> None:
    row = _start_up(Arm(), Arm())
    assert row.status == "unresolved"
    assert "do not tell" in (row.reason or "")


# energy ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_measured_energy_gross_and_above_idle() -> None:
    run = Simulation(experiment(), {}).run(6)
    from dataclasses import replace

    def lit(data: Any) -> Any:
        seconds = (data.block.window_ns[1] - data.block.window_ns[0]) / 1e9
        block = msgspec.structs.replace(data.block, energy_j=100 * seconds, energy_by={"cpu": 1.0}, idle_w=40.0)
        return replace(data, block=block)

    result = compare_blocks(experiment(), [lit(d) for d in run.blocks], run.starts, run="", state="complete")
    row = result.energy[0]
    assert (row.source, row.devices) == ("measured", ("cpu",))
    assert row.watts.point == pytest.approx(100)
    assert row.gross_j.point is not None
    assert row.net_j.point == pytest.approx(0.6 * row.gross_j.point)
    assert row.per_token_j.point == pytest.approx(row.gross_j.point / 32)
    assert {c.metric for c in result.comparisons} >= {"energy_per_token_j"}


def test_declared_watts_are_modelled_by_utilisation() -> None:
    half = Health(tree_cpu_share=1.0, cores=2)
    settings = {"energy": {"idle": "20 W", "busy": "60 W"}}
    variants = (Variant(name="base", engine="openai"), Variant(name="flash", engine="openai", settings=settings))
    asked = experiment(power=Power(idle=40, busy=120), variants=variants)
    result = judged(asked, {"base": Arm(health=half), "flash": Arm(health=Health(cores=2))})
    rows = {row.variant: row for row in result.energy}
    assert {row.source for row in rows.values()} == {"modelled"}
    assert rows["base"].watts.point == pytest.approx(80)
    assert rows["flash"].watts.point == pytest.approx(60)  # not seen: a closed loop keeps it at work
    assert not [c for c in result.comparisons if c.metric == "energy_per_token_j"]


def test_unknown_energy_has_a_reason_and_no_number() -> None:
    result = judged(experiment(), {})
    assert [row.variant for row in result.energy] == ["base", "flash"]
    for row in result.energy:
        assert row.source == "unknown"
        assert row.gross_j.point is row.watts.point is None
        assert "energy: {idle" in (row.reason or "")


# cost ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _priced(base: dict[str, Any], flash: dict[str, Any], **arms: Arm) -> Result:
    prices = {"base": base, "flash": flash}
    variants = tuple(Variant(name=n, engine="openai", settings={"price": p}) for n, p in prices.items())
    return judged(experiment(variants=variants, workloads=(workload(),)), dict(arms))


def test_a_machine_by_the_hour_against_a_price_by_the_token() -> None:
    tokens = {"input": 10.0, "output": 30.0}
    result = _priced(tokens, {"hour": 2.5})
    (row,) = [b for b in result.break_evens if b.kind == "volume"]
    each = (128 * 10 + 32 * 30) / 1e6
    assert (row.status, row.candidate_after) == ("at", True)
    assert row.at.point == pytest.approx(2.5 / each)
    assert row.reason is None
    cost = next(c for c in result.comparisons if c.metric == "cost_per_request")
    assert cost.base.point == pytest.approx(each)
    assert cost.value.point == pytest.approx(2.5 / 3600 * 0.7, rel=0.2)  # one at a time, 0.7 s each


def test_more_than_the_machine_can_serve_is_said() -> None:
    (row,) = [b for b in _priced({"input": 0.1, "output": 0.1}, {"hour": 50}).break_evens if b.kind == "volume"]
    assert "no match" in (row.reason or "")


def test_no_volume_where_both_are_priced_alike() -> None:
    result = _priced({"input": 1.0, "output": 1.0}, {"input": 2.0, "output": 1.0})
    assert not [b for b in result.break_evens if b.kind == "volume"]


def test_a_price_of_nothing_is_never_beaten() -> None:
    (row,) = [b for b in _priced({"input": 0.0, "output": 0.0}, {"hour": 1.0}).break_evens if b.kind == "volume"]
    assert row.status in ("never", "unresolved")
