import math

import numpy as np
import pytest

from bakeoff.compare.pairs import Grid, joined
from bakeoff.metrics import METRICS

from .simulate import Arm, Simulation, experiment

TTFT = METRICS["ttft_s"]


def grid_of(simulation: Simulation, *, leave_out: set[tuple[int, str]] | None = None) -> Grid:
    drop = leave_out or set()
    return Grid(simulation.experiment, [b for b in simulation.blocks if (b.block.round, b.block.variant) not in drop])


def test_pairs_are_made_within_rounds() -> None:
    simulation = Simulation(experiment()).run(4)
    grid = grid_of(simulation, leave_out={(1, "base"), (2, "flash")})
    assert [p.round for p in grid.pairs("base", "flash", "chat/c1")] == [0, 3]
    assert [p.round for p in grid.aa_pairs("chat/c1")] == [0]  # rounds 0 and 1 had an A/A visit
    assert grid.rounds() == 2


def test_a_true_ratio_is_found() -> None:
    simulation = Simulation(experiment(), {"flash": Arm(ttft_s=0.055)}).run(5)
    series = grid_of(simulation).series("base", "flash", "chat/c1", TTFT, "p50")
    assert series.keys == (0, 1, 2, 3, 4)
    assert float(series.logs.mean()) == pytest.approx(math.log(1.1), abs=0.01)
    assert series.rounds == 5


def test_swapped_arms_give_the_inverse() -> None:
    grid = grid_of(Simulation(experiment(), {"flash": Arm(ttft_s=0.055)}).run(3))
    for metric in METRICS.values():
        if metric.scope != "start":
            there = grid.series("base", "flash", "chat/c1", metric, metric.statistics[0])
            back = grid.series("flash", "base", "chat/c1", metric, metric.statistics[0])
            assert there.logs == pytest.approx(-back.logs)


def test_order_of_blocks_does_not_matter() -> None:
    simulation = Simulation(experiment()).run(4)
    shuffled = [simulation.blocks[i] for i in np.random.default_rng(0).permutation(len(simulation.blocks))]
    a = grid_of(simulation).series("base", "flash", "chat/c1", TTFT, "p50")
    b = Grid(simulation.experiment, shuffled).series("base", "flash", "chat/c1", TTFT, "p50")
    assert a.logs.tolist() == b.logs.tolist()


def test_a_repeated_block_replaces_the_earlier_one() -> None:
    simulation = Simulation(experiment(), {"flash": Arm(fail=1.0)}).run(1)
    again = Simulation(experiment()).run(1)
    base, flash = (next(b for b in again.blocks if b.block.variant == n) for n in ("base", "flash"))
    import msgspec

    newer = [
        type(b)(block=msgspec.structs.replace(b.block, id=b.block.id + 100), columns=b.columns) for b in (base, flash)
    ]
    grid = Grid(simulation.experiment, [*newer, *simulation.blocks])
    assert grid.pairs("base", "flash", "chat/c1")[0].other.completed == 16


def test_rounds_of_one_start_are_averaged_and_only_whole_groups_enter() -> None:
    simulation = Simulation(experiment(start_every=3)).run(8)
    grid = grid_of(simulation)
    grouped = grid.series("base", "flash", "chat/c1", TTFT, "p50")
    assert grouped.keys == (0, 1)
    assert (grouped.rounds, grouped.waiting) == (6, 2)
    assert grouped.logs[0] == pytest.approx(grouped.per_round[:3].mean())
    assert grouped.per_round.size == 8


def test_a_group_that_the_run_has_left_is_whole() -> None:
    simulation = Simulation(experiment(start_every=2)).run(4)
    series = grid_of(simulation, leave_out={(1, "flash")}).series("base", "flash", "chat/c1", TTFT, "p50")
    assert series.keys == (0, 1)
    assert (series.rounds, series.waiting) == (3, 0)


def test_started_once_rounds_are_the_replicates() -> None:
    series = grid_of(Simulation(experiment(start_every=0)).run(4)).series("base", "flash", "chat/c1", TTFT, "p50")
    assert series.keys == (0, 1, 2, 3)


def test_tails_need_many_requests() -> None:
    small = grid_of(Simulation(experiment()).run(2)).series("base", "flash", "chat/c1", TTFT, "p95")
    assert small.logs.size == 0
    assert small.undefined == 2
    from bakeoff.model import BlockSize

    from .simulate import workload

    large = experiment(workloads=(workload(block=BlockSize(requests=200)),))
    assert grid_of(Simulation(large).run(2)).series("base", "flash", "chat/c1", TTFT, "p95").logs.size == 2


def test_failed_blocks_are_undefined() -> None:
    series = grid_of(Simulation(experiment(), {"flash": Arm(fail=1.0)}).run(3)).series(
        "base", "flash", "chat/c1", TTFT, "p50"
    )
    assert series.logs.size == 0
    assert series.undefined == 3


def test_joined_columns_leave_failures_out() -> None:
    simulation = Simulation(experiment(), {"flash": Arm(output_tokens=16, fail=0.5)}, seed=3).run(2)
    a, b = joined(grid_of(simulation).pairs("base", "flash", "chat/c1"), "output_tokens")
    assert 0 < a.size < 32
    assert set(a) == {32.0}
    assert set(b) == {16.0}
