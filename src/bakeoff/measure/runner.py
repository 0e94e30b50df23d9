"""The runner: walks through the plan, block by block, saves each, and asks after every start group whether to stop."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ..client import LoopRunner, loop_runner
from ..errors import EngineError
from ..model import BlockKind, Engine, Environment, Experiment, Look, Stop
from .block import BlockMeasurer, MeasuredBlock, OutOfTime
from .budget import Ledger
from .environment import machine_fingerprint
from .plan import Plan, Step
from .progress import Progress
from .residents import Resident, Residents, StartSink, refuse_change
from .telemetry import Telemetry
from .warming import all_failed, death

# A burst of other work (a package update, a backup) is over after a block or two; what lasts longer is said instead.
_REPEATS = 2


class RunSink(StartSink, Protocol):
    """Where a run writes: blocks, starts, environment; and how it numbers them."""

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
    ) -> None:
        self._experiment = experiment
        self._sink = sink
        self._stop = stop
        self._ledger = ledger
        self._progress = progress or Progress()
        self._telemetry = Telemetry()
        self._residents = Residents(experiment, engines, sink, self._telemetry, self._progress)
        self._measurer = BlockMeasurer(experiment, self._residents, self._telemetry, self._progress)
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
        self._measurer.prompts.run_id = run_id
        known = environment or Environment()
        machine = machine_fingerprint(version)
        refuse_change("machine", known.machine, machine)
        self._residents.environment = msgspec.structs.replace(known, machine=machine)
        self._sink.write_environment(self._residents.environment)
        self._telemetry.start()
        try:
            with loop_runner() as loop:
                return self._rounds(loop, set(done))
        finally:
            try:
                self._residents.stop_all()
            finally:
                self._telemetry.stop()

    def _rounds(self, loop: LoopRunner, done: set[tuple[int, str, str, BlockKind]]) -> Outcome:
        rounds = 0
        for steps in Plan(self._experiment).groups():
            pending = [s for s in steps if s.key not in done and s.variant not in self._dropped]
            if pending:
                refusal = self._ledger.refusal(pending, self._requests(pending), self._worst_cost(pending))
                if refusal:
                    return Outcome(rounds, refusal, None)
            for index, step in enumerate(pending):
                ended = self._step(loop, step, pending[index:])
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

    def _step(self, loop: LoopRunner, step: Step, rest: Sequence[Step]) -> str | None:
        """Measures one step; a text ends the run. A variant that fails twice in a row is dropped, and said so."""
        if step.variant in self._dropped:
            return None
        if self._out_of_time():
            return self._time_reason()
        try:
            self._measure(loop, step)
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

    def _measure(self, loop: LoopRunner, step: Step) -> None:
        before = time.monotonic()
        resident, start_s = self._residents.get(step)
        if start_s:
            self._ledger.saw_start(step.variant, start_s)
        for attempt in range(1 + _REPEATS):
            try:
                measured = self._run(loop, resident, step)
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

    def _worth_repeating(self, step: Step, measured: MeasuredBlock) -> bool:
        """Whether a block that met a busy machine is measured again: the cause is others, and the budget allows it.

        The earlier try stays in the run folder; the comparison takes the last one of a place.
        """
        if not measured.block.health.contended:
            return False
        # Enough rounds to decide come before clean ones.
        rounds_left = self._experiment.budget.min_pairs - step.round
        places = [Step(step.round, 0, v.name, "measure", c, step.group) for v in self._experiment.variants
                  for c in self._experiment.cells()]  # fmt: skip
        need = self._ledger.predicted_s(places)
        budget = self._experiment.budget.seconds
        if budget is not None and need is not None and self._ledger.elapsed_s + need * rounds_left > budget:
            return False
        return self._ledger.refusal([step], self._requests([step]), self._worst_cost([step])) is None

    def _run(self, loop: LoopRunner, resident: Resident, step: Step) -> MeasuredBlock:
        return loop.run(
            self._measurer.measure(
                resident,
                step,
                self._sink.next_block_id(),
                deadline_ns=self._ledger.deadline_ns,
                on_request=lambda _record: self._progress.request_done(),
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


class _Died(EngineError):
    """Marks an error of a server that did answer and then failed (it gets one more chance)."""

    def __init__(self, error: EngineError) -> None:
        super().__init__(error.message, where=error.where, remedy=error.remedy, log_tail=error.log_tail)
        self.error = error
