"""What the demo asks, and that its sizes can be answered in the time it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakeoff.demo import QUALITY_NOTE, DemoModels, demo_experiment
from bakeoff.model import Experiment
from bakeoff.stats.anytime import multiplier

MODELS = DemoModels(base=Path("/m/q8.gguf"), flash=Path("/m/q4.gguf"), source=Path("/m/src.gguf"))

# Two slow cores, measured medians: (prompt tokens/s at 128, at 2,048, output tokens/s at 128, at 2,048).
RATES = {"base": (360, 309, 47, 46), "flash": (287, 179, 50, 42), "fixed": (380, 320, 55, 50)}
START_S = 2.5


def request_s(variant: str, workload: str) -> float:
    short, long, decode_short, decode_long = RATES[variant]
    return 128 / short + 31 / decode_short if workload == "short" else 2048 / long + 31 / decode_long


def visit_s(experiment: Experiment, variant: str) -> float:
    total = START_S
    for workload in experiment.workloads:
        one = request_s(variant, workload.name)
        warm = 1
        while warm < experiment.warmup.max_requests and warm * one < experiment.warmup.max_seconds:
            warm += 1
        assert workload.block.requests is not None
        total += one * (warm + workload.block.requests)
    return total


def gates(experiment: Experiment) -> int:
    return len(experiment.gates) * len(experiment.cells()) * len(experiment.candidates)


def test_one_thing_is_changed_at_a_time() -> None:
    base, flash, fixed = demo_experiment(MODELS).variants

    def differences(a: dict[str, object], b: dict[str, object]) -> set[str]:
        assert a.keys() == b.keys()
        return {key for key in a if a[key] != b[key]}

    assert differences(base.settings, fixed.settings) == {"model"}
    assert differences(flash.settings, fixed.settings) == {"kv_type"}
    assert differences(base.settings, flash.settings) == {"model", "kv_type"}
    assert base.settings["kv_type"] == fixed.settings["kv_type"] == "f16"
    assert flash.settings["kv_type"] == "q8_0"
    assert {v.engine for v in (base, flash, fixed)} == {"llamacpp"}


@pytest.mark.parametrize("quick", [False, True])
def test_the_engine_finds_nothing_wrong_but_the_missing_files(quick: bool) -> None:
    from bakeoff.engines.llamacpp import read_llamacpp

    for variant in demo_experiment(MODELS, quick=quick).variants:
        _, problems = read_llamacpp(variant.settings, {}, Path.cwd())
        assert [p.key for p in problems] == [("model",)]


def test_the_full_demo_is_short_and_long_with_fresh_starts() -> None:
    full = demo_experiment(MODELS)
    assert [(w.name, w.prompts.input_tokens, w.output_tokens) for w in full.workloads] == [
        ("short", 128, 32),
        ("long", 2048, 32),
    ]
    assert (full.start_every, full.resident) == (1, "one")
    assert all(w.length == "fixed" and w.sampling.temperature == 0 for w in full.workloads)
    assert {c.level for c in full.cells()} == {1}


def test_the_quick_demo_is_one_cell_and_one_start_an_arm() -> None:
    quick = demo_experiment(MODELS, quick=True)
    assert [c.key for c in quick.cells()] == ["short/c1"]
    assert (quick.start_every, quick.resident) == (0, "all")


@pytest.mark.parametrize(("quick", "count"), [(False, 8), (True, 4)])
def test_the_first_look_is_the_first_that_can_decide(quick: bool, count: int) -> None:
    experiment = demo_experiment(MODELS, quick=quick)
    assert gates(experiment) == count
    pairs, alpha = experiment.budget.min_pairs, (1 - experiment.confidence) / count
    assert multiplier(pairs, alpha) < 6
    assert multiplier(pairs - 1, alpha) == float("inf")
    assert experiment.budget.max_pairs > pairs


@pytest.mark.parametrize(("quick", "limit_s"), [(False, 12 * 60), (True, 120)])
def test_it_ends_in_time_with_enough_pairs_on_two_slow_cores(quick: bool, limit_s: float) -> None:
    experiment = demo_experiment(MODELS, quick=quick)
    visits = {name: visit_s(experiment, name) for name in RATES}
    pairs = experiment.budget.min_pairs
    if quick:  # every arm, and the second base, starts and warms up once
        blocks = {n: request_s(n, "short") * (experiment.workloads[0].block.requests or 0) for n in RATES}
        total = sum(visits.values()) + visits["base"] + (pairs - 1) * sum(blocks.values())
    else:
        total = pairs * sum(visits.values()) + experiment.aa_pairs * visits["base"]
    assert experiment.budget.seconds is not None
    assert total < experiment.budget.seconds < limit_s


def test_the_quality_note_names_the_reason() -> None:
    assert "already quantised" in QUALITY_NOTE
