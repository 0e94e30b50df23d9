"""Which starts are replicates: those that we made, never a second contact with a server that runs."""

from typing import Any

import msgspec
import pytest

from bakeoff.compare import compare_blocks
from bakeoff.compare.merge import Part, merge
from bakeoff.compare.replicates import replication
from bakeoff.compare.view import Material, build_view
from bakeoff.decide import decide
from bakeoff.model import BlockData, Environment, Experiment, Result, Start, Variant

from .simulate import Arm, Simulation, experiment


def engines(base: str, flash: str, **fields: Any) -> Experiment:
    return experiment(variants=(Variant(name="base", engine=base), Variant(name="flash", engine=flash)), **fields)


def simulated(asked: Experiment, rounds: int, *, reached: tuple[str, ...] = (), seed: int = 0) -> Simulation:
    """A run in which some arms are servers of somebody else: their starts are contacts, without a process of ours."""
    simulation = Simulation(asked, {"flash": Arm(tpot_s=0.016)}, seed=seed).run(rounds)
    simulation.starts = [_contact(s) if s.variant in reached else s for s in simulation.starts]
    return simulation


def _contact(start: Start) -> Start:
    return Start(id=start.id, variant=start.variant, round=start.round, group=start.group, kind=start.kind)


def told(
    asked: Experiment, blocks: list[BlockData], starts: list[Start], **options: Any
) -> tuple[Result, str, tuple[str, ...]]:
    """(result, what the title says of the starts, the decision's conditions)."""
    result = compare_blocks(asked, blocks, starts, run="", state="complete", **options)
    decision = decide(asked, result.comparisons, result.quality, result.warnings)
    view = build_view(result, asked, Material(blocks=blocks, starts=starts))
    return result, view.facts[-1], decision.conditions


def one_start(result: Result) -> list[tuple[str | None, str]]:
    return [(c.variant, c.message) for c in result.warnings if c.code == "one-start"]


@pytest.mark.parametrize("every", [0, 1])
def test_many_contacts_with_running_servers_are_one_start(every: int) -> None:
    """As after `--resume`, which reaches each server once more."""
    simulation = simulated(engines("openai", "openai", start_every=every), 8, reached=("base", "flash"))
    if every == 0:  # a second contact from round 4 on
        again = [msgspec.structs.replace(s, id=s.id + 100, round=4) for s in simulation.starts]
        simulation.starts += again
        simulation.blocks = [
            BlockData(block=msgspec.structs.replace(d.block, start_id=d.block.start_id + 100), columns=d.columns)
            if d.block.round >= 4
            else d
            for d in simulation.blocks
        ]
    result, fact, conditions = told(simulation.experiment, simulation.blocks, simulation.starts)
    ((variant, message),) = one_start(result)
    assert variant is None
    assert message.startswith("every server was started once (base, flash)")
    assert fact == "servers not restarted: holds for these starts only"
    assert "for these starts only (the servers were not restarted)" in conditions


@pytest.mark.parametrize("engine", ["openai", "command"])
def test_a_merge_of_runs_on_one_start_each(engine: str) -> None:
    """Running servers stay one start; our own, kept from round to round, are no replicates of the rounds either."""
    reached = ("base", "flash") if engine == "openai" else ()
    parts = []
    for seed in (1, 2):
        run = simulated(engines(engine, engine, start_every=0), 6, reached=reached, seed=seed)
        parts.append(Part(name=str(seed), experiment=run.experiment, environment=Environment(), blocks=run.blocks,
                          starts=run.starts))  # fmt: skip
    merged = merge(parts)
    result, fact, conditions = told(merged.experiment, list(merged.blocks), list(merged.starts))
    assert len(one_start(result)) == 1
    assert "holds for these starts only" in fact
    assert any(text.startswith("for these starts only") for text in conditions)


def test_fresh_starts_of_our_own_say_nothing() -> None:
    simulation = simulated(engines("command", "command"), 8)
    result, fact, conditions = told(simulation.experiment, simulation.blocks, simulation.starts)
    assert (one_start(result), fact) == ([], "fresh starts")
    assert not any("start" in text for text in conditions)


def test_a_running_base_beside_a_candidate_that_is_restarted() -> None:
    simulation = simulated(engines("openai", "command"), 8, reached=("base",))
    result, fact, conditions = told(simulation.experiment, simulation.blocks, simulation.starts)
    ((variant, message),) = one_start(result)
    assert variant == "base"
    assert "never restarted" in message
    assert fact == "base not restarted: holds for that start only"
    assert "for this start of base only (it was not restarted)" in conditions


def test_without_their_records_the_engine_tells_what_a_start_was() -> None:
    for engine, expected in (("openai", 1), ("command", 4)):
        simulation = simulated(engines(engine, engine), 4)
        found = replication(simulation.experiment, [d.block for d in simulation.blocks], [])
        assert found.starts == {"base": expected, "flash": expected}


@pytest.mark.parametrize(
    ("measured", "fact"),
    [
        ({"fixed"}, None),
        ({"flash", "fixed"}, None),
        ({"base"}, None),
        ({"base", "fixed"}, "one start each of base and fixed: holds for these starts only"),
        ({"base", "flash", "fixed"}, "one start per arm: holds for these starts only"),
    ],
)
@pytest.mark.parametrize("every", [0, 1])
def test_arms_that_were_not_measured_have_no_starts(measured: set[str], fact: str | None, every: int) -> None:
    """A run that ended within its first round."""
    names = ("base", "flash", "fixed")
    asked = experiment(variants=tuple(Variant(name=n, engine="command") for n in names), start_every=every)
    simulation = Simulation(asked).run(1)
    blocks = [d for d in simulation.blocks if d.block.variant in measured]
    starts = [s for s in simulation.starts if s.variant in measured]
    result, title, _ = told(asked, blocks, starts)
    assert replication(asked, [d.block for d in blocks], starts).fact == fact
    assert (title == fact) if fact else ("for these starts" not in title)
    assert bool(one_start(result)) == (fact is not None)
