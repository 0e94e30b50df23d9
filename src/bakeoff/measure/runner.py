"""The runner: walks through the plan, block by block, saves each, and asks after every start group whether to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from ..client import LoopRunner, held, loop_runner
from ..errors import EngineError
from ..model import BlockKind, Engine, Environment, Experiment, Profile, Stop, Workload
from ..quality.items import LoadedTask
from ..quality.probabilities import Prompt
from .block import BlockMeasurer, MeasuredBlock, OutOfTime
from .budget import Ledger
from .divergence_pass import DivergenceSink, DivergenceWalks
from .environment import machine_fingerprint
from .forecast import Forecast
from .pilot import Pilot
from .plan import Plan, Step
from .probes import Probes
from .profiling import Profiling
from .progress import Progress
from .quality_pass import AnswerSink, QualityPass
from .residents import Resident, Residents, StartSink, refuse_change
from .roster import Died, Roster
from .search import Reading
from .telemetry import Telemetry
from .warming import all_failed, death

# A burst of other work (a package update, a backup) is over after a block or two; what lasts longer is said instead.
_REPEATS = 2


class RunSink(StartSink, AnswerSink, Protocol):
    """Where a run writes: blocks, starts, environment, answers; and how it numbers them."""

    def next_block_id(self) -> int: ...


class Outcome(NamedTuple):
    """How the measuring ended."""

    rounds: int
    reason: str
    failure: EngineError | None  # set when too few arms were left to compare


class Attempt(NamedTuple):
    """A run, or one resume of it: its name, and in which environment it has been measured so far."""

    run_id: str
    version: str
    environment: Environment | None = None


class Runner:
    """Measures an experiment into a sink. One instance, one run."""

    def __init__(
        self,
        experiment: Experiment,
        engines: dict[str, Engine],
        sink: RunSink,
        *,
        stop: Stop,
        ledger: Ledger,
        progress: Progress | None = None,
        tasks: Sequence[LoadedTask] = (),
    ) -> None:
        """tasks: questions about quality, as `bakeoff.quality.tasks.load_tasks` reads them."""
        self._experiment = experiment
        self._sink = sink
        self._stop = stop
        self._ledger = ledger
        self._progress = progress or Progress()
        self._telemetry = Telemetry()
        self._residents = Residents(experiment, engines, sink, self._telemetry, self._progress)
        self._measurer = BlockMeasurer(experiment, self._residents, self._telemetry, self._progress)
        self._quality = QualityPass(
            experiment, tasks, self._residents, sink=sink, ledger=ledger, progress=self._progress
        )
        self._forecast = Forecast(experiment, ledger, self._measurer.warmer.most)
        self._roster = Roster(experiment, self._progress)

    def run(
        self,
        attempt: Attempt,
        *,
        done: Collection[tuple[int, str, str, BlockKind]] = (),
        client_processes: Mapping[str, int] | None = None,
    ) -> Outcome:
        """Measures until the stop rule, the budget or the plan ends it.

        To resume, give the blocks that exist (`done`), by cell the number of client processes that they were sent from,
        and the attempt with the environment in which they were measured.
        Raises KeyboardInterrupt as it comes (blocks so far are saved); servers are stopped in any case.
        """
        self._measurer.sending.keep(client_processes or {})
        with self._at_work(attempt) as loop:
            return self._rounds(loop, set(done))

    def search(
        self,
        attempt: Attempt,
        *,
        known: Mapping[tuple[str, str], Reading] | None = None,
    ) -> Experiment:
        """Finds the load levels that the experiment leaves open, with probe blocks; returns it with all levels.

        known: what probe blocks of an interrupted search showed, by (variant, cell). Raises as `run` does, and
        EngineError where a variant answers nothing.
        """
        with self._at_work(attempt) as loop:
            probes = Probes(
                self._residents,
                self._measurer.warmer,
                self._ledger,
                self._progress,
                run=loop.run,
                measure=lambda step, workload: self._measure(loop, step, workload),
            )
            return Pilot(self._experiment, self._ledger, probes, known).resolve()

    def profile(
        self,
        attempt: Attempt,
        *,
        traces: Path,
        known: Collection[str] = (),
        save: Callable[[Profile], None],
    ) -> None:
        """A short profiled pass of each variant but the `known` ones; files go below `traces`. Raises as `run` does."""
        with self._at_work(attempt) as loop:
            Profiling(
                self._experiment,
                self._residents,
                self._measurer,
                ledger=self._ledger,
                progress=self._progress,
                traces=traces,
            ).all(loop.run, known, save)

    def diverge(
        self,
        attempt: Attempt,
        *,
        sink: DivergenceSink,
        prompts: Sequence[Prompt] = (),
    ) -> None:
        """Every variant's probabilities along the base's own answers to the prompts (none: the first workload's).

        Raises as `run` does; a variant that tells no probabilities is saved with the reason.
        """
        asked = self._experiment.quality.divergence if self._experiment.quality else None
        if asked is None:
            return
        with self._at_work(attempt) as loop, suppress(OutOfTime):
            DivergenceWalks(
                self._experiment,
                asked,
                self._residents,
                self._measurer,
                sink=sink,
                ledger=self._ledger,
                progress=self._progress,
                prompts=prompts,
            ).all(loop.run)

    @contextmanager
    def _at_work(self, attempt: Attempt) -> Iterator[LoopRunner]:
        """The loop to measure in, with telemetry; servers are stopped in any case."""
        self._measurer.prompts.run_id = attempt.run_id
        known = attempt.environment or Environment()
        machine = machine_fingerprint(attempt.version)
        refuse_change("machine", known.machine, machine)
        self._residents.environment = msgspec.structs.replace(known, machine=machine)
        self._sink.write_environment(self._residents.environment)
        self._telemetry.start()
        try:
            with loop_runner() as loop:
                yield loop
        finally:
            with held():  # a second wish to end must leave no server up
                try:
                    self._residents.stop_all()
                finally:
                    self._measurer.sending.close()
                    self._telemetry.stop()

    def _rounds(self, loop: LoopRunner, done: set[tuple[int, str, str, BlockKind]]) -> Outcome:
        rounds = 0
        for steps in Plan(self._experiment).groups():
            pending = [s for s in self._roster.standing(steps) if s.key not in done]
            asking = [s for s in self._roster.standing(_last_of_visits(steps)) if self._quality.wants(s)]
            if pending or asking:
                refusal = self._ledger.refusal(
                    pending,
                    self._forecast.requests(pending) + self._quality.most_requests(asking),
                    self._forecast.worst_cost(pending),
                )
                if refusal:
                    return Outcome(rounds, refusal, None)
            for step in steps:
                ended = self._step(loop, step) if step in pending else None
                if ended is None and step in asking:
                    ended = self._ask(loop, step)
                if ended is not None:
                    return Outcome(rounds, ended, self._roster.failure())
            rounds = max(step.round for step in steps) + 1
            if not pending and rounds < self._experiment.budget.min_pairs:
                continue  # resumed: these rounds were looked at before
            look = self._stop(rounds)
            self._progress.round_done(
                rounds, self._forecast.remaining_s(self._roster.standing(steps), look, rounds), look.estimate
            )
            if look.stop:
                return Outcome(rounds, look.stop, None)
        return Outcome(rounds, f"all {rounds} rounds of the plan are measured", None)

    def _step(self, loop: LoopRunner, step: Step) -> str | None:
        """Measures one step; a text ends the run."""
        return self._guarded(step, lambda: self._measure(loop, step))

    def _ask(self, loop: LoopRunner, step: Step) -> str | None:
        """Asks the questions of a visit after its last block; a text ends the run."""

        def ask() -> None:
            try:
                self._quality.ask(loop.run, step)
            except EngineError as error:
                raise Died(error) from None  # it answered the blocks before: it gets one more chance

        return self._guarded(step, ask)

    def _guarded(self, step: Step, work: Callable[[], object]) -> str | None:
        """Does the work of a step; a text ends the run."""
        if self._roster.dropped(step.variant):
            return None
        if self._ledger.out_of_time:
            return self._time_reason()
        try:
            work()
        except OutOfTime:
            return self._time_reason()
        except EngineError as error:
            return self._roster.failed(step.variant, error)
        self._roster.worked(step.variant)
        return None

    def _measure(self, loop: LoopRunner, step: Step, workload: Workload | None = None) -> MeasuredBlock:
        before = time.monotonic()
        resident, start_s = self._residents.get(step)
        if start_s:
            self._ledger.saw_start(step.variant, start_s)
        for attempt in range(1 + _REPEATS):
            try:
                measured = self._run(loop, resident, step, workload)
            except EngineError as error:
                if self._ledger.out_of_time:
                    raise OutOfTime from None  # a request that the budget cut off is no fault of the server
                self._residents.discard(resident)
                raise Died(error) if death(resident) is not None else error from None
            limit = self._experiment.workload(step.cell.workload).output_tokens
            self._ledger.saw_requests(step.variant, [*measured.warmup, *measured.records], limit)
            self._sink.write_block(measured.block, measured.records, measured.samples)
            if attempt == 0:
                self._ledger.saw_block(step, time.monotonic() - before - start_s)
            self._progress.block_done(step)
            if measured.died is not None or not self._forecast.worth_repeating(step, measured.block):
                break
        if measured.died is not None:
            self._residents.discard(resident)
            raise Died(measured.died)
        if not measured.records:
            raise EngineError(
                "a block sent no request",
                where=f"{step.variant}, {step.cell.key}",
                remedy="raise the rate, or make the block longer",
            )
        if measured.block.errors == len(measured.records):
            raise Died(all_failed(resident, measured.records[-1], "every request of a block failed"))
        return measured

    def _run(self, loop: LoopRunner, resident: Resident, step: Step, workload: Workload | None) -> MeasuredBlock:
        return loop.run(
            self._measurer.measure(
                resident,
                step,
                self._sink.next_block_id(),
                deadline_ns=self._ledger.deadline_ns,
                on_request=lambda _record: self._progress.request_done(),
                workload=workload,
            )
        )

    def _time_reason(self) -> str:
        return f"time budget: {(self._experiment.budget.seconds or 0) / 60:.3g} min"


def _last_of_visits(steps: Sequence[Step]) -> list[Step]:
    """The last step of each visit to a variant in a round, in the order of the steps."""
    return list({(step.round, step.variant, step.kind): step for step in steps}.values())
