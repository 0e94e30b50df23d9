"""The simulated worlds themselves: known truth, planned order, the same again for the same seed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bakeoff.app.verdict import Judge
from bakeoff.compare import compare_blocks, look
from bakeoff.compare.extract import extract
from tests.simulation.baselines import excludes_zero, pair_logs
from tests.simulation.checks import MEAN, TYPICAL
from tests.simulation.counting import Share
from tests.simulation.noise import SCENARIOS, Weather, machine, scatter
from tests.simulation.suite import asked, one_cell
from tests.simulation.trials import claims_of, concluded, ends_at, watched
from tests.simulation.world import World

STILL = Weather(prompt=0.4, ar=0.0, eps=1e-6, start=0.0, slow=0.0, trend=0.0)


def test_without_noise_the_truth_is_found() -> None:
    world = World(experiment=asked("fixed", 6, 20), weather=STILL, effect=math.log(1.10))
    claims = claims_of(concluded(world.measure(6, "truth")))
    assert claims[TYPICAL].outcome == claims[MEAN].outcome == "slower"
    assert claims[TYPICAL].low == pytest.approx(math.log(1.10), abs=1e-5)


def test_same_seed_same_run_other_seed_other_run() -> None:
    world = one_cell("fixed", 6, 20, "+outliers")
    one, two, other = (world.measure(6, "x", seed) for seed in (1, 1, 2))
    assert claims_of(concluded(one)) == claims_of(concluded(two))
    assert claims_of(concluded(one)) != claims_of(concluded(other))


def test_order_is_the_plan_s_or_one_after_the_other() -> None:
    world = one_cell("fixed", 6, 20, "iid")
    planned = [b.block.variant for b in world.measure(6, "order").blocks if b.block.kind == "measure"]
    assert all({planned[i], planned[i + 1]} == {"base", "flash"} for i in range(0, 12, 2))
    run = replace(world, order="one after the other").measure(6, "order")
    assert [b.block.variant for b in run.blocks if b.block.kind == "measure"] == ["base"] * 6 + ["flash"] * 6
    assert "not-interleaved" in {c.code for c in concluded(run).warnings}


def test_prompts_are_the_same_for_both_arms_of_a_round_only() -> None:
    world = World(experiment=asked("fixed", 6, 20), weather=STILL)
    ttft = {
        (b.block.round, b.block.variant): extract(b).values["ttft_s"]
        for b in world.measure(6, "prompts").blocks
        if b.block.kind == "measure"
    }
    assert np.allclose(ttft[0, "base"], ttft[0, "flash"], rtol=1e-4)
    assert not np.allclose(ttft[0, "base"], ttft[1, "base"], rtol=1e-2)


def test_noise_has_the_sizes_it_is_said_to_have() -> None:
    rng = np.random.default_rng(0)
    x = scatter(rng, SCENARIOS["+AR"], (400, 500))
    assert x.std() == pytest.approx(math.hypot(0.15, 0.15), rel=0.02)
    neighbours = np.corrcoef(x[:, 1:].ravel(), x[:, :-1].ravel())[0, 1]
    assert neighbours == pytest.approx(0.6 * 0.5, abs=0.01)  # half of the variance is AR(1) with φ 0.6
    walks = np.array([machine(rng, SCENARIOS["+drift"], 80) for _ in range(1000)])
    assert walks[:, -1].std() == pytest.approx(0.02, rel=0.1)
    assert (walks[:, -1] - walks[:, 0]).mean() == pytest.approx(0.03, abs=0.004)


def test_looks_are_those_of_the_stop_rule() -> None:
    run = one_cell("anytime", 8, 20, "+drift", math.log(1.5)).measure(8, "judge")
    looks = watched(run, 8)
    assert [seen.rounds for seen in looks] == list(range(2, 9))
    for seen in looks:
        now = run.until(seen.rounds)
        result = compare_blocks(now.asked, now.blocks, now.starts, run="", state="running")
        assert seen.claims == claims_of(result)
        assert seen.stops == (look(now.asked, result, seen.rounds).stop is not None)
        judge = Judge(now.asked, lambda blocks=now.blocks: blocks, lambda starts=now.starts: starts)  # type: ignore[misc]
        assert seen.stops == (judge(seen.rounds).stop is not None)
    assert ends_at(looks).claims[TYPICAL].outcome == "slower"


def test_share_and_its_error() -> None:
    assert Share(5, 100).value == 0.05
    assert Share(0, 100).error > 0
    assert Share(13, 200).at_most(0.05)  # 6.5 %, with an error of 1.5 points
    assert not Share(20, 200).at_most(0.05)
    assert Share(180, 200).at_least(0.93)
    assert not Share(170, 200).at_least(0.93)


def test_t_excludes_zero_where_it_should() -> None:
    assert excludes_zero(np.array([0.1, 0.11, 0.09, 0.1]))
    assert not excludes_zero(np.array([0.1, -0.11, 0.09, -0.1]))
    run = one_cell("fixed", 6, 20, "iid", 0.5).measure(6, "logs")
    assert pair_logs(run, "mean").mean() == pytest.approx(0.5, abs=0.1)
