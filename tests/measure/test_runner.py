"""The runner with a scripted measurer: what it saves, repeats, drops and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bakeoff.errors import EngineError, ServerNotReady
from bakeoff.measure.block import BlockMeasurer, MeasuredBlock, OutOfTime
from bakeoff.measure.budget import Ledger
from bakeoff.measure.plan import Step
from bakeoff.measure.runner import Attempt, Outcome, Runner
from bakeoff.model import (
    Answer,
    Block,
    Budget,
    Endpoint,
    Environment,
    Experiment,
    Health,
    Look,
    RequestRecord,
    Sample,
    Start,
    StartContext,
    Variant,
)

from .test_plan import experiment

QUIET, BUSY = Health(other_cpu_share=0.0, cores=2), Health(other_cpu_share=1.0, cores=2)


class Folder:
    """A sink that keeps everything in lists."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.starts: dict[int, Start] = {}
        self.asked: list[Answer] = []

    def write_block(self, block: Block, requests: Sequence[RequestRecord], samples: Sequence[Sample]) -> None:
        self.blocks.append(block)

    def write_start(self, start: Start) -> None:
        self.starts[start.id] = start

    def write_environment(self, environment: Environment) -> None:
        pass

    def log_path(self, start_id: int, variant: str) -> tuple[Path, str]:
        return Path("log"), "log"

    def next_start_id(self) -> int:
        return len(self.starts)

    def next_block_id(self) -> int:
        return len(self.blocks)

    def write_answers(self, answers: Sequence[Answer]) -> None:
        self.asked.extend(answers)

    def answers(self) -> Sequence[Answer]:
        return self.asked


class Engine:
    """Starts nothing; refuses the variants named."""

    name = "fake"

    def __init__(self, refuses: Sequence[str] = ()) -> None:
        self.refuses = refuses
        self.up: set[str] = set()
        self.most_up = 0

    def problems(self, settings: Any, where: Path) -> Sequence[Any]:
        return ()

    def launch(self, variant: Variant, context: StartContext) -> Any:
        if variant.name in self.refuses:
            raise ServerNotReady("it never got ready", where=variant.name)
        self.up.add(variant.name)
        self.most_up = max(self.most_up, len(self.up))
        return Server(self, variant.name, context)


class Server:
    pid = None

    def __init__(self, engine: Engine, name: str, context: StartContext) -> None:
        self.engine, self.name = engine, name
        self.endpoint = Endpoint(base_url="http://127.0.0.1:1/v1", model="m")
        self.start = Start(
            id=context.start_id, variant=name, round=context.round, group=context.group, spawn_ns=1, ready_ns=2
        )

    def check(self) -> None:
        pass

    def fingerprint(self) -> dict[str, str]:
        return {"name": self.name}

    def stop(self) -> Start:
        self.engine.up.discard(self.name)
        return msgspec.structs.replace(self.start, stopped_ns=3)


Script = Callable[[Step, int], Health | EngineError]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Outcome, Folder, Engine]]:
    def go(
        script: Script = lambda _step, _count: QUIET, *, refuses: Sequence[str] = (), asked: Experiment | None = None
    ) -> tuple[Outcome, Folder, Engine]:
        counts: dict[tuple[Any, ...], int] = {}

        async def measure(_self: Any, _resident: Any, step: Step, block_id: int, **_: Any) -> MeasuredBlock:
            counts[step.key] = counts.get(step.key, 0) + 1
            told = script(step, counts[step.key])
            if isinstance(told, EngineError):
                raise told
            block = Block(
                id=block_id, round=step.round, position=step.position, variant=step.variant, cell=step.cell.key,
                kind=step.kind, start_id=0, group=step.group, started_ns=0, ended_ns=1, wall=0.0, window_ns=(0, 1),
                requests=1, errors=0, health=told,
            )  # fmt: skip
            record = RequestRecord(index=0, prompt_id=0, scheduled_ns=0)
            return MeasuredBlock(block, [record], [], [], None)

        monkeypatch.setattr(BlockMeasurer, "measure", measure)
        wanted = asked or experiment(3, budget=Budget(min_pairs=2, max_pairs=2))
        folder, engine = Folder(), Engine(refuses)
        runner = Runner(wanted, {"openai": engine}, folder, stop=lambda _rounds: Look(), ledger=Ledger(wanted))
        return runner.run(Attempt("r", "0")), folder, engine

    return go


def test_a_block_that_met_a_busy_machine_is_measured_again_and_both_are_kept(run: Any) -> None:
    def script(step: Step, count: int) -> Health:
        return BUSY if (step.round, step.variant, step.cell.level, count) == (0, "v1", 4, 1) else QUIET

    outcome, folder, _ = run(script)
    again = [b for b in folder.blocks if (b.round, b.variant, b.cell) == (0, "v1", "chat/c4")]
    assert [b.health.contended for b in again] == [True, False]
    assert len(folder.blocks) == 2 * 3 * 2 + 1
    assert outcome.rounds == 2


def test_a_machine_that_stays_busy_does_not_hold_the_run_up_for_ever(run: Any) -> None:
    outcome, folder, _ = run(lambda _step, _count: BUSY)
    assert len(folder.blocks) == 3 * (2 * 3 * 2)  # each place once and twice again
    assert outcome.failure is None


def test_steal_counts_like_other_processes() -> None:
    assert Health(steal_share=0.05).contended
    assert not Health(steal_share=0.001, other_cpu_share=0.1, cores=2).contended
    assert not Health().contended  # not told is not busy


def test_one_server_is_up_at_a_time_and_none_at_the_end(run: Any) -> None:
    _, folder, engine = run()
    assert engine.most_up == 1
    assert engine.up == set()
    assert all(start.stopped_ns for start in folder.starts.values())
    assert len(folder.starts) == 2 * 3


def test_all_are_up_where_the_experiment_says_so(run: Any) -> None:
    asked = experiment(3, budget=Budget(min_pairs=2, max_pairs=2), resident="all", start_every=0)
    _, folder, engine = run(asked=asked)
    assert engine.most_up == 3
    assert engine.up == set()
    assert len(folder.starts) == 3


def test_a_candidate_that_never_gets_ready_is_dropped_and_the_others_go_on(run: Any) -> None:
    outcome, folder, _ = run(refuses=["v2"])
    assert outcome.failure is None
    assert {b.variant for b in folder.blocks} == {"v0", "v1"}
    assert outcome.rounds == 2


@pytest.mark.parametrize("gone", [["v0"], ["v1", "v2"]])
def test_without_a_base_or_any_candidate_there_is_nothing_to_compare(run: Any, gone: list[str]) -> None:
    outcome, _, engine = run(refuses=gone)
    assert isinstance(outcome.failure, EngineError)
    assert all(name in str(outcome.failure) for name in gone)  # each reason, not only the last one
    assert engine.up == set()


def test_a_running_server_that_answers_nothing_usable_is_dropped_at_once(run: Any) -> None:
    """Every further round would fail in the same way (a wrong key, a wrong model)."""

    def script(step: Step, _count: int) -> Health | EngineError:
        return EngineError("401") if step.variant == "v1" else QUIET

    outcome, folder, _ = run(script, asked=experiment(3, budget=Budget(min_pairs=3, max_pairs=3)))
    assert outcome.failure is None
    assert {b.variant for b in folder.blocks} == {"v0", "v2"}
    assert outcome.rounds == 3


def test_an_interrupt_leaves_no_server_up(run: Any) -> None:
    engines: list[Engine] = []

    def script(step: Step, _count: int) -> Health:
        if step.round == 1:
            raise KeyboardInterrupt
        return QUIET

    before = Engine.launch

    def launch(self: Engine, variant: Variant, context: StartContext) -> Any:
        engines.append(self)
        return before(self, variant, context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "launch", launch)
        with pytest.raises(KeyboardInterrupt):
            run(script)
    assert engines[-1].up == set()


def test_a_block_that_the_budget_cuts_short_is_not_saved_and_blames_nobody(run: Any) -> None:
    def script(step: Step, _count: int) -> Health:
        if step.round == 1:
            raise OutOfTime
        return QUIET

    outcome, folder, engine = run(script)
    assert "time budget" in outcome.reason
    assert outcome.failure is None
    assert {b.round for b in folder.blocks} == {0}
    assert engine.up == set()
