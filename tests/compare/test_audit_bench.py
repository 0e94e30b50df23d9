"""Checks of the bench judge a row by what it is computed from: blocks and starts of its arm and of the base."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from bakeoff.model import BlockData, BlockSize, Load, Result, Variant

from .simulate import Arm, Simulation, changed, experiment, objects, workload
from .test_audit import HEALTHY, cautions, invalid, measured, one
from .test_engine import result_of, row

THREE = experiment(variants=tuple(Variant(name=n, engine="command") for n in ("base", "flash", "fixed")))
BUSY = changed(Arm(), health=msgspec.structs.replace(HEALTHY, other_cpu_share=1.0))


def outcomes(result: Result) -> dict[str, set[str]]:
    rows = (*result.comparisons, *result.resources)
    return {
        name: {r.metric for r in rows if r.candidate == name and r.outcome == "invalid"} for name in ("flash", "fixed")
    }


def test_what_one_candidate_met_is_not_held_against_another() -> None:
    result = measured({"fixed": BUSY}, THREE)
    touched = outcomes(result)
    assert {"ttft_s", "tpot_s", "cold_start_s"} <= touched["fixed"]
    assert touched["flash"] == set()
    cell, starts = cautions(result, "contention")
    assert (cell.variant, cell.severity) == ("fixed", "invalid")
    assert cell.message.startswith("in 8 of 16 blocks of base and fixed other processes took more than 10 %")
    assert starts.message.startswith("8 of 16 starts of base and fixed met a busy machine: in the block after, other")


def test_what_all_met_is_told_once() -> None:
    result = measured({"base": BUSY, "flash": BUSY, "fixed": BUSY}, THREE)
    found = [c for c in cautions(result, "contention") if c.cell]
    assert [(c.variant, c.message[:21]) for c in found] == [(None, "in 24 of 24 blocks ot")]
    assert all("ttft_s" in touched for touched in outcomes(result).values())


def ended_early(keep: set[str]) -> Simulation:
    simulation = Simulation(THREE, {"base": BUSY, "flash": BUSY, "fixed": BUSY}).run(1)
    simulation.blocks = [b for b in simulation.blocks if b.block.variant in keep and b.block.kind == "measure"]
    simulation.starts = [s for s in simulation.starts if s.variant in keep and s.kind == "measure"]
    return simulation


def test_a_run_that_ended_before_any_pair_has_nothing_invalid() -> None:
    result = result_of(ended_early({"fixed"}))
    found = one(result, "contention")
    assert (found.severity, found.variant) == ("warning", "fixed")
    assert found.message.startswith("in 1 of 1 block of fixed other processes took")
    assert outcomes(result) == {"flash": set(), "fixed": set()}
    assert not cautions(result, "one-start")


def test_a_candidate_without_pairs_is_not_judged_by_those_of_another() -> None:
    result = result_of(ended_early({"base", "fixed"}))
    assert outcomes(result)["flash"] == set()
    assert "ttft_s" in outcomes(result)["fixed"]
    assert one(result, "one-start").message == (
        "each of these servers was started once (base, fixed): the result holds for these starts only"
    )


@pytest.mark.parametrize(("busy", "severe"), [(3, False), (5, True)])
def test_a_start_is_judged_by_the_first_block_after_it(busy: int, severe: bool) -> None:
    """Two arms: up to a third of the starts may have met a busy machine. Memory is what it is on any."""
    asked = experiment(variants=tuple(Variant(name=n, engine="command") for n in ("base", "flash")))
    simulation = Simulation(asked, {"flash": BUSY}).run(busy)
    simulation.arms["flash"] = Arm()
    result = result_of(simulation.run(7 - busy))
    assert ({"cold_start_s", "ready_s"} <= invalid(result)) == severe
    assert "peak_memory_bytes" not in invalid(result)


@pytest.mark.parametrize(("again", "told"), [(1, "1 try at a block met"), (2, "2 tries at blocks met")])
def test_tries_are_not_called_blocks(again: int, told: str) -> None:
    simulation = Simulation(experiment()).run(6)
    first = simulation.blocks[0]
    simulation.blocks += [
        BlockData(block=msgspec.structs.replace(first.block, id=1000 + i), columns=first.columns) for i in range(again)
    ]
    assert one(result_of(simulation), "repeated").message.startswith(f"{told} a busy machine and w")


# failures


@pytest.mark.parametrize("load", [Load(kind="closed", levels=(1.0,)), Load(kind="open", levels=(4.0,))])
def test_rates_and_costs_of_survivors_are_a_selection_too(load: Load) -> None:
    """Goodput counts a failure as a miss; in a closed loop the miss takes no time, so that it costs nothing."""
    variants = tuple(Variant(name=n, engine="openai", settings={"price": {"hour": 1.0}}) for n in ("base", "flash"))
    asked = experiment(variants=variants, workloads=(workload(load=load, slo={"ttft_s": 0.5}),))
    result = measured({"flash": Arm(fail=0.31, block={"energy_j": 5.0})}, asked)
    assert "times, rates and costs" in one(result, "survivorship").message
    rates = {"request_throughput_rps", "token_throughput_tps", "cost_per_request"}
    assert {"ttft_s", "e2e_latency_s"} | rates <= invalid(result)
    assert ("goodput_rps" in invalid(result)) == (load.kind == "closed")


def test_unequal_losses_of_both_arms_are_a_selection() -> None:
    result = measured({"base": Arm(fail=0.25), "flash": Arm(fail=0.7)})
    assert one(result, "survivorship").variant == "flash"


def test_a_loss_that_a_candidate_shares_with_the_base_is_held_against_the_others() -> None:
    result = measured({"base": Arm(fail=0.4), "flash": Arm(fail=0.4)}, THREE)
    found = one(result, "survivorship")
    assert (found.variant, "of the requests of base failed" in found.message) == ("fixed", True)
    assert outcomes(result)["flash"] == set()
    assert "ttft_s" in outcomes(result)["fixed"]


def failing(first: int) -> Arm:
    """So many requests of every block fail."""

    def errors(columns: dict[str, Any]) -> Any:
        return objects(["http" if i < first else None for i in range(len(columns["index"]))])

    return Arm(columns={"error": errors})


def test_requests_that_failed_are_not_taken_for_a_small_block() -> None:
    found = one(measured({"flash": failing(3)}), "tails")
    assert "a block has 16 requests, of which failures left 13, and needs 200 for p95 and 1000 for p99" in found.message
    assert found.remedy == "mend what makes requests fail, and raise `block: {requests: …}` where tails matter"


def test_a_block_that_is_large_enough_needs_no_larger_one() -> None:
    asked = experiment(workloads=(workload(block=BlockSize(requests=1000)),), aa_pairs=0)
    found = one(measured({"flash": failing(30)}, asked, rounds=2), "tails")
    assert found.message.startswith("p99 not reported: a block has 1000 requests, of which failures left 970")
    assert found.remedy == "mend what makes requests fail"
    assert row(measured({"flash": failing(30)}, asked, rounds=2), "ttft_s").pairs == 2


def test_blocks_that_all_succeed_are_only_too_small() -> None:
    found = one(measured(), "tails")
    assert found.message == "p95 and p99 not reported: a block has 16 requests, and needs 200 for p95 and 1000 for p99"
    assert np.all([found.severity == "note", found.remedy.startswith("raise `block")])
