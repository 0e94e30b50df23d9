"""The runner: walks through the plan, block by block, saves each, and asks after every start group whether to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from ..client import LoopRunner, loop_runner
from ..errors import EngineError
from ..model import BlockKind, Engine, Environment, Experiment, Look, Profile, Stop, Workload
from ..quality.items import LoadedTask
from ..quality.probabilities import Prompt
from .block import BlockMeasurer, MeasuredBlock, OutOfTime
from .budget import Ledger
from .divergence_pass import DivergenceSink, DivergenceWalks
from .environment import machine_fingerprint
from .pilot import Pilot
from .plan import Plan, Step
from .probes import Probes
from .profiling import Profiling
from .progress import Progress
from .quality_pass import AnswerSink, QualityPass
from .residents import Resident, Residents, StartSink, refuse_change
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
        self._failures: dict[str, int] = {}
        self._dropped: dict[str, EngineError] = {}

    def run(
        self,
        *,
        run_id: str,
        version: str,
        environment: Environment | None = None,
        done: Collection[tuple[int, str, str, BlockKind]] = (),
    ) -> Outcome:
        """Measures until the stop rule, the budget or the plan ends it.

        To resume, give the blocks that exist (`done`) and the `environment` in which they were measured.
        Raises KeyboardInterrupt as it comes (blocks so far are saved); servers are stopped in any case.
        """
        with self._at_work(run_id, version, environment) as loop:
            return self._rounds(loop, set(done))

    def search(
        self,
        *,
        run_id: str,
        version: str,
        environment: Environment | None = None,
        known: Mapping[tuple[str, str], Reading] | None = None,
    ) -> Experiment:
        """Finds the load levels that the experiment leaves open, with probe blocks; returns it with all levels.

        known: what probe blocks of an interrupted search showed, by (variant, cell). Raises as `run` does, and
        EngineError where a variant answers nothing.
        """
        with self._at_work(run_id, version, environment) as loop:
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
        *,
        run_id: str,
        version: str,
        environment: Environment | None = None,
        traces: Path,
        known: Collection[str] = (),
        save: Callable[[Profile], None],
    ) -> None:
        """A short profiled pass of each variant but the `known` ones; files go below `traces`. Raises as `run` does."""
        with self._at_work(run_id, version, environment) as loop:
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
        *,
        run_id: str,
        version: str,
        environment: Environment | None = None,
        sink: DivergenceSink,
        prompts: Sequence[Prompt] = (),
    ) -> None:
        """Every variant's probabilities along the base's own answers to the prompts (none: the first workload's).

        Raises as `run` does; a variant that tells no probabilities is saved with the reason.
        """
        asked = self._experiment.quality.divergence if self._experiment.quality else None
        if asked is None:
            return
        with self._at_work(run_id, version, environment) as loop, suppress(OutOfTime):
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
    def _at_work(self, run_id: str, version: str, environment: Environment | None) -> Iterator[LoopRunner]:
        """The loop to measure in, with telemetry; servers are stopped in any case."""
        self._measurer.prompts.run_id = run_id
        known = environment or Environment()
        machine = machine_fingerprint(version)
        refuse_change("machine", known.machine, machine)
        self._residents.environment = msgspec.structs.replace(known, machine=machine)
        self._sink.write_environment(self._residents.environment)
        self._telemetry.start()
        try:
            with loop_runner() as loop:
                yield loop
        finally:
            try:
                self._residents.stop_all()
            finally:
                self._measurer.sending.close()
                self._telemetry.stop()

    def _rounds(self, loop: LoopRunner, done: set[tuple[int, str, str, BlockKind]]) -> Outcome:
        rounds = 0
        for steps in Plan(self._experiment).groups():
            pending = [s for s in steps if s.key not in done and s.variant not in self._dropped]
            asking = [s for s in _last_of_visits(steps) if s.variant not in self._dropped and self._quality.wants(s)]
            if pending or asking:
                refusal = self._ledger.refusal(
                    pending, self._requests(pending) + self._quality.most_requests(asking), self._worst_cost(pending)
                )
                if refusal:
                    return Outcome(rounds, refusal, None)
            for step in steps:
                ended = self._step(loop, step) if step in pending else None
                if ended is None and step in asking:
                    ended = self._ask(loop, step)
                if ended is not None:
                    return Outcome(rounds, ended, self._failure())
            rounds = max(step.round for step in steps) + 1
            if not pending and rounds < self._experiment.budget.min_pairs:
                continue  # resumed: these rounds were looked at before
            look = self._stop(rounds)
            self._progress.round_done(rounds, self._remaining(steps, look, rounds), look.estimate)
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
                raise _Died(error) from None  # it answered the blocks before: it gets one more chance

        return self._guarded(step, ask)

    def _guarded(self, step: Step, work: Callable[[], object]) -> str | None:
        """Does the work of a step; a text ends the run. A variant that fails twice in a row is dropped, and said so."""
        if step.variant in self._dropped:
            return None
        if self._out_of_time():
            return self._time_reason()
        try:
            work()
            self._failures[step.variant] = 0
        except OutOfTime:
            return self._time_reason()
        except EngineError as error:
            self._failures[step.variant] = self._failures.get(step.variant, 0) + 1
            self._progress.note(f"{step.variant}: {error.message}")
            # A server that never got ready will not do better at once; one that died gets a second chance.
            if not isinstance(error, _Died) or self._failures[step.variant] >= 2:
                self._dropped[step.variant] = error.error if isinstance(error, _Died) else error
                if (failure := self._failure()) is not None:
                    several = len(self._experiment.candidates) > 1 and step.variant != self._experiment.base.name
                    return failure.message if several else f"{step.variant} failed: {failure.message}"
                self._progress.note(f"{step.variant} is dropped; the others go on")
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
                if self._out_of_time():
                    raise OutOfTime from None  # a request that the budget cut off is no fault of the server
                self._residents.discard(resident)
                raise _Died(error) if death(resident) is not None else error from None
            limit = self._experiment.workload(step.cell.workload).output_tokens
            self._ledger.saw_requests(step.variant, [*measured.warmup, *measured.records], limit)
            self._sink.write_block(measured.block, measured.records, measured.samples)
            if attempt == 0:
                self._ledger.saw_block(step, time.monotonic() - before - start_s)
            self._progress.block_done(step)
            if measured.died is not None or not self._worth_repeating(step, measured):
                break
        if measured.died is not None:
            self._residents.discard(resident)
            raise _Died(measured.died)
        if not measured.records:
            raise EngineError(
                "a block sent no request",
                where=f"{step.variant}, {step.cell.key}",
                remedy="raise the rate, or make the block longer",
            )
        if measured.block.errors == len(measured.records):
            raise _Died(all_failed(resident, measured.records[-1], "every request of a block failed"))
        return measured

    def _worth_repeating(self, step: Step, measured: MeasuredBlock) -> bool:
        """Whether a block that met a busy machine is measured again: the cause is others, and the budget allows it.

        The earlier try stays in the run folder; the comparison takes the last one of a place.
        """
        if step.kind == "probe" or not measured.block.health.contended:
            return False  # a probe chooses levels, which need not be exact
        # Enough rounds to decide come before clean ones.
        rounds_left = self._experiment.budget.min_pairs - step.round
        places = [Step(step.round, 0, v.name, "measure", c, step.group) for v in self._experiment.variants
                  for c in self._experiment.cells()]  # fmt: skip
        need = self._ledger.predicted_s(places)
        budget = self._experiment.budget.seconds
        if budget is not None and need is not None and self._ledger.elapsed_s + need * rounds_left > budget:
            return False
        return self._ledger.refusal([step], self._requests([step]), self._worst_cost([step])) is None

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

    def _out_of_time(self) -> bool:
        budget = self._experiment.budget.seconds
        return budget is not None and self._ledger.elapsed_s > budget

    def _time_reason(self) -> str:
        return f"time budget: {(self._experiment.budget.seconds or 0) / 60:.3g} min"

    def _failure(self) -> EngineError | None:
        """The error that leaves nothing to compare: the base is gone, or every candidate is."""
        base = self._experiment.base.name
        if base in self._dropped:
            return self._dropped[base]
        gone = [self._dropped.get(candidate.name) for candidate in self._experiment.candidates]
        failed = [error for error in gone if error is not None]
        if len(failed) < len(gone):
            return None
        if len(failed) == 1:
            return failed[0]
        names = [candidate.name for candidate in self._experiment.candidates]
        reasons = "; ".join(f"{name}: {error.message}" for name, error in zip(names, failed, strict=True))
        return EngineError(f"every candidate failed: {reasons}", remedy=failed[0].remedy, log_tail=failed[0].log_tail)

    def _requests(self, steps: Sequence[Step]) -> int:
        """Requests that these blocks may send at most, their warm-up included."""
        blocks = sum(self._experiment.workload(s.cell.workload).block.requests or 1 for s in steps)
        return blocks + sum(self._measurer.warmer.most(s) for s in steps)

    def _worst_cost(self, steps: Sequence[Step]) -> float:
        """Money these blocks may cost when every answer has its full length."""
        total = 0.0
        for step in steps:
            workload = self._experiment.workload(step.cell.workload)
            count = workload.block.requests or int((workload.block.seconds or 0) * max(step.cell.level, 1)) or 1
            count += self._measurer.warmer.most(step)
            tokens = workload.prompts.input_tokens or 1000  # unknown prompt lengths: a generous guess
            total += count * self._ledger.prices[step.variant].of(tokens, workload.output_tokens)
        return total

    def _remaining(self, steps: Sequence[Step], look: Look, rounds: int) -> float | None:
        """Predicted seconds to the end: rounds still needed × what a group like the last one takes."""
        per_group = self._ledger.predicted_s([s for s in steps if s.variant not in self._dropped])
        if per_group is None:
            return None
        per_round = per_group / max(1, len({s.round for s in steps}))
        budget = self._experiment.budget
        wanted = max(budget.min_pairs - rounds, look.more_rounds if look.more_rounds is not None else 1, 1)
        seconds = per_round * min(wanted, budget.max_pairs - rounds)
        return seconds if budget.seconds is None else min(seconds, max(0.0, budget.seconds - self._ledger.elapsed_s))


def _last_of_visits(steps: Sequence[Step]) -> list[Step]:
    """The last step of each visit to a variant in a round, in the order of the steps."""
    return list({(step.round, step.variant, step.kind): step for step in steps}.values())


class _Died(EngineError):
    """Marks an error of a server that did answer and then failed (it gets one more chance)."""

    def __init__(self, error: EngineError) -> None:
        super().__init__(error.message, where=error.where, remedy=error.remedy, log_tail=error.log_tail)
        self.error = error
