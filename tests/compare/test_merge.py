"""Runs of one experiment as one run; and what keeps them apart."""

from typing import Any

import msgspec
import pytest

from bakeoff.compare import compare_blocks
from bakeoff.compare.merge import Part, merge
from bakeoff.errors import TooFewData, UsageError
from bakeoff.model import Environment, Experiment, Prompts, Result, Variant

from .simulate import Arm, Simulation, experiment, workload
from .test_engine import row

HERE = Environment(machine={"cpu": "one", "os": "Linux 6"}, variants={"base": {"version": "1"}})
THERE = Environment(machine={"cpu": "two", "os": "Linux 6"}, variants={"base": {"version": "1"}})


def part(
    name: str, rounds: int, *, seed: int = 0, environment: Environment = HERE, asked: Experiment | None = None
) -> Part:
    simulation = Simulation(asked or experiment(), {"flash": Arm(tpot_s=0.022)}, seed=seed).run(rounds)
    return Part(
        name=name,
        experiment=simulation.experiment,
        environment=environment,
        blocks=simulation.blocks,
        starts=simulation.starts,
    )


def judged(parts: list[Part], **options: Any) -> Result:
    merged = merge(parts, **options)
    return compare_blocks(
        merged.experiment, merged.blocks, merged.starts, run="", state="complete", strata=merged.strata
    )


def test_more_pairs_narrow_the_interval() -> None:
    first, second = part("a", 7, seed=1), part("b", 9, seed=2)
    both = row(judged([first, second]), "tpot_s")
    alone = row(judged([second]), "tpot_s")
    assert both.pairs == 16
    assert both.ratio.low is not None
    assert alone.ratio.low is not None
    assert alone.ratio.high is not None
    assert both.ratio.high is not None
    assert both.ratio.high - both.ratio.low < alone.ratio.high - alone.ratio.low


def test_rounds_groups_starts_and_blocks_stay_apart() -> None:
    merged = merge([part("a", 3, seed=1), part("b", 4, seed=2)])
    assert merged.rounds == (3, 4)
    assert merged.strata is None
    assert sorted({b.block.round for b in merged.blocks}) == list(range(7))
    ids = [b.block.id for b in merged.blocks]
    assert ids == sorted(set(ids))
    starts = {s.id: s for s in merged.starts}
    assert len(starts) == len(merged.starts)
    for data in merged.blocks:
        start = starts[data.block.start_id]
        assert (start.variant, start.group) == (data.block.variant, data.block.group)


def test_one_run_is_itself() -> None:
    alone = part("a", 7, seed=3)
    plain = compare_blocks(alone.experiment, alone.blocks, alone.starts, run="", state="complete")
    assert judged([alone]) == plain


def test_another_environment_is_refused_entry_by_entry() -> None:
    with pytest.raises(UsageError) as caught:
        merge([part("a", 2), part("b", 2, environment=THERE)])
    text = str(caught.value)
    assert "their environments differ\n    machine.cpu: one | two\n" in text
    assert "os" not in text.replace("cost", "")
    assert "--merge-anyway" in text


def test_told_to_they_become_strata() -> None:
    parts = [part("a", 7, seed=1), part("b", 8, seed=2, environment=THERE), part("c", 3, seed=3)]
    merged = merge(parts, anyway=True)
    assert merged.strata is not None
    assert [merged.strata[i] for i in (0, 6, 7, 14, 15, 17)] == [0, 0, 1, 1, 0, 0]
    assert [str(d) for d in merged.differences] == ["machine.cpu: one | two | one"]
    assert row(judged(parts, anyway=True), "tpot_s").outcome == "slower"


@pytest.mark.parametrize(
    ("changes", "entry"),
    [
        ({"margin": 0.05}, "margin: 0.03 | 0.05"),
        ({"method": "fixed"}, "method: anytime | fixed"),
        ({"workloads": (workload(output_tokens=8),)}, "workloads.chat.output_tokens: 32 | 8"),
        ({"workloads": (workload(prompts=Prompts(input_tokens=64)),)}, "workloads.chat.prompts"),
        ({"gates": ("tpot_s",)}, "gates"),
        ({"workloads": (workload(), workload(name="more"))}, "workloads: chat | chat, more\n→"),
        ({"variants": (Variant(name="base", engine="openai"), Variant(name="x", engine="openai"))}, "variants"),
    ],
)
def test_another_question_is_refused_whatever_is_told(changes: dict[str, Any], entry: str) -> None:
    first = part("a", 2)
    second = msgspec.structs.replace(first.experiment, **changes)
    other = Part(name="b", experiment=second, environment=HERE, blocks=first.blocks, starts=first.starts)
    with pytest.raises(UsageError, match="different questions") as caught:
        merge([first, other], anyway=True)
    assert entry in str(caught.value)


def test_other_settings_and_a_missing_entry_are_differences_of_environment() -> None:
    first = part("a", 2)
    variants = (Variant(name="base", engine="openai", settings={"model": "/x"}), Variant(name="flash", engine="openai"))
    second = msgspec.structs.replace(first.experiment, variants=variants)
    other = Part(name="b", experiment=second, environment=HERE, blocks=first.blocks, starts=first.starts)
    with pytest.raises(UsageError, match=r"variants\.base\.model: – \| /x"):
        merge([first, other])


def test_seed_budget_and_paths_of_prompts_do_not_change_the_question() -> None:
    first = part("a", 2)
    other = msgspec.structs.replace(first.experiment, seed=9, aa_pairs=0)
    merged = merge([first, Part(name="b", experiment=other, environment=HERE, blocks=(), starts=())])
    assert merged.experiment.budget.max_pairs == 80


def test_an_unfinished_group_is_not_completed_by_another_run() -> None:
    asked = experiment(start_every=3)
    merged = merge([part("a", 7, asked=asked), part("b", 6, seed=1, asked=asked)])
    assert merged.rounds == (6, 6)


def test_nothing_to_merge() -> None:
    with pytest.raises(TooFewData):
        merge([])
